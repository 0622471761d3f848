//! The options of the controller: flags, environment variables and defaults, as upstream reads them (OPS sections 1
//! and 2). Pure: arguments and environment come in, options or a message come out.

mod definitions;
mod gates;
mod parse;

use std::time::Duration;

pub use definitions::{DEFINITIONS, OptionDef, OptionKind, SCHEDULING, usage};
pub use gates::{FeatureGates, GateError};
pub use parse::{FlagError, Values};

use crate::logging::LogLevel;

/// What to do with soft preferences of pods (OPS-020).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PreferencePolicy {
    /// Honour them as long as the pod can be scheduled.
    #[default]
    Respect,
    /// Schedule as if they were not there.
    Ignore,
}

/// Where consolidation may move pods; Kerf's own (DIS-104).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Destinations {
    /// Not onto nodes within their own `consolidateAfter`, as upstream from 1.14 on.
    #[default]
    Settled,
    /// Onto every node that is initialised, as upstream before.
    Any,
}

/// What to do when minValues cannot be met (OPS-021).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MinValuesPolicy {
    /// Do not launch.
    #[default]
    Strict,
    /// Launch with fewer.
    BestEffort,
}

/// The validated options.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// OPS-002; unused.
    pub karpenter_service: String,
    /// OPS-003.
    pub metrics_port: u16,
    /// OPS-004.
    pub health_probe_port: u16,
    /// OPS-005; requests per second.
    pub kube_client_qps: i64,
    /// OPS-006; requests.
    pub kube_client_burst: i64,
    /// OPS-007.
    pub enable_profiling: bool,
    /// OPS-008.
    pub disable_controller_warmup: bool,
    /// OPS-009.
    pub disable_leader_election: bool,
    /// OPS-010.
    pub disable_cluster_state_observability: bool,
    /// OPS-011.
    pub leader_election_name: String,
    /// OPS-012; "" is the pod's own namespace.
    pub leader_election_namespace: String,
    /// OPS-013; bytes, -1 for none.
    pub memory_limit: i64,
    /// OPS-014; millicores, always positive.
    pub cpu_requests: i64,
    /// OPS-015.
    pub log_level: LogLevel,
    /// OPS-016; comma-separated.
    pub log_output_paths: String,
    /// OPS-017; comma-separated.
    pub log_error_output_paths: String,
    /// OPS-018.
    pub batch_max_duration: Duration,
    /// OPS-019.
    pub batch_idle_duration: Duration,
    /// OPS-020.
    pub preference_policy: PreferencePolicy,
    /// OPS-021.
    pub min_values_policy: MinValuesPolicy,
    /// OPS-022.
    pub ignore_dra_requests: bool,
    /// OPS-023.
    pub feature_gates: FeatureGates,
    /// OPS-024; "" is the built-in list.
    pub instance_types_file_path: String,
    /// Kerf's own: where consolidation may move pods.
    pub consolidation_destinations: Destinations,
    /// Kerf's own: taint keys nodes lose by themselves while they start, besides the well-known ones.
    pub startup_taints: Vec<String>,
}

/// Why there are no options. The texts are upstream's (OPS-028).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A flag is unknown or has a bad value.
    #[error("parsing flags, {0}")]
    Flags(#[from] FlagError),
    /// A value outside its set or range; flag and variable share it.
    #[error("validating cli flags / env vars, invalid {variable} {value:?}")]
    Invalid {
        /// The variable's name.
        variable: &'static str,
        /// The value.
        value: String,
    },
    /// The feature gates cannot be read.
    #[error("parsing feature gates, {0}")]
    Gates(#[from] GateError),
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed<T> {
    /// To run with these.
    Run(T),
    /// To explain itself (OPS-029).
    Help,
}

impl Options {
    /// Reads the controller's options from `args` (without the program's name) and the environment.
    pub fn parse(
        args: impl IntoIterator<Item = String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Parsed<Self>, OptionsError> {
        match Values::parse(DEFINITIONS, args, env)? {
            Parsed::Help => Ok(Parsed::Help),
            Parsed::Run(values) => Ok(Parsed::Run(Self::from_values(&values)?)),
        }
    }

    /// Validates values that were parsed with at least [`DEFINITIONS`]; an option that was not defined has its
    /// built-in default.
    pub fn from_values(values: &Values) -> Result<Self, OptionsError> {
        let log_level = values.string("log-level");
        let log_level = log_level.parse().map_err(|()| invalid("LOG_LEVEL", log_level))?;
        let scheduling = SchedulingOptions::from_values(values)?;
        Ok(Self {
            karpenter_service: values.string("karpenter-service").to_owned(),
            metrics_port: port(values, "metrics-port", "METRICS_PORT")?,
            health_probe_port: port(values, "health-probe-port", "HEALTH_PROBE_PORT")?,
            kube_client_qps: values.int("kube-client-qps"),
            kube_client_burst: values.int("kube-client-burst"),
            enable_profiling: values.bool("enable-profiling"),
            disable_controller_warmup: values.bool("disable-controller-warmup"),
            disable_leader_election: values.bool("disable-leader-election"),
            disable_cluster_state_observability: values.bool("disable-cluster-state-observability"),
            leader_election_name: values.string("leader-election-name").to_owned(),
            leader_election_namespace: values.string("leader-election-namespace").to_owned(),
            memory_limit: values.int("memory-limit"),
            cpu_requests: scheduling.cpu_requests,
            log_level,
            log_output_paths: sinks(values, "log-output-paths", "LOG_OUTPUT_PATHS")?,
            log_error_output_paths: sinks(values, "log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS")?,
            batch_max_duration: values.duration("batch-max-duration").to_std(),
            batch_idle_duration: values.duration("batch-idle-duration").to_std(),
            preference_policy: scheduling.preference_policy,
            min_values_policy: scheduling.min_values_policy,
            ignore_dra_requests: scheduling.ignore_dra_requests,
            feature_gates: scheduling.feature_gates,
            instance_types_file_path: values.string("instance-types-file-path").to_owned(),
            consolidation_destinations: match values.string("consolidation-destinations") {
                "Settled" => Destinations::Settled,
                "Any" => Destinations::Any,
                other => return Err(invalid("CONSOLIDATION_DESTINATIONS", other)),
            },
            startup_taints: taint_keys(values.string("startup-taints"))?,
        })
    }

    /// How many candidates the simulations of provisioning and disruption evaluate in parallel (SCH-004).
    pub fn simulation_workers(&self) -> usize {
        workers(self.cpu_requests)
    }
}

impl Default for Options {
    fn default() -> Self {
        match Self::parse([], |_| None) {
            Ok(Parsed::Run(options)) => options,
            Ok(Parsed::Help) | Err(_) => unreachable!("the defaults are valid, a test says so"),
        }
    }
}

/// The options that decide how pods are scheduled: shared with the commands that only simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulingOptions {
    /// OPS-014; millicores, always positive.
    pub cpu_requests: i64,
    /// OPS-020.
    pub preference_policy: PreferencePolicy,
    /// OPS-021.
    pub min_values_policy: MinValuesPolicy,
    /// OPS-022.
    pub ignore_dra_requests: bool,
    /// OPS-023.
    pub feature_gates: FeatureGates,
}

impl SchedulingOptions {
    /// Validates values that were parsed with at least [`SCHEDULING`].
    pub fn from_values(values: &Values) -> Result<Self, OptionsError> {
        let preference_policy = match values.string("preference-policy") {
            "Respect" => PreferencePolicy::Respect,
            "Ignore" => PreferencePolicy::Ignore,
            other => return Err(invalid("PREFERENCE_POLICY", other)),
        };
        let min_values_policy = match values.string("min-values-policy") {
            "Strict" => MinValuesPolicy::Strict,
            "BestEffort" => MinValuesPolicy::BestEffort,
            other => return Err(invalid("MIN_VALUES_POLICY", other)),
        };
        let cpu_requests = values.int("cpu-requests");
        Ok(Self {
            cpu_requests: if cpu_requests > 0 { cpu_requests } else { 1000 },
            preference_policy,
            min_values_policy,
            ignore_dra_requests: values.bool("ignore-dra-requests"),
            feature_gates: values.string("feature-gates").parse()?,
        })
    }

    /// How many candidates the provisioner's simulation evaluates in parallel (SCH-004).
    pub fn simulation_workers(&self) -> usize {
        workers(self.cpu_requests)
    }
}

/// One per started processor (SCH-004).
fn workers(cpu_requests: i64) -> usize {
    usize::try_from(cpu_requests.saturating_add(999) / 1000)
        .unwrap_or(1)
        .max(1)
}

fn invalid(variable: &'static str, value: &str) -> OptionsError {
    OptionsError::Invalid {
        variable,
        value: value.to_owned(),
    }
}

fn port(values: &Values, flag: &str, variable: &'static str) -> Result<u16, OptionsError> {
    let value = values.int(flag);
    u16::try_from(value).map_err(|_| invalid(variable, &value.to_string()))
}

fn sinks(values: &Values, flag: &str, variable: &'static str) -> Result<String, OptionsError> {
    let value = values.string(flag);
    // A destination without a name cannot be opened (OPS-027).
    if value.split(',').any(str::is_empty) {
        Err(invalid(variable, value))
    } else {
        Ok(value.to_owned())
    }
}

/// The keys of a list; ones with a value or an effect would never match, so they are refused.
fn taint_keys(value: &str) -> Result<Vec<String>, OptionsError> {
    let keys = value.split(',').map(str::trim).filter(|key| !key.is_empty());
    keys.map(|key| {
        let plain = !key.contains(['=', ':', ' ']) && key != "/";
        plain
            .then(|| key.to_owned())
            .ok_or_else(|| invalid("STARTUP_TAINTS", value))
    })
    .collect()
}
