//! Options from flags and variables, as the contract states them.

use std::time::Duration;

use kerf_runtime::Options;
use kerf_runtime::logging::LogLevel;
use kerf_runtime::options::{DEFINITIONS, FeatureGates, OptionKind, OptionOrigin, Parsed, Values, usage};
use kerf_units::policy::{ForecastBinding, MinValuesPolicy, NodeOverheadCost, Packing, PreferencePolicy};

fn parse(args: &[&str], env: &[(&str, &str)]) -> Result<Parsed<Options>, String> {
    let lookup = |name: &str| {
        env.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| (*value).to_owned())
    };
    Options::parse(args.iter().map(ToString::to_string), lookup).map_err(|error| error.to_string())
}

fn options(args: &[&str], env: &[(&str, &str)]) -> Options {
    let parsed = parse(args, env);
    assert!(matches!(parsed, Ok(Parsed::Run(_))), "{args:?} {env:?}: {parsed:?}");
    let Ok(Parsed::Run(options)) = parsed else {
        unreachable!("asserted above")
    };
    options
}

fn error(args: &[&str], env: &[(&str, &str)]) -> String {
    parse(args, env).expect_err("the options are bad")
}

#[test]
fn flags_variables_and_defaults_are_the_contracts() {
    use OptionKind::{Bool, Duration, Int, Text};
    let gates = "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,\
                 StaticCapacity=false,CapacityBuffer=false";
    let expected = [
        // OPS-002
        ("karpenter-service", "KARPENTER_SERVICE", Text, ""),
        // OPS-003
        ("metrics-port", "METRICS_PORT", Int, "8080"),
        // OPS-004
        ("health-probe-port", "HEALTH_PROBE_PORT", Int, "8081"),
        // OPS-005
        ("kube-client-qps", "KUBE_CLIENT_QPS", Int, "200"),
        // OPS-006
        ("kube-client-burst", "KUBE_CLIENT_BURST", Int, "300"),
        // OPS-007
        ("enable-profiling", "ENABLE_PROFILING", Bool, "false"),
        // OPS-008
        ("disable-controller-warmup", "DISABLE_CONTROLLER_WARMUP", Bool, "true"),
        // OPS-009
        ("disable-leader-election", "DISABLE_LEADER_ELECTION", Bool, "false"),
        // OPS-010
        (
            "disable-cluster-state-observability",
            "DISABLE_CLUSTER_STATE_OBSERVABILITY",
            Bool,
            "false",
        ),
        // OPS-011
        (
            "leader-election-name",
            "LEADER_ELECTION_NAME",
            Text,
            "karpenter-leader-election",
        ),
        // OPS-012
        ("leader-election-namespace", "LEADER_ELECTION_NAMESPACE", Text, ""),
        // OPS-013
        ("memory-limit", "MEMORY_LIMIT", Int, "-1"),
        // OPS-014
        ("cpu-requests", "CPU_REQUESTS", Int, "1000"),
        // OPS-015
        ("log-level", "LOG_LEVEL", Text, "info"),
        // OPS-016
        ("log-output-paths", "LOG_OUTPUT_PATHS", Text, "stdout"),
        // OPS-017
        ("log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS", Text, "stderr"),
        // OPS-018, SCH-001
        ("batch-max-duration", "BATCH_MAX_DURATION", Duration, "10s"),
        // OPS-019, SCH-001
        ("batch-idle-duration", "BATCH_IDLE_DURATION", Duration, "1s"),
        // OPS-020, SCH-002
        ("preference-policy", "PREFERENCE_POLICY", Text, "Respect"),
        // OPS-021, SCH-003
        ("min-values-policy", "MIN_VALUES_POLICY", Text, "Strict"),
        // OPS-022, SCH-005
        ("ignore-dra-requests", "IGNORE_DRA_REQUESTS", Bool, "true"),
        // OPS-023
        ("feature-gates", "FEATURE_GATES", Text, gates),
        // OPS-024
        ("instance-types-file-path", "INSTANCE_TYPES_FILE_PATH", Text, ""),
        // Kerf's own.
        ("packing", "PACKING", Text, "balanced"),
        ("node-overhead-cost", "NODE_OVERHEAD_COST", Text, "0.02"),
        ("forecast-binding", "FORECAST_BINDING", Text, "On"),
        ("launch-price-range-percent", "LAUNCH_PRICE_RANGE_PERCENT", Text, ""),
        ("scheduler-config", "SCHEDULER_CONFIG", Text, ""),
        (
            "consolidation-destinations",
            "CONSOLIDATION_DESTINATIONS",
            Text,
            "Settled",
        ),
        (
            "consolidation-savings-per-pod",
            "CONSOLIDATION_SAVINGS_PER_POD",
            Text,
            "0",
        ),
        (
            "consolidation-min-savings-percent",
            "CONSOLIDATION_MIN_SAVINGS_PERCENT",
            Text,
            "10",
        ),
        ("consolidation-replacements", "CONSOLIDATION_REPLACEMENTS", Text, "One"),
        (
            "disruption-commands-per-pass",
            "DISRUPTION_COMMANDS_PER_PASS",
            Text,
            "One",
        ),
        ("destination-taints", "DESTINATION_TAINTS", Bool, "true"),
        ("startup-taints", "STARTUP_TAINTS", Text, ""),
        ("nominated-pods-max", "NOMINATED_PODS_MAX", Text, "0"),
        ("observe", "OBSERVE", Bool, "false"),
        ("observe-file", "OBSERVE_FILE", Text, ""),
    ];
    let defined: Vec<_> = DEFINITIONS
        .iter()
        .map(|def| (def.flag, def.variable, def.kind, def.default))
        .collect();
    assert_eq!(defined, expected);
}

#[test]
fn refused_options_of_kerf_say_what_is_accepted() {
    let error = |flag: &str| {
        let parsed = Options::parse([flag.to_owned()], |_| None);
        parsed.expect_err("an invalid value").to_string()
    };
    assert_eq!(
        error("--packing=tight"),
        "validating cli flags, invalid PACKING \"tight\" is not one of balanced, cheapest, upstream"
    );
    assert_eq!(
        error("--node-overhead-cost=-1"),
        "validating cli flags, invalid NODE_OVERHEAD_COST \"-1\" is not an amount of dollars per hour from 0 to 100, such as 0.02"
    );
    assert_eq!(
        error("--launch-price-range-percent=20%"),
        "validating cli flags, invalid LAUNCH_PRICE_RANGE_PERCENT \"20%\" is neither a whole number of percent from 0 to 1000, such as 20, nor empty"
    );
    assert_eq!(
        error("--scheduler-config={podTopologySpread: {defaultConstraints: [{topologyKey: zone}]}}"),
        "validating cli flags, invalid SCHEDULER_CONFIG podTopologySpread.defaultConstraints[0].maxSkew must be greater than 0"
    );
}

#[test]
fn defaults_are_valid() {
    let options = Options::default();
    // OPS-003, OPS-004
    assert_eq!((options.metrics_port, options.health_probe_port), (8080, 8081));
    // OPS-018, OPS-019, SCH-001
    let second = Duration::from_secs(1);
    assert_eq!(
        (options.batch_max_duration, options.batch_idle_duration),
        (10 * second, second)
    );
    // OPS-020, OPS-021, SCH-002, SCH-003
    assert_eq!(
        (options.preference_policy, options.min_values_policy),
        (PreferencePolicy::Respect, MinValuesPolicy::Strict)
    );
    // OPS-034, SCH-006
    assert!(options.feature_gates.reserved_capacity && !options.feature_gates.static_capacity);
    // AWS-353
    let gates = &options.feature_gates;
    assert!(gates.reserved_capacity);
    assert!(!gates.node_overlay && !gates.node_repair && !gates.spot_to_spot_consolidation);
    assert!(!gates.static_capacity && !gates.capacity_buffer);
    // OPS-022, SCH-005
    assert!(options.ignore_dra_requests);
    assert_eq!(
        (options.packing, options.node_overhead_cost, options.forecast_binding),
        (Packing::Balanced, NodeOverheadCost::default(), ForecastBinding::On)
    );
}

#[test]
fn startup_taints_are_keys() {
    let keys = options(&["--startup-taints", "a.example/x, b.example/,"], &[]).startup_taints;
    assert_eq!(keys, ["a.example/x", "b.example/"]);
    for bad in ["a=b:NoSchedule", "a:NoExecute", "/"] {
        assert!(
            error(&[], &[("STARTUP_TAINTS", bad)]).contains("STARTUP_TAINTS"),
            "{bad}"
        );
    }
}

#[test]
fn nominated_pods_are_a_count() {
    assert!(options(&[], &[]).nominated_pods_max.is_none());
    assert!(
        options(&[], &[("NOMINATED_PODS_MAX", "7")])
            .nominated_pods_max
            .allows(7)
    );
    for bad in ["-1", "few", "1.5"] {
        let error = error(&[], &[("NOMINATED_PODS_MAX", bad)]);
        assert!(
            error.contains("NOMINATED_PODS_MAX") && error.contains("0 nominates none"),
            "{error}"
        );
    }
}

#[test]
fn a_flag_beats_the_variable_which_beats_the_default() {
    let env = [
        ("METRICS_PORT", "9000"),
        ("PREFERENCE_POLICY", "Ignore"),
        ("BATCH_IDLE_DURATION", "1m30s"),
    ];
    // OPS-001
    assert_eq!(options(&[], &env).metrics_port, 9000);
    assert_eq!(options(&["--metrics-port", "9100"], &env).metrics_port, 9100);
    assert_eq!(options(&["-metrics-port=9200"], &env).metrics_port, 9200);
    assert_eq!(options(&["--metrics-port=1", "--metrics-port=2"], &env).metrics_port, 2);
    assert_eq!(options(&[], &env).batch_idle_duration, Duration::from_secs(90));
    // SCH-002
    assert_eq!(options(&[], &env).preference_policy, PreferencePolicy::Ignore);
    // SCH-001
    assert_eq!(
        options(&["--batch-max-duration", "250ms"], &env).batch_max_duration,
        Duration::from_millis(250)
    );
}

#[test]
fn booleans_follow_two_grammars() {
    // OPS-025
    assert!(options(&["--enable-profiling"], &[]).enable_profiling);
    assert!(options(&["--enable-profiling=true"], &[]).enable_profiling);
    assert!(!options(&["--ignore-dra-requests=false"], &[]).ignore_dra_requests);
    for value in ["1", "T", "yes", ""] {
        let flag = format!("--enable-profiling={value}");
        let expected = format!("{value:?} is not a valid value, must be true or false");
        // OPS-025
        assert!(error(&[&flag], &[]).ends_with(&expected), "{flag}");
    }
    for (value, expected) in [
        ("1", true),
        ("t", true),
        ("T", true),
        ("TRUE", true),
        ("True", true),
        ("F", false),
    ] {
        // OPS-025
        assert_eq!(
            options(&[], &[("ENABLE_PROFILING", value)]).enable_profiling,
            expected,
            "{value}"
        );
    }
}

#[test]
fn a_bad_variable_is_ignored_and_a_bad_flag_is_fatal() {
    let env = [
        ("METRICS_PORT", "many"),
        ("ENABLE_PROFILING", "yes"),
        ("BATCH_MAX_DURATION", "10"),
        ("CPU_REQUESTS", "1.5"),
        ("KUBE_CLIENT_QPS", "0x10"),
    ];
    // OPS-026
    assert_eq!(options(&[], &env), Options::default());
    for (args, text) in [
        (
            ["--metrics-port", "many"],
            "parsing flags, invalid value \"many\" for flag -metrics-port: parse error",
        ),
        (
            ["--batch-max-duration", "10"],
            "parsing flags, invalid value \"10\" for flag -batch-max-duration: parse error",
        ),
    ] {
        // OPS-026, OPS-028
        assert_eq!(error(&args, &[]), text);
    }
    assert_eq!(options(&["--kube-client-qps", "0x10"], &[]).kube_client_qps, 16);
}

#[test]
fn empty_variables_count_as_set() {
    // OPS-027
    assert_eq!(options(&[], &[("LOG_LEVEL", "")]).log_level, LogLevel::Info);
    assert_eq!(
        options(&[], &[("FEATURE_GATES", "")]).feature_gates,
        Options::default().feature_gates
    );
    for variable in [
        "PREFERENCE_POLICY",
        "MIN_VALUES_POLICY",
        "LOG_OUTPUT_PATHS",
        "LOG_ERROR_OUTPUT_PATHS",
    ] {
        // OPS-027
        assert!(error(&[], &[(variable, "")]).contains(variable), "{variable}");
    }
}

#[test]
fn fatal_errors_have_their_texts() {
    for (variable, value, text) in [
        // OPS-028
        (
            "LOG_LEVEL",
            "INFO",
            "validating cli flags / env vars, invalid LOG_LEVEL \"INFO\"",
        ),
        // OPS-028, SCH-002
        (
            "PREFERENCE_POLICY",
            "respect",
            "validating cli flags / env vars, invalid PREFERENCE_POLICY \"respect\"",
        ),
        // OPS-028, SCH-003
        (
            "MIN_VALUES_POLICY",
            "Loose",
            "validating cli flags / env vars, invalid MIN_VALUES_POLICY \"Loose\"",
        ),
    ] {
        assert_eq!(error(&[], &[(variable, value)]), text);
    }
    // OPS-028
    assert!(error(&["--feature-gates=NodeRepair"], &[]).starts_with("parsing feature gates, "));
    // OPS-029
    assert_eq!(
        error(&["--frobnicate"], &[]),
        "parsing flags, flag provided but not defined: -frobnicate"
    );
    assert_eq!(
        error(&["--log-level"], &[]),
        "parsing flags, flag needs an argument: -log-level"
    );
    assert_eq!(
        error(&["---log-level"], &[]),
        "parsing flags, bad flag syntax: ---log-level"
    );
    assert!(error(&["--metrics-port=70000"], &[]).contains("METRICS_PORT"));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let args = [
        "--metrics-port=many",
        "--frobnicate",
        "on",
        "--metrics-prot",
        "1",
        "--log-level=loud",
    ];
    // OPS-026, OPS-028, OPS-029
    assert_eq!(
        error(
            &args,
            &[("MIN_VALUES_POLICY", "Loose"), ("FEATURE_GATES", "NodeRepair")]
        ),
        "parsing flags, invalid value \"many\" for flag -metrics-port: parse error; \
         parsing flags, flag provided but not defined: -frobnicate; \
         parsing flags, flag provided but not defined: -metrics-prot; did you mean --metrics-port?; \
         validating cli flags / env vars, invalid LOG_LEVEL \"loud\"; \
         validating cli flags / env vars, invalid MIN_VALUES_POLICY \"Loose\"; \
         parsing feature gates, malformed pair \"NodeRepair\", expect Name=true or Name=false"
    );
}

/// What the user reads about options that are accepted, and whether each is a warning.
fn remarks(args: &[&str], env: &[(&str, &str)]) -> Vec<(bool, String)> {
    let lookup = |name: &str| {
        let found = env.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let Parsed::Run(values) = Values::parse(DEFINITIONS, args.iter().map(ToString::to_string), lookup) else {
        return vec![(true, format!("{args:?} asks for help"))];
    };
    let told = values.remarks().iter();
    told.map(|remark| (remark.is_warning(), remark.to_string())).collect()
}

#[test]
fn options_that_do_not_count_are_named() {
    assert_eq!(remarks(&["--metrics-port=9000"], &[("LOG_LEVEL", "debug")]), []);
    // An empty variable is how charts leave an option out.
    assert_eq!(remarks(&[], &[("METRICS_PORT", "")]), []);
    // OPS-026
    assert_eq!(
        remarks(&[], &[("METRICS_PORT", "many"), ("BATCH_IDLE_DURATION", "10")]),
        [
            (
                true,
                "METRICS_PORT is \"many\", which is not a number: the default 8080 is used".to_owned()
            ),
            (
                true,
                "BATCH_IDLE_DURATION is \"10\", which is not a duration such as 1m30s: the default 1s is used"
                    .to_owned()
            ),
        ]
    );
    // OPS-039
    assert_eq!(
        remarks(&["--feature-gates=NodeRepairs=true,Moon=true"], &[]),
        [(
            true,
            format!(
                "unknown feature gates: NodeRepairs (did you mean NodeRepair?), Moon; known are {}",
                FeatureGates::NAMES.join(", ")
            )
        )]
    );
    let go = [
        ("MEMORY_LIMIT", "1073741824"),
        ("GOMEMLIMIT", "900MiB"),
        ("CPU_REQUESTS", "500"),
    ];
    // OPS-002, OPS-008, OPS-013
    assert_eq!(
        remarks(&["--karpenter-service=karpenter", "--disable-controller-warmup"], &go),
        [(
            false,
            "options without effect: --karpenter-service, --disable-controller-warmup, MEMORY_LIMIT, GOMEMLIMIT"
                .to_owned()
        )]
    );
    assert_eq!(options(&[], &go).memory_limit, 1_073_741_824);
}

// OPS-032
#[test]
fn variables_of_the_chart_that_nothing_reads_change_nothing() {
    let env = [
        ("KUBERNETES_MIN_VERSION", "1.19.0-0"),
        ("SYSTEM_NAMESPACE", "kube-system"),
    ];
    assert_eq!(options(&[], &env), Options::default());
    assert_eq!(remarks(&[], &env), []);
}

#[test]
fn the_help_lists_kerf_s_own_options_in_one_place() {
    let usage = usage(DEFINITIONS);
    let (karpenter, rest) = usage.split_once("\nOptions that only Kerf has:\n").expect("a section");
    let (kerf, ineffective) = rest
        .split_once("\nOptions of Karpenter that are accepted and have no effect:\n")
        .expect("a section");
    for def in DEFINITIONS {
        let line = format!("  --{}", def.flag);
        let listed = [karpenter, kerf, ineffective].map(|section| {
            section
                .lines()
                .any(|l| l.split(' ').take(3).collect::<Vec<_>>().join(" ") == line)
        });
        let expected = match def.origin {
            OptionOrigin::Karpenter => [true, false, false],
            OptionOrigin::Kerf => [false, true, false],
            OptionOrigin::WithoutEffect => [false, false, true],
        };
        assert_eq!(listed, expected, "{}", def.flag);
    }
}

#[test]
fn help_is_asked_for_and_names_every_option() {
    for flag in ["-h", "--help", "-help"] {
        // OPS-029
        assert_eq!(parse(&[flag], &[]), Ok(Parsed::Help), "{flag}");
    }
    let usage = usage(DEFINITIONS);
    for def in DEFINITIONS {
        assert!(
            usage.contains(&format!("--{}", def.flag)) && usage.contains(def.variable),
            "{}",
            def.flag
        );
    }
}

#[test]
fn stray_arguments_end_the_flags() {
    // OPS-030
    assert_eq!(options(&["stray", "--nonsense"], &[]), Options::default());
    assert_eq!(options(&["--metrics-port=1", "--", "--nonsense"], &[]).metrics_port, 1);
    assert_eq!(options(&["-"], &[]), Options::default());
}

#[test]
fn cpu_requests_set_the_simulations_parallelism() {
    for (value, millicores, workers) in [
        ("0", 1000, 1),
        ("-5", 1000, 1),
        ("1001", 1001, 2),
        ("16000", 16_000, 16),
    ] {
        let options = options(&[], &[("CPU_REQUESTS", value)]);
        // OPS-014, SCH-004
        assert_eq!(
            (options.cpu_requests, options.simulation_workers()),
            (millicores, workers)
        );
    }
}
