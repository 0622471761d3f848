//! The options of the AWS provider, which every build knows: a build without the provider checks manifests for one that has it.

use kerf_aws::options::AwsOptions;
use kerf_runtime::options::{OptionDef, OptionKind, OptionOrigin, Values};
use std::collections::BTreeMap;

const fn option(
    flag: &'static str,
    variable: &'static str,
    kind: OptionKind,
    default: &'static str,
    help: &'static str,
) -> OptionDef {
    OptionDef {
        flag,
        variable,
        kind,
        default,
        help,
        origin: OptionOrigin::Karpenter,
    }
}

/// The same for an option that Karpenter does not have.
const fn own_option(
    flag: &'static str,
    variable: &'static str,
    kind: OptionKind,
    default: &'static str,
    help: &'static str,
) -> OptionDef {
    OptionDef {
        origin: OptionOrigin::Kerf,
        ..option(flag, variable, kind, default, help)
    }
}

/// The options of the provider (section 26 of `docs/behaviour/aws.md`).
pub(crate) const OPTIONS: [OptionDef; 15] = [
    option(
        "cluster-name",
        "CLUSTER_NAME",
        OptionKind::Text,
        "",
        "name of the EKS cluster; required",
    ),
    option(
        "cluster-endpoint",
        "CLUSTER_ENDPOINT",
        OptionKind::Text,
        "",
        "URL of the API server that nodes join; asked of EKS if empty",
    ),
    option(
        "cluster-ca-bundle",
        "CLUSTER_CA_BUNDLE",
        OptionKind::Text,
        "",
        "CA bundle that nodes trust, as base64 text; that of the controller itself if empty",
    ),
    option(
        "isolated-vpc",
        "ISOLATED_VPC",
        OptionKind::Bool,
        "false",
        "the VPC reaches neither the Price List nor IAM",
    ),
    option(
        "eks-control-plane",
        "EKS_CONTROL_PLANE",
        OptionKind::Bool,
        "false",
        "ask EKS for the version of the cluster",
    ),
    option(
        "vm-memory-overhead-percent",
        "VM_MEMORY_OVERHEAD_PERCENT",
        OptionKind::Text,
        "0.075",
        "part of the memory that the hypervisor keeps",
    ),
    option(
        "interruption-queue",
        "INTERRUPTION_QUEUE",
        OptionKind::Text,
        "",
        "name of the SQS queue with interruption messages; none if empty",
    ),
    option(
        "reserved-enis",
        "RESERVED_ENIS",
        OptionKind::Text,
        "0",
        "network interfaces of each instance that carry no pods",
    ),
    option(
        "disable-dry-run",
        "DISABLE_DRY_RUN",
        OptionKind::Bool,
        "false",
        "do not validate node classes by dry runs",
    ),
    option(
        "enable-zonal-shift",
        "ENABLE_ZONAL_SHIFT",
        OptionKind::Bool,
        "false",
        "launch nothing in zones that ARC shifts traffic away from",
    ),
    option(
        "ami-refresh-interval",
        "AMI_REFRESH_INTERVAL",
        OptionKind::Text,
        "1m",
        "how long found images stay valid; at least 1m",
    ),
    option(
        "subnet-refresh-interval",
        "SUBNET_REFRESH_INTERVAL",
        OptionKind::Text,
        "1m",
        "how long found subnets stay valid; at least 1m",
    ),
    own_option(
        "learn-memory",
        "LEARN_MEMORY",
        OptionKind::Bool,
        "true",
        "learn from registered nodes how much memory instance types have, and keep it in an annotation of the EC2NodeClass",
    ),
    own_option(
        "instance-status-dry-run",
        "INSTANCE_STATUS_DRY_RUN",
        OptionKind::Bool,
        "false",
        "count instances that EC2 reports as unhealthy or to be maintained, but keep them",
    ),
    option(
        "aws-feature-gates",
        "AWS_FEATURE_GATES",
        OptionKind::Text,
        "",
        "features of the AWS provider as Name=true, comma separated: NodeClassCEL, ExtendedKubeletConfiguration",
    ),
];

/// The options, or everything that is wrong with them (AWS-352).
pub(crate) fn options(values: &Values, env: &impl Fn(&str) -> Option<String>) -> Result<AwsOptions, Vec<String>> {
    let given = OPTIONS.iter().filter(|option| values.is_given(option.flag));
    let text = |option: &OptionDef| match option.kind {
        OptionKind::Bool => values.bool(option.flag).to_string(),
        OptionKind::Text | OptionKind::Int | OptionKind::Duration => values.string(option.flag).to_owned(),
    };
    let flags: BTreeMap<String, String> = given.map(|option| (option.flag.to_owned(), text(option))).collect();
    AwsOptions::read(&flags, &|name| env(name).filter(|value| !value.is_empty()))
}
