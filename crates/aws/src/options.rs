//! Options of the provider (section 26 of `docs/behaviour/aws.md`). Flags win over environment variables.

use kerf_runtime::options::go_bool;
use kerf_units::duration::GoDuration;
use kerf_units::nearest_name::nearest;
use std::collections::BTreeMap;

/// One option: its flag, its environment variable, and its default as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionDefinition {
    /// Flag without dashes.
    pub flag: &'static str,
    /// Environment variable.
    pub env: &'static str,
    /// Default; empty for none.
    pub default: &'static str,
}

const fn option(flag: &'static str, env: &'static str, default: &'static str) -> OptionDefinition {
    OptionDefinition { flag, env, default }
}

/// All options.
pub const DEFINITIONS: [OptionDefinition; 15] = [
    option("cluster-name", "CLUSTER_NAME", ""),
    option("cluster-endpoint", "CLUSTER_ENDPOINT", ""),
    option("cluster-ca-bundle", "CLUSTER_CA_BUNDLE", ""),
    option("isolated-vpc", "ISOLATED_VPC", "false"),
    option("eks-control-plane", "EKS_CONTROL_PLANE", "false"),
    option("vm-memory-overhead-percent", "VM_MEMORY_OVERHEAD_PERCENT", "0.075"),
    option("interruption-queue", "INTERRUPTION_QUEUE", ""),
    option("reserved-enis", "RESERVED_ENIS", "0"),
    option("disable-dry-run", "DISABLE_DRY_RUN", "false"),
    option("enable-zonal-shift", "ENABLE_ZONAL_SHIFT", "false"),
    option("ami-refresh-interval", "AMI_REFRESH_INTERVAL", "1m"),
    option("subnet-refresh-interval", "SUBNET_REFRESH_INTERVAL", "1m"),
    option("aws-feature-gates", "AWS_FEATURE_GATES", ""),
    option("learn-memory", "LEARN_MEMORY", "true"),
    option("instance-status-dry-run", "INSTANCE_STATUS_DRY_RUN", "false"),
];

/// Features of the provider that are off unless they are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwsFeatureGates {
    /// `NodeClassCEL`: kubelet settings of a class may be expressions.
    pub node_class_cel: bool,
    /// `ExtendedKubeletConfiguration`: a class may have every field of kubelet's configuration.
    pub extended_kubelet: bool,
}

impl AwsFeatureGates {
    /// The names of the gates.
    pub const NAMES: [&str; 2] = ["NodeClassCEL", "ExtendedKubeletConfiguration"];

    /// Reads `Name=true,Name=false`; the last entry of a gate counts. An unknown gate is an error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) = entry
                .split_once('=')
                .ok_or_else(|| format!("has the malformed pair {entry:?}, expect Name=true or Name=false"))?;
            let on = go_bool(value.trim()).ok_or_else(|| {
                format!(
                    "has the value {:?} for {}, which must be true or false",
                    value.trim(),
                    name.trim()
                )
            })?;
            match name.trim() {
                "NodeClassCEL" => gates.node_class_cel = on,
                "ExtendedKubeletConfiguration" => gates.extended_kubelet = on,
                unknown => {
                    let meant = nearest(unknown, Self::NAMES).map(|meant| format!(" (did you mean {meant}?)"));
                    let (meant, known) = (meant.unwrap_or_default(), Self::NAMES.join(", "));
                    return Err(format!("has the unknown gate {unknown}{meant}; known are {known}"));
                }
            }
        }
        Ok(gates)
    }
}

/// Reads the part of memory that the hypervisor is expected to keep. The error says what is accepted.
pub fn memory_overhead(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part.is_finite() && part >= 0.0 => Ok(part),
        Ok(part) if part < 0.0 => Err("cannot be negative".to_owned()),
        Ok(_) | Err(_) => Err("must be a number such as 0.075".to_owned()),
    }
}

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

/// Reads options and collects what is wrong with them.
struct Reader<'a> {
    flags: &'a BTreeMap<String, String>,
    env: &'a dyn Fn(&str) -> Option<String>,
    errors: Vec<String>,
}

impl Reader<'_> {
    /// The text of an option.
    fn text(&self, flag: &str) -> String {
        self.parsing(flag, |_| true)
    }

    /// The text of an option. A variable that does not parse counts as absent (OPS-026).
    fn parsing(&self, flag: &str, parses: impl Fn(&str) -> bool) -> String {
        if let Some(text) = self.flags.get(flag) {
            return text.clone();
        }
        let definition = DEFINITIONS.iter().find(|definition| definition.flag == flag);
        let env = definition.and_then(|definition| (self.env)(definition.env));
        let default = definition.map_or("", |definition| definition.default);
        env.filter(|text| parses(text)).unwrap_or_else(|| default.to_owned())
    }

    fn boolean(&mut self, flag: &str) -> bool {
        let text = self.parsing(flag, |text| go_bool(text).is_some());
        match go_bool(&text) {
            Some(on) => on,
            None => self.wrong(flag, "must be true or false"),
        }
    }

    fn memory_overhead(&mut self, flag: &str) -> f64 {
        let text = self.parsing(flag, |text| text.parse::<f64>().is_ok());
        memory_overhead(&text).unwrap_or_else(|problem| self.wrong(flag, &problem))
    }

    /// A number of at least zero.
    fn count(&mut self, flag: &str) -> i64 {
        let text = self.parsing(flag, |text| text.parse::<i64>().is_ok());
        match text.parse() {
            Ok(count) if count >= 0 => count,
            Ok(_) => self.wrong(flag, "cannot be negative"),
            Err(_) => self.wrong(flag, "must be a number"),
        }
    }

    fn interval(&mut self, flag: &str) -> GoDuration {
        let text = self.parsing(flag, |text| text.parse::<GoDuration>().is_ok());
        match text.parse::<GoDuration>() {
            Ok(interval) if interval >= REFRESH_MIN => interval,
            Ok(_) => self.wrong(flag, "must be at least 1m"),
            Err(_) => self.wrong(flag, "must be a duration such as 1m30s"),
        }
    }

    fn gates(&mut self, flag: &str) -> AwsFeatureGates {
        let text = self.text(flag);
        match AwsFeatureGates::parse(&text) {
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
    /// Reads the options; all violations are reported together, and the process does not start then (AWS-352).
    pub fn read(flags: &BTreeMap<String, String>, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<String>> {
        let mut reader = Reader {
            flags,
            env,
            errors: Vec::new(),
        };
        let options = Self {
            cluster_name: reader.text("cluster-name"),
            cluster_endpoint: reader.text("cluster-endpoint"),
            cluster_ca_bundle: reader.text("cluster-ca-bundle"),
            isolated_vpc: reader.boolean("isolated-vpc"),
            eks_control_plane: reader.boolean("eks-control-plane"),
            vm_memory_overhead_percent: reader.memory_overhead("vm-memory-overhead-percent"),
            interruption_queue: reader.text("interruption-queue"),
            reserved_enis: reader.count("reserved-enis"),
            disable_dry_run: reader.boolean("disable-dry-run"),
            enable_zonal_shift: reader.boolean("enable-zonal-shift"),
            ami_refresh_interval: reader.interval("ami-refresh-interval"),
            subnet_refresh_interval: reader.interval("subnet-refresh-interval"),
            feature_gates: reader.gates("aws-feature-gates"),
            learn_memory: reader.boolean("learn-memory"),
            instance_status_dry_run: reader.boolean("instance-status-dry-run"),
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
