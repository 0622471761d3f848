//! Every option once: flag, variable, type, default, help.

use std::fmt::{self, Display, Formatter, Write as _};

/// The type of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Any text.
    Text,
    /// A 64-bit number.
    Int,
    /// A number with a fraction.
    Decimal,
    /// true or false.
    Bool,
    /// A span of time such as `1m30s`.
    Duration,
}

/// Whose an option is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionOrigin {
    /// Karpenter has it, with the same meaning.
    Karpenter,
    /// Karpenter has it; it is accepted and has no effect here.
    WithoutEffect,
    /// Only Kerf has it.
    Kerf,
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionDef {
    /// The flag without dashes.
    pub flag: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// Its type.
    pub kind: OptionKind,
    /// Its default as one would write it.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Whose it is.
    pub origin: OptionOrigin,
}

/// An option of Karpenter.
pub const fn option(
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

impl OptionDef {
    const fn without_effect(self) -> Self {
        Self {
            origin: OptionOrigin::WithoutEffect,
            ..self
        }
    }

    /// The same as an option that only Kerf has.
    #[must_use]
    pub const fn of_kerf(self) -> Self {
        Self {
            origin: OptionOrigin::Kerf,
            ..self
        }
    }
}

/// The controller's options in the order of section 1 of `docs/behaviour/operations.md`.
pub const DEFINITIONS: &[OptionDef] = &[
    option(
        "karpenter-service",
        "KARPENTER_SERVICE",
        OptionKind::Text,
        "",
        "name of Karpenter's Service; nothing reads it",
    )
    .without_effect(),
    option(
        "metrics-port",
        "METRICS_PORT",
        OptionKind::Int,
        "8080",
        "port of /metrics",
    ),
    option(
        "health-probe-port",
        "HEALTH_PROBE_PORT",
        OptionKind::Int,
        "8081",
        "port of /healthz and /readyz",
    ),
    option(
        "kube-client-qps",
        "KUBE_CLIENT_QPS",
        OptionKind::Int,
        "200",
        "most requests per second to the Kubernetes API; 0 means 5, a negative number means no limit",
    ),
    option(
        "kube-client-burst",
        "KUBE_CLIENT_BURST",
        OptionKind::Int,
        "300",
        "most requests to the Kubernetes API at once",
    ),
    option(
        "enable-profiling",
        "ENABLE_PROFILING",
        OptionKind::Bool,
        "false",
        "Go profiles on the metrics port; /debug/pprof answers that there are none",
    )
    .without_effect(),
    option(
        "disable-controller-warmup",
        "DISABLE_CONTROLLER_WARMUP",
        OptionKind::Bool,
        "true",
        "fill caches only after leadership; Kerf always fills them before",
    )
    .without_effect(),
    option(
        "disable-leader-election",
        "DISABLE_LEADER_ELECTION",
        OptionKind::Bool,
        "false",
        "run without a lease; only when nothing else controls the cluster",
    ),
    option(
        "disable-cluster-state-observability",
        "DISABLE_CLUSTER_STATE_OBSERVABILITY",
        OptionKind::Bool,
        "false",
        "do without the metrics about pods, nodes, pools and conditions",
    ),
    option(
        "leader-election-name",
        "LEADER_ELECTION_NAME",
        OptionKind::Text,
        "karpenter-leader-election",
        "name of the lease",
    ),
    option(
        "leader-election-namespace",
        "LEADER_ELECTION_NAMESPACE",
        OptionKind::Text,
        "",
        "namespace of the lease; the pod's own when empty",
    ),
    option(
        "memory-limit",
        "MEMORY_LIMIT",
        OptionKind::Int,
        "-1",
        "bytes that Go's garbage collector aims at; Kerf has none",
    )
    .without_effect(),
    option(
        "cpu-requests",
        "CPU_REQUESTS",
        OptionKind::Int,
        "1000",
        "CPU requested for this process in millicores; decides how many workers run",
    ),
    option(
        "log-level",
        "LOG_LEVEL",
        OptionKind::Text,
        "info",
        "debug, info or error",
    ),
    option(
        "log-output-paths",
        "LOG_OUTPUT_PATHS",
        OptionKind::Text,
        "stdout",
        "where log lines go: stdout, stderr or files, separated by commas",
    ),
    option(
        "log-error-output-paths",
        "LOG_ERROR_OUTPUT_PATHS",
        OptionKind::Text,
        "stderr",
        "where errors of the logger itself go",
    ),
    option(
        "batch-max-duration",
        "BATCH_MAX_DURATION",
        OptionKind::Duration,
        "10s",
        "longest time pods are collected before they are scheduled together",
    ),
    option(
        "batch-idle-duration",
        "BATCH_IDLE_DURATION",
        OptionKind::Duration,
        "1s",
        "time without a new pod after which collecting ends",
    ),
    option(
        "preference-policy",
        "PREFERENCE_POLICY",
        OptionKind::Text,
        "Respect",
        "how preferences of pods count: Respect or Ignore",
    ),
    option(
        "min-values-policy",
        "MIN_VALUES_POLICY",
        OptionKind::Text,
        "Strict",
        "what to do when minValues cannot be met: Strict or BestEffort",
    ),
    option(
        "ignore-dra-requests",
        "IGNORE_DRA_REQUESTS",
        OptionKind::Bool,
        "true",
        "leave pods with resource claims alone; false plans them as if they had none, since devices are not planned yet",
    ),
    option(
        "feature-gates",
        "FEATURE_GATES",
        OptionKind::Text,
        "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false",
        "features to turn on or off, as Name=true,Name=false; gates not named keep their defaults",
    ),
    option(
        "instance-types-file-path",
        "INSTANCE_TYPES_FILE_PATH",
        OptionKind::Text,
        "",
        "JSON file with instance types for the kwok provider; the built-in list when empty",
    ),
    option(
        "packing",
        "PACKING",
        OptionKind::Text,
        "balanced",
        "how nodes are chosen: balanced (lowest price plus node overhead cost, with few more nodes than Karpenter), cheapest (lowest price) or upstream (Karpenter's greedy alone)",
    )
    .of_kerf(),
    option(
        "node-overhead-cost",
        "NODE_OVERHEAD_COST",
        OptionKind::Text,
        "0.02",
        "dollars per hour that a node costs besides its price, such as licences and agents; counts for balanced packing",
    )
    .of_kerf(),
    option(
        "forecast-binding",
        "FORECAST_BINDING",
        OptionKind::Text,
        "On",
        "On chooses among plans by what they cost after kube-scheduler has bound their pods and machines are launched for pods left over, Off by what they cost as planned; has no effect on upstream packing",
    )
    .of_kerf(),
    option(
        "launch-price-range-percent",
        "LAUNCH_PRICE_RANGE_PERCENT",
        OptionKind::Text,
        "",
        "how much more than its cheapest instance type the others of a launch may cost, in percent; empty lists every type that fits the pods, as Karpenter does",
    )
    .of_kerf(),
    option(
        "scheduler-config",
        "SCHEDULER_CONFIG",
        OptionKind::Text,
        "",
        "YAML or JSON document with what the cluster's kube-scheduler is configured to do: podTopologySpread.defaultConstraints and nodeResourcesFit.scoringStrategy.type (docs/scheduler-config.md)",
    )
    .of_kerf(),
    option(
        "consolidation-destinations",
        "CONSOLIDATION_DESTINATIONS",
        OptionKind::Text,
        "Settled",
        "where consolidation may move pods: Settled (not onto nodes within their own consolidateAfter, as Karpenter from 1.14 on) or Any (as before)",
    )
    .of_kerf(),
    option(
        "consolidation-savings-per-pod",
        "CONSOLIDATION_SAVINGS_PER_POD",
        OptionKind::Text,
        "0",
        "what a consolidation command must save per hour for each pod it moves, in dollars; 0 accepts every saving, as Karpenter does",
    )
    .of_kerf(),
    option(
        "consolidation-min-savings-percent",
        "CONSOLIDATION_MIN_SAVINGS_PERCENT",
        OptionKind::Text,
        "10",
        "what the replacements of a consolidation command must save of the price of the nodes they replace, in percent, less by node-overhead-cost for each node fewer; 0 accepts every saving, as Karpenter does",
    )
    .of_kerf(),
    option(
        "consolidation-replacements",
        "CONSOLIDATION_REPLACEMENTS",
        OptionKind::Text,
        "One",
        "how many nodes may replace those of a consolidation command: One (as Karpenter) or Several (up to three, where no single one is cheaper)",
    )
    .of_kerf(),
    option(
        "disruption-commands-per-pass",
        "DISRUPTION_COMMANDS_PER_PASS",
        OptionKind::Text,
        "One",
        "how many commands of consolidation a pass may start: One (as Karpenter) or Independent (up to ten that touch different nodes)",
    )
    .of_kerf(),
    option(
        "destination-taints",
        "DESTINATION_TAINTS",
        OptionKind::Bool,
        "true",
        "while a large consolidation command moves pods, taint nodes that are no destination (PreferNoSchedule, for a minute), so that pods go where they are planned",
    )
    .of_kerf(),
    option(
        "startup-taints",
        "STARTUP_TAINTS",
        OptionKind::Text,
        "",
        "taint keys nodes lose by themselves while they start, besides the well-known ones, separated by commas; one that ends with / stands for all that begin so",
    )
    .of_kerf(),
    option(
        "nominated-pods-max",
        "NOMINATED_PODS_MAX",
        OptionKind::Text,
        "0",
        "tell kube-scheduler where pods are planned (status.nominatedNodeName) in plans for at most so many pods; 0 for none; needs permission to patch pods/status",
    )
    .of_kerf(),
    option(
        "observe",
        "OBSERVE",
        OptionKind::Bool,
        "false",
        "decide beside a running Karpenter and carry nothing out: get, list and watch only, without a lease",
    )
    .of_kerf(),
    option(
        "observe-file",
        "OBSERVE_FILE",
        OptionKind::Text,
        "",
        "file that --observe appends its decisions to, one JSON object a line, for kerf shadow report; the log alone when empty",
    )
    .of_kerf(),
];

/// What `--help` prints about `definitions`: Karpenter's options first, then Kerf's own, then those without an effect.
pub fn usage(definitions: &[OptionDef]) -> String {
    let sections = [
        (OptionOrigin::Karpenter, "Options of Karpenter:"),
        (OptionOrigin::Kerf, "Options that only Kerf has:"),
        (
            OptionOrigin::WithoutEffect,
            "Options of Karpenter that are accepted and have no effect:",
        ),
    ];
    let mut text = String::new();
    for (origin, title) in sections {
        let options: Vec<&OptionDef> = definitions.iter().filter(|def| def.origin == origin).collect();
        if options.is_empty() {
            continue;
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{gap}{title}");
        for def in options {
            let _ = write!(text, "{def}");
        }
    }
    text
}

impl Display for OptionDef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            flag,
            variable,
            kind,
            default,
            help,
            ..
        } = self;
        let kind = match kind {
            OptionKind::Text => " TEXT",
            OptionKind::Int | OptionKind::Decimal => " NUMBER",
            OptionKind::Bool => "",
            OptionKind::Duration => " DURATION",
        };
        writeln!(
            f,
            "  --{flag}{kind}\n        {help} [env {variable}] [default {default:?}]"
        )
    }
}
