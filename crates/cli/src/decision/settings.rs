//! The settings of the command line.

use super::Cluster;
use super::ec2_settings::ec2_settings;
use crate::args::{CatalogueName, DecisionArgs};
use crate::manifests::InputError;
use jiff::Timestamp;
use kerf_api::{DefaultConstraint, StartupTaints};
use kerf_aws::offline::OfflineSettings;
use kerf_cloud::Vocabulary;
use kerf_decide::UnreadNodes;
use kerf_kwok::{ReadMode, builtin_catalogue, ec2_catalogue, read_catalogue};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_runtime::options::{FeatureGates, unknown_gates};
use kerf_scheduler::{Options, ReservedMode};
use kerf_units::policy::ForecastBinding;
use std::sync::Arc;

/// What decisions are made with.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) now: Timestamp,
    /// The options of a controller that decisions depend on.
    pub(super) decide: kerf_decide::Settings,
    /// The gate `NodeRepair`.
    pub(crate) node_repair: bool,
    /// Whether NodeOverlays count.
    pub(super) overlays: bool,
    /// Whether CapacityBuffers count.
    pub(crate) capacity_buffers: bool,
    /// Whether pods with resource claims are refused.
    pub(super) refuse_resource_claims: bool,
    /// Taints nodes lose by themselves while they start.
    pub(super) startup_taints: StartupTaints,
    /// Topology spread constraints of pods that declare none.
    pub(super) default_constraints: Arc<[DefaultConstraint]>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) vocabulary: Vocabulary,
    /// What the instance types of EC2NodeClasses depend on; `None` if the command line names instance types.
    pub(super) ec2: Option<OfflineSettings>,
}

/// The source of the objects; it decides the defaults of settings that are not given.
#[derive(Clone, Copy)]
pub(crate) enum ObjectSource<'a> {
    /// Files: overlays and CapacityBuffers that they contain are meant.
    Files(&'a Cluster),
    /// A cluster: overlays and CapacityBuffers count if their gates are on, as for its controller.
    Live(&'a Cluster),
}

impl ObjectSource<'_> {
    const fn cluster(&self) -> &Cluster {
        match self {
            Self::Files(cluster) | Self::Live(cluster) => cluster,
        }
    }
}

impl Settings {
    /// The defaults, with one of the built-in catalogues.
    pub(crate) fn of(catalogue: CatalogueName, now: Timestamp, interner: &Interner) -> Self {
        let catalogue = match catalogue {
            CatalogueName::Ec2 => ec2_catalogue(interner),
            CatalogueName::Kwok => builtin_catalogue(interner),
        };
        Self::with(catalogue, kerf_decide::Settings::default(), now, interner)
    }

    /// The settings for these instance types and options. NodeOverlays and CapacityBuffers count.
    pub(crate) fn with(
        catalogue: Arc<Catalogue>,
        decide: kerf_decide::Settings,
        now: Timestamp,
        interner: &Interner,
    ) -> Self {
        Self {
            now,
            decide,
            node_repair: false,
            overlays: true,
            capacity_buffers: true,
            refuse_resource_claims: true,
            startup_taints: StartupTaints::default(),
            default_constraints: Arc::default(),
            vocabulary: kerf_kwok::vocabulary(&catalogue, interner),
            catalogue,
            ec2: None,
        }
    }

    /// Reads the settings; what is wrong with them is added to `errors`.
    pub(crate) fn read(
        args: &DecisionArgs,
        source: ObjectSource<'_>,
        interner: &Interner,
        errors: &mut Vec<InputError>,
    ) -> Option<Self> {
        let now = match args.now.as_deref().map(str::parse) {
            None => Some(Timestamp::now()),
            Some(Ok(now)) => Some(now),
            Some(Err(error)) => {
                let error: jiff::Error = error;
                let error = InputError::new("--now", format!("is not a point in time: {error}"));
                errors.push(error.remedy("write it as 2026-01-31T12:00:00Z"));
                None
            }
        };
        let gates: Option<FeatureGates> = args
            .feature_gates
            .parse()
            .inspect_err(|error| errors.push(InputError::new("--feature-gates", format!("{error}"))))
            .ok();
        let unknown = unknown_gates(&args.feature_gates);
        errors.extend(unknown.map(|remark| InputError::new("--feature-gates", remark.to_string())));
        let catalogue = catalogue(args, source, interner, errors);
        let ec2 = ec2_settings(&args.ec2, errors);
        let (now, gates, catalogue, mut ec2) = (now?, gates?, catalogue?, ec2?);
        ec2.resolve.reserved_capacity = gates.reserved_capacity;
        let is_named = args.instance_types.is_some() || args.catalogue.is_some();
        let vocabulary = kerf_kwok::vocabulary(&catalogue, interner);
        // What files contain is meant, unless the gate is named.
        let is_on = |gate: bool, name: &str| {
            gate || (!args.feature_gates.contains(name) && matches!(source, ObjectSource::Files(_)))
        };
        let overlays = is_on(gates.node_overlay, "NodeOverlay");
        let capacity_buffers = is_on(gates.capacity_buffer, "CapacityBuffer");
        Some(Self {
            now,
            node_repair: gates.node_repair,
            decide: decide(args, gates),
            overlays,
            capacity_buffers,
            refuse_resource_claims: args.ignore_dra_requests,
            startup_taints: args.startup_taints.clone(),
            default_constraints: Arc::clone(&args.scheduler_config.default_constraints),
            catalogue,
            vocabulary,
            ec2: (!is_named).then_some(ec2),
        })
    }
}

fn decide(args: &DecisionArgs, gates: FeatureGates) -> kerf_decide::Settings {
    kerf_decide::Settings {
        solver: Options {
            preference_policy: args.preference_policy,
            min_values_policy: args.min_values_policy,
            reserved: if gates.reserved_capacity {
                ReservedMode::Strict
            } else {
                ReservedMode::Off
            },
            packing: args.packing,
            node_overhead: args.node_overhead_cost,
            forecast_binding: args.forecast_binding == ForecastBinding::On,
            nominated_pods_max: args.nominated_pods_max,
            launch_price_range: args.launch_price_range_percent,
            node_scoring: args.scheduler_config.node_scoring,
            threads: usize::from(args.threads),
            ..Options::default()
        },
        spot_to_spot: gates.spot_to_spot_consolidation,
        savings_per_pod: args.consolidation_savings_per_pod,
        min_savings: args.consolidation_min_savings_percent,
        static_capacity: gates.static_capacity,
        replacements: args.consolidation_replacements,
        commands_per_pass: args.disruption_commands_per_pass,
        destinations: args.consolidation_destinations,
        compare: false,
        unread: UnreadNodes::default(),
    }
}

fn catalogue(
    args: &DecisionArgs,
    source: ObjectSource<'_>,
    interner: &Interner,
    errors: &mut Vec<InputError>,
) -> Option<Arc<Catalogue>> {
    let Some(path) = &args.instance_types else {
        return Some(match args.catalogue {
            Some(CatalogueName::Ec2) => ec2_catalogue(interner),
            Some(CatalogueName::Kwok) => builtin_catalogue(interner),
            None => known_by(source.cluster(), interner),
        });
    };
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let error = InputError::new(name, format!("cannot be read: {error}"));
            errors.push(error.remedy("check the path given with --instance-types"));
            return None;
        }
    };
    match read_catalogue(&text, &name, interner, ReadMode::Strict) {
        Ok(catalogue) => Some(Arc::new(catalogue)),
        Err(faults) => {
            for fault in faults.0 {
                let place = InputError::new(&fault.file, &fault.problem).remedy(fault.remedy);
                let element = fault.element.map(|(index, name)| match name {
                    Some(name) => format!("instance type {index} ({name})"),
                    None => format!("instance type {index}"),
                });
                errors.push(InputError {
                    object: element,
                    field: fault.field,
                    ..place
                });
            }
            None
        }
    }
}

/// The built-in catalogue that knows more of the cluster's machines; EC2's where none does, and where there are no machines.
fn known_by(cluster: &Cluster, interner: &Interner) -> Arc<Catalogue> {
    let (ec2, kwok) = (ec2_catalogue(interner), builtin_catalogue(interner));
    let types = cluster.instance_types();
    let known = |catalogue: &Catalogue| {
        let is_in = |name: &&str| catalogue.types.iter().any(|kind| interner.text(kind.name) == *name);
        types.iter().filter(|name| is_in(name)).count()
    };
    if known(&kwok) > known(&ec2) { kwok } else { ec2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use kerf_controllers::{Tuning, decision_settings};
    use kerf_runtime::options::{DEFINITIONS, Options as ControllerOptions, Parsed};

    /// The options of a controller that change decisions, with values other than the default.
    const DECIDING: &[(&str, &[&str])] = &[
        ("preference-policy", &["Ignore"]),
        ("min-values-policy", &["BestEffort"]),
        ("ignore-dra-requests", &["false"]),
        (
            "feature-gates",
            &[
                "SpotToSpotConsolidation=true",
                "StaticCapacity=true",
                "ReservedCapacity=false",
            ],
        ),
        ("packing", &["cheapest", "upstream"]),
        ("node-overhead-cost", &["0.5"]),
        ("forecast-binding", &["Off"]),
        ("nominated-pods-max", &["50", "500"]),
        ("launch-price-range-percent", &["0", "20"]),
        (
            "scheduler-config",
            &[
                "{nodeResourcesFit: {scoringStrategy: {type: MostAllocated}}}",
                "{podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]}}",
            ],
        ),
        ("consolidation-destinations", &["Any"]),
        ("consolidation-savings-per-pod", &["0.002", "1000000"]),
        ("consolidation-min-savings-percent", &["5", "99"]),
        ("consolidation-replacements", &["Several"]),
        ("disruption-commands-per-pass", &["Independent"]),
        ("startup-taints", &["a.example/x, b.example/"]),
    ];

    /// Those that change no decision, or only when decisions are made. `--threads` stands for `cpu-requests`, and `--instance-types` for
    /// `instance-types-file-path`.
    const OTHERS: &[&str] = &[
        "karpenter-service",
        "metrics-port",
        "health-probe-port",
        "kube-client-qps",
        "kube-client-burst",
        "enable-profiling",
        "disable-controller-warmup",
        "disable-leader-election",
        "disable-cluster-state-observability",
        "leader-election-name",
        "leader-election-namespace",
        "memory-limit",
        "cpu-requests",
        "log-level",
        "log-output-paths",
        "log-error-output-paths",
        "batch-max-duration",
        "batch-idle-duration",
        "instance-types-file-path",
        "destination-taints",
        "observe",
        "observe-file",
    ];

    /// What decisions depend on, the rules by which objects are read included.
    type Deciding = (kerf_decide::Settings, bool, StartupTaints, Arc<[DefaultConstraint]>);

    /// The settings of `kerf simulate` with these flags.
    fn offline(flags: &[String]) -> Deciding {
        let line = ["kerf", "simulate", "-f", "-", "--now", "2026-01-01T00:00:00Z"];
        let line = line.into_iter().map(str::to_owned).chain(flags.iter().cloned());
        let cli = Cli::try_parse_from(line).unwrap_or_else(|error| panic!("{flags:?}: {error}"));
        let Command::Simulate(args) = cli.command else {
            panic!("it is simulate");
        };
        let (interner, mut errors) = (Interner::default(), Vec::new());
        let settings = Settings::read(
            &args.decision,
            ObjectSource::Files(&Cluster::default()),
            &interner,
            &mut errors,
        );
        let settings = settings.expect("no errors");
        (
            settings.decide,
            settings.refuse_resource_claims,
            settings.startup_taints,
            settings.default_constraints,
        )
    }

    /// The settings of a controller with these flags.
    fn running(flags: &[String]) -> Deciding {
        let Ok(Parsed::Run(options)) = ControllerOptions::parse(flags.iter().cloned(), |_| None) else {
            panic!("a controller takes {flags:?}");
        };
        let mut settings = decision_settings(&options, &Tuning::default());
        // These change how fast a decision is made and what is checked beside it, but no decision.
        settings.compare = false;
        settings.solver.threads = 1;
        (
            settings,
            options.ignore_dra_requests,
            StartupTaints::with(options.startup_taints),
            options.scheduler_config.default_constraints,
        )
    }

    #[test]
    fn the_command_line_decides_as_a_controller_with_the_same_options_does() {
        let defaults = running(&[]);
        assert_eq!(offline(&[]), defaults);
        for def in DEFINITIONS {
            let deciding = DECIDING.iter().find(|(flag, _)| *flag == def.flag);
            let is_other = OTHERS.contains(&def.flag);
            assert!(
                deciding.is_some() != is_other,
                "{} changes decisions, or does not",
                def.flag
            );
            for value in deciding.map_or(&[][..], |(_, values)| values) {
                let flags = [format!("--{}={value}", def.flag)];
                assert_ne!(running(&flags), defaults, "{flags:?} changes nothing");
                assert_eq!(offline(&flags), running(&flags), "{flags:?}");
            }
        }
    }

    #[test]
    fn the_command_line_reads_the_variables_of_a_controller_and_refuses_what_it_refuses() {
        use clap::CommandFactory;
        let command = Cli::command();
        for name in ["simulate", "explain"] {
            let command = command.find_subcommand(name).expect("a command");
            for (flag, _) in DECIDING {
                let def = DEFINITIONS.iter().find(|def| def.flag == *flag).expect("an option");
                let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag));
                let arg = arg.unwrap_or_else(|| panic!("{name} has no --{flag}"));
                assert_eq!(arg.get_env().and_then(std::ffi::OsStr::to_str), Some(def.variable));
            }
        }
        for flag in [
            "--consolidation-savings-per-pod=-1",
            "--consolidation-savings-per-pod=NaN",
            "--consolidation-savings-per-pod=1000001",
            "--consolidation-min-savings-percent=100",
            "--consolidation-destinations=any",
            "--disruption-commands-per-pass=Two",
            "--ignore-dra-requests=maybe",
            "--startup-taints=a=b:NoSchedule",
        ] {
            assert!(
                Cli::try_parse_from(["kerf", "simulate", "-f", "-", flag]).is_err(),
                "{flag}"
            );
            assert!(ControllerOptions::parse([flag.to_owned()], |_| None).is_err(), "{flag}");
        }
    }
}
