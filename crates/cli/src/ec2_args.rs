//! The flags about instance types of EC2NodeClasses, as typed.

use clap::{ArgAction, Args, ValueHint};
use kerf_aws::options::{AwsFeatureGates, memory_overhead};
use kerf_runtime::options::go_bool;
use std::path::PathBuf;

/// A truth value as the controller reads it.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    go_bool(text).ok_or_else(|| "must be true or false".to_owned())
}

/// What the instance types of EC2NodeClasses depend on.
#[derive(Args, Debug)]
pub(crate) struct Ec2Args {
    /// Region of EC2NodeClasses [default: us-east-1].
    #[arg(long, env = "AWS_REGION", value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// On-demand prices: a CSV file with a heading and lines of region,instance_type,currency,price_per_hour. It must have the region.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prices: Option<PathBuf>,
    /// Instances left in capacity reservations: the output of `aws ec2 describe-capacity-reservations`. Without it, one in each.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) capacity_reservations: Option<PathBuf>,
    /// Part of an instance's memory that the hypervisor is expected to keep.
    #[arg(
        long,
        env = "VM_MEMORY_OVERHEAD_PERCENT",
        value_name = "PART",
        default_value = "0.075",
        allow_negative_numbers = true,
        value_parser = memory_overhead
    )]
    pub(crate) vm_memory_overhead_percent: f64,
    /// Whether the memory that registered nodes reported counts, as the annotation kerf.sh/discovered-memory of an EC2NodeClass has it.
    #[arg(long, env = "LEARN_MEMORY", value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set, value_parser = boolean)]
    pub(crate) learn_memory: bool,
    /// Network interfaces of each instance that carry no pods.
    #[arg(long, env = "RESERVED_ENIS", value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) reserved_enis: i64,
    /// Features of the AWS provider as Name=true, comma separated: NodeClassCEL (expressions in kubelet settings) and
    /// ExtendedKubeletConfiguration (every field of kubelet's configuration).
    #[arg(long, env = "AWS_FEATURE_GATES", value_name = "GATES", default_value = "", value_parser = AwsFeatureGates::parse)]
    pub(crate) aws_feature_gates: AwsFeatureGates,
}

/// The region whose prices are built in.
const DEFAULT_REGION: &str = "us-east-1";

impl Ec2Args {
    /// The region, without a call of AWS.
    pub(crate) fn region(&self) -> &str {
        self.region
            .as_deref()
            .filter(|region| !region.is_empty())
            .unwrap_or(DEFAULT_REGION)
    }
}
