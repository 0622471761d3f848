//! Options of the provider (section 26 of `docs/behaviour/aws.md`).

mod definitions;
mod gates;

pub use definitions::DEFINITIONS;
pub use gates::AwsFeatureGates;

use kerf_runtime::options::Values;
use kerf_units::duration::GoDuration;

/// The options as the provider uses them.
#[derive(Clone, Debug, PartialEq)]
pub struct AwsOptions {
    /// Name of the cluster.
    pub cluster_name: String,
    /// URL of the API server; asked of EKS if empty.
    pub cluster_endpoint: String,
    /// CA bundle as base64 text; that of the Kubernetes client if empty.
    pub cluster_ca_bundle: String,
    /// Whether the Price List and IAM cannot be reached.
    pub isolated_vpc: bool,
    /// Whether the version of the cluster is asked of EKS.
    pub eks_control_plane: bool,
    /// Part of memory that the hypervisor is expected to keep.
    pub vm_memory_overhead_percent: f64,
    /// Name of the interruption queue; none if empty.
    pub interruption_queue: String,
    /// Network interfaces of each instance that carry no pods.
    pub reserved_enis: i64,
    /// Whether classes are not validated by dry runs.
    pub disable_dry_run: bool,
    /// Whether zonal shifts are obeyed.
    pub enable_zonal_shift: bool,
    /// How long found images stay valid.
    pub ami_refresh_interval: GoDuration,
    /// How long found subnets stay valid.
    pub subnet_refresh_interval: GoDuration,
    /// Features that are off unless they are asked for.
    pub feature_gates: AwsFeatureGates,
    /// Whether the memory of instance types is learned from registered nodes.
    pub learn_memory: bool,
    /// Whether instances that EC2 reports as unhealthy are counted only (AWS-323).
    pub instance_status_dry_run: bool,
}

/// Shortest refresh interval.
const REFRESH_MIN: GoDuration = GoDuration::from_secs(60);

/// Reads the part of memory that the hypervisor is expected to keep. The error says what is accepted.
pub fn memory_overhead(text: &str) -> Result<f64, String> {
    // No number is read as one that is refused.
    Ok(valid_memory_overhead(text.parse().unwrap_or(f64::NAN))?)
}

fn valid_memory_overhead(part: f64) -> Result<f64, &'static str> {
    if part < 0.0 {
        Err("cannot be negative")
    } else if part.is_finite() {
        Ok(part)
    } else {
        Err("must be a number such as 0.075")
    }
}

/// Values of options, and what is wrong with them.
struct Reader<'a> {
    values: &'a Values,
    errors: Vec<String>,
}

impl Reader<'_> {
    fn memory_overhead(&mut self, flag: &str) -> f64 {
        match valid_memory_overhead(self.values.decimal(flag)) {
            Ok(part) => part,
            Err(problem) => self.wrong(flag, problem),
        }
    }

    /// A number of at least zero.
    fn count(&mut self, flag: &str) -> i64 {
        match self.values.int(flag) {
            count if count >= 0 => count,
            _ => self.wrong(flag, "cannot be negative"),
        }
    }

    fn interval(&mut self, flag: &str) -> GoDuration {
        match self.values.duration(flag) {
            interval if interval >= REFRESH_MIN => interval,
            _ => self.wrong(flag, "must be at least 1m"),
        }
    }

    fn gates(&mut self, flag: &str) -> AwsFeatureGates {
        match AwsFeatureGates::parse(self.values.string(flag)) {
            Ok(gates) => gates,
            Err(problem) => self.wrong(flag, &problem),
        }
    }

    fn wrong<T: Default>(&mut self, flag: &str, problem: &str) -> T {
        self.errors.push(format!("{flag} {problem}"));
        T::default()
    }
}

/// Whether a text is an absolute URL with a host.
fn is_absolute_url(text: &str) -> bool {
    let rest = text.split_once("://").filter(|(scheme, _)| !scheme.is_empty());
    let host = rest.and_then(|(_, rest)| rest.split('/').next());
    host.is_some_and(|host| !host.is_empty() && !host.starts_with(':'))
}

impl AwsOptions {
    /// The options among the values of [`DEFINITIONS`]. The error has everything that is wrong with them: the process does not start then
    /// (AWS-352).
    pub fn from_values(values: &Values) -> Result<Self, Vec<String>> {
        let mut reader = Reader {
            values,
            errors: Vec::new(),
        };
        let options = Self {
            cluster_name: values.string("cluster-name").to_owned(),
            cluster_endpoint: values.string("cluster-endpoint").to_owned(),
            cluster_ca_bundle: values.string("cluster-ca-bundle").to_owned(),
            isolated_vpc: values.bool("isolated-vpc"),
            eks_control_plane: values.bool("eks-control-plane"),
            vm_memory_overhead_percent: reader.memory_overhead("vm-memory-overhead-percent"),
            interruption_queue: values.string("interruption-queue").to_owned(),
            reserved_enis: reader.count("reserved-enis"),
            disable_dry_run: values.bool("disable-dry-run"),
            enable_zonal_shift: values.bool("enable-zonal-shift"),
            ami_refresh_interval: reader.interval("ami-refresh-interval"),
            subnet_refresh_interval: reader.interval("subnet-refresh-interval"),
            feature_gates: reader.gates("aws-feature-gates"),
            learn_memory: values.bool("learn-memory"),
            instance_status_dry_run: values.bool("instance-status-dry-run"),
        };
        if options.cluster_name.is_empty() {
            reader.errors.push("missing field, cluster-name".to_owned());
        }
        let endpoint = &options.cluster_endpoint;
        if !endpoint.is_empty() && !is_absolute_url(endpoint) {
            let problem = format!("{endpoint:?} is not a valid cluster-endpoint URL");
            reader.errors.push(problem);
        }
        if reader.errors.is_empty() {
            Ok(options)
        } else {
            Err(reader.errors)
        }
    }
}
