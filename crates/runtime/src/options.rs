//! The options of the controller: flags, environment variables and defaults, as upstream reads them (sections 1 and 2 of
//! `docs/behaviour/operations.md`). Pure: the input is arguments and environment, the output is options or a message.

mod definitions;
mod gates;
mod parse;
mod remarks;

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

pub use definitions::{DEFINITIONS, OptionDef, OptionKind, OptionOrigin, option, usage};
pub use gates::{FeatureGates, GateError};
pub use parse::{FlagError, Values, go_bool};
pub use remarks::{Remark, unknown_gates};

use kerf_api::SchedulerConfig;
use kerf_units::launch_price_range::LaunchPriceRange;
use kerf_units::min_savings::MinSavingsPercent;
use kerf_units::nominated_pods::NominatedPodsMax;
use kerf_units::policy::{
    CommandsPerPass, Destinations, ForecastBinding, MinValuesPolicy, NodeOverheadCost, Packing, PreferencePolicy,
    Replacements,
};
use kerf_units::savings_per_pod::SavingsPerPod;

use crate::logging::LogLevel;

/// The validated options.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Name of the service; read for compatibility and not used (OPS-002).
    pub karpenter_service: String,
    /// Port of the metrics endpoint; 0 takes a free one (OPS-003).
    pub metrics_port: u16,
    /// Port of the health probes; 0 takes a free one (OPS-004).
    pub health_probe_port: u16,
    /// Limit of requests to the API server, per second; negative for none (OPS-005).
    pub kube_client_qps: i64,
    /// How many requests may exceed the limit in a burst (OPS-006).
    pub kube_client_burst: i64,
    /// Whether the metrics port also answers the paths of the profiler (OPS-007).
    pub enable_profiling: bool,
    /// Read for compatibility: watches always start before the lease is held (OPS-008).
    pub disable_controller_warmup: bool,
    /// Whether the process leads without an election (OPS-009).
    pub disable_leader_election: bool,
    /// Whether the metrics of pools, nodes and pods are left out (OPS-010).
    pub disable_cluster_state_observability: bool,
    /// Name of the lease (OPS-011).
    pub leader_election_name: String,
    /// Namespace of the lease; `None` for the namespace of the pod (OPS-012).
    pub leader_election_namespace: Option<String>,
    /// Memory limit in bytes, -1 for none; has no effect (OPS-013).
    pub memory_limit: i64,
    /// CPU requested for this process in millicores, always positive; decides how many workers run (OPS-014).
    pub cpu_requests: i64,
    /// Lowest level that is logged (OPS-015).
    pub log_level: LogLevel,
    /// Where log lines go, comma-separated (OPS-016).
    pub log_output_paths: String,
    /// Where errors of the logger go, comma-separated (OPS-017).
    pub log_error_output_paths: String,
    /// The longest a batch of pods may grow (OPS-018).
    pub batch_max_duration: Duration,
    /// A batch ends when no pod was added for this long (OPS-019).
    pub batch_idle_duration: Duration,
    /// How preferences of pods count (OPS-020).
    pub preference_policy: PreferencePolicy,
    /// What happens if `minValues` cannot be met (OPS-021).
    pub min_values_policy: MinValuesPolicy,
    /// Whether pods with resource claims are left alone; otherwise they are planned as if they had none (OPS-022).
    pub ignore_dra_requests: bool,
    /// Feature gates (OPS-023).
    pub feature_gates: FeatureGates,
    /// File with instance types; `None` for the built-in list (OPS-024).
    pub instance_types_file_path: Option<String>,
    /// Kerf's own: how nodes are chosen.
    pub packing: Packing,
    /// Kerf's own: what a node costs besides its price.
    pub node_overhead_cost: NodeOverheadCost,
    /// Kerf's own: whether plans are chosen by what they cost after kube-scheduler has bound their pods.
    pub forecast_binding: ForecastBinding,
    /// Kerf's own: how much dearer than its cheapest the instance types of a launch may be.
    pub launch_price_range_percent: LaunchPriceRange,
    /// Kerf's own: what the cluster's kube-scheduler is configured to do.
    pub scheduler_config: SchedulerConfig,
    /// Kerf's own: where consolidation may move pods.
    pub consolidation_destinations: Destinations,
    /// Kerf's own: what a consolidation command must save per hour for each pod it moves.
    pub consolidation_savings_per_pod: SavingsPerPod,
    /// Kerf's own: what replacements must save of the price of the nodes they replace.
    pub consolidation_min_savings_percent: MinSavingsPercent,
    /// Kerf's own: how many nodes may replace those of a consolidation command.
    pub consolidation_replacements: Replacements,
    /// Kerf's own: how many commands of consolidation a pass may start.
    pub commands_per_pass: CommandsPerPass,
    /// Kerf's own: taint keys nodes lose by themselves while they start, besides the well-known ones.
    pub startup_taints: Vec<String>,
    /// Kerf's own: whether nodes to which a large command of consolidation moves no pods are tainted meanwhile.
    pub destination_taints: bool,
    /// Kerf's own: up to how many waiting pods are nominated to the nodes they are planned onto.
    pub nominated_pods_max: NominatedPodsMax,
    /// Kerf's own: whether decisions are made and compared with those of another autoscaler, and none is carried out.
    pub observe: bool,
    /// Kerf's own: the file that such decisions are appended to; `None` for the log alone.
    pub observe_file: Option<String>,
}

/// Everything that is wrong with the options: flags first, then values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(.0))]
pub struct OptionsErrors(Vec<OptionsError>);

impl OptionsErrors {
    /// Each problem.
    pub fn iter(&self) -> impl Iterator<Item = &OptionsError> {
        self.0.iter()
    }
}

fn joined(errors: &[OptionsError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
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
    /// An option of Kerf's own has an invalid value.
    #[error("validating cli flags, invalid {variable} {problem}")]
    Refused {
        /// The variable of the option.
        variable: &'static str,
        /// The value, and what is accepted instead.
        problem: String,
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
    ) -> Result<Parsed<Self>, OptionsErrors> {
        match Values::parse(DEFINITIONS, args, env) {
            Parsed::Help => Ok(Parsed::Help),
            Parsed::Run(values) => Ok(Parsed::Run(Self::from_values(&values)?)),
        }
    }

    /// Validates values that were parsed with at least [`DEFINITIONS`]; an option that was not defined has its
    /// built-in default. The error has every problem, those of the command line included.
    pub fn from_values(values: &Values) -> Result<Self, OptionsErrors> {
        let mut check = Check::new(values);
        let options = Self {
            karpenter_service: values.string("karpenter-service").to_owned(),
            metrics_port: check.port("metrics-port", "METRICS_PORT"),
            health_probe_port: check.port("health-probe-port", "HEALTH_PROBE_PORT"),
            kube_client_qps: values.int("kube-client-qps"),
            kube_client_burst: values.int("kube-client-burst"),
            enable_profiling: values.bool("enable-profiling"),
            disable_controller_warmup: values.bool("disable-controller-warmup"),
            disable_leader_election: values.bool("disable-leader-election"),
            disable_cluster_state_observability: values.bool("disable-cluster-state-observability"),
            leader_election_name: values.string("leader-election-name").to_owned(),
            leader_election_namespace: non_empty(values.string("leader-election-namespace")),
            memory_limit: values.int("memory-limit"),
            cpu_requests: check.cpu_requests(),
            log_level: check.one_of("log-level", "LOG_LEVEL"),
            log_output_paths: check.sinks("log-output-paths", "LOG_OUTPUT_PATHS"),
            log_error_output_paths: check.sinks("log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS"),
            batch_max_duration: values.duration("batch-max-duration").to_std(),
            batch_idle_duration: values.duration("batch-idle-duration").to_std(),
            preference_policy: check.one_of("preference-policy", "PREFERENCE_POLICY"),
            min_values_policy: check.one_of("min-values-policy", "MIN_VALUES_POLICY"),
            ignore_dra_requests: values.bool("ignore-dra-requests"),
            feature_gates: check.gates(),
            instance_types_file_path: non_empty(values.string("instance-types-file-path")),
            packing: check.own("packing", "PACKING"),
            node_overhead_cost: check.own("node-overhead-cost", "NODE_OVERHEAD_COST"),
            forecast_binding: check.one_of("forecast-binding", "FORECAST_BINDING"),
            launch_price_range_percent: check.own("launch-price-range-percent", "LAUNCH_PRICE_RANGE_PERCENT"),
            scheduler_config: check.own("scheduler-config", "SCHEDULER_CONFIG"),
            consolidation_destinations: check.one_of("consolidation-destinations", "CONSOLIDATION_DESTINATIONS"),
            consolidation_savings_per_pod: check
                .one_of("consolidation-savings-per-pod", "CONSOLIDATION_SAVINGS_PER_POD"),
            consolidation_min_savings_percent: check
                .one_of("consolidation-min-savings-percent", "CONSOLIDATION_MIN_SAVINGS_PERCENT"),
            consolidation_replacements: check.one_of("consolidation-replacements", "CONSOLIDATION_REPLACEMENTS"),
            commands_per_pass: check.one_of("disruption-commands-per-pass", "DISRUPTION_COMMANDS_PER_PASS"),
            startup_taints: check.taint_keys("startup-taints", "STARTUP_TAINTS"),
            destination_taints: values.bool("destination-taints"),
            nominated_pods_max: check.own("nominated-pods-max", "NOMINATED_PODS_MAX"),
            observe: values.bool("observe"),
            observe_file: check.observe_file(),
        };
        check.end(options)
    }

    /// How many candidates the simulations of provisioning and disruption evaluate in parallel (SCH-004).
    pub fn simulation_workers(&self) -> usize {
        // One per started processor.
        usize::try_from(self.cpu_requests.saturating_add(999) / 1000)
            .unwrap_or(1)
            .max(1)
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

/// The text of an option, `None` if it is empty: users unset an option that way.
fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The taint keys in a list separated by commas. Returns `None` if one has a value or an effect: such a key would never match.
pub fn taint_keys(text: &str) -> Option<Vec<String>> {
    let keys = text.split(',').map(str::trim).filter(|key| !key.is_empty());
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    let plain = keys.iter().all(|key| !key.contains(['=', ':', ' ']) && key != "/");
    plain.then_some(keys)
}

/// Validates values and collects what is wrong with them. A value that is wrong counts as its type's default until [`Check::end`].
struct Check<'a> {
    values: &'a Values,
    errors: Vec<OptionsError>,
}

impl<'a> Check<'a> {
    fn new(values: &'a Values) -> Self {
        Self {
            values,
            errors: values.errors.iter().cloned().map(OptionsError::Flags).collect(),
        }
    }

    /// The options, if nothing is wrong.
    fn end<T>(self, options: T) -> Result<T, OptionsErrors> {
        if self.errors.is_empty() {
            Ok(options)
        } else {
            Err(OptionsErrors(self.errors))
        }
    }

    fn or_default<T: Default>(&mut self, value: Result<T, OptionsError>) -> T {
        value.unwrap_or_else(|error| {
            self.errors.push(error);
            T::default()
        })
    }

    /// The value that a text stands for.
    fn one_of<T: FromStr + Default>(&mut self, flag: &str, variable: &'static str) -> T {
        let text = self.values.string(flag);
        self.or_default(text.parse::<T>().map_err(|_| invalid(variable, text)))
    }

    /// An option of Kerf's own. Its error says what is accepted. Empty means the default, as for an option that is not defined.
    fn own<T: FromStr<Err: Display> + Default>(&mut self, flag: &str, variable: &'static str) -> T {
        let text = self.values.string(flag);
        if text.is_empty() {
            return T::default();
        }
        let refused = |problem: T::Err| OptionsError::Refused {
            variable,
            problem: problem.to_string(),
        };
        self.or_default(text.parse::<T>().map_err(refused))
    }

    fn gates(&mut self) -> FeatureGates {
        let gates = self.values.string("feature-gates").parse::<FeatureGates>();
        self.or_default(gates.map_err(OptionsError::Gates))
    }

    /// Millicores, always positive (OPS-014).
    fn cpu_requests(&self) -> i64 {
        match self.values.int("cpu-requests") {
            positive @ 1.. => positive,
            _ => 1000,
        }
    }

    fn port(&mut self, flag: &str, variable: &'static str) -> u16 {
        let value = self.values.int(flag);
        self.or_default(u16::try_from(value).map_err(|_| invalid(variable, &value.to_string())))
    }

    /// A file of decisions, which only a process that observes writes.
    fn observe_file(&mut self) -> Option<String> {
        let file = non_empty(self.values.string("observe-file"))?;
        if !self.values.bool("observe") {
            self.errors.push(OptionsError::Refused {
                variable: "OBSERVE_FILE",
                problem: format!("{file:?}; it needs --observe"),
            });
        }
        Some(file)
    }

    /// Destinations of log lines. One without a name cannot be opened (OPS-027).
    fn sinks(&mut self, flag: &str, variable: &'static str) -> String {
        let text = self.values.string(flag);
        let all_named = text.split(',').all(|path| !path.is_empty());
        self.or_default(
            all_named
                .then(|| text.to_owned())
                .ok_or_else(|| invalid(variable, text)),
        )
    }

    fn taint_keys(&mut self, flag: &str, variable: &'static str) -> Vec<String> {
        let text = self.values.string(flag);
        self.or_default(taint_keys(text).ok_or_else(|| invalid(variable, text)))
    }
}

fn invalid(variable: &'static str, value: &str) -> OptionsError {
    OptionsError::Invalid {
        variable,
        value: value.to_owned(),
    }
}
