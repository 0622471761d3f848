//! Options of the provider.

use kerf_aws::options::{AwsFeatureGates, AwsOptions, DEFINITIONS};
use kerf_runtime::options::{OptionKind, Parsed, Remark, Values};
use kerf_units::duration::GoDuration;

/// The values of flags and environment variables.
pub(crate) fn values(flags: &[(&str, &str)], env: &[(&str, &str)]) -> Values {
    let env = |name: &str| {
        let set = env.iter().find(|(variable, _)| *variable == name);
        set.map(|(_, value)| (*value).to_owned())
    };
    let flags = flags.iter().map(|(flag, value)| format!("--{flag}={value}"));
    match Values::parse(&DEFINITIONS, flags, env) {
        Parsed::Run(values) => values,
        Parsed::Help => unreachable!("no help is asked for"),
    }
}

fn read(flags: &[(&str, &str)], env: &[(&str, &str)]) -> Result<AwsOptions, Vec<String>> {
    AwsOptions::from_values(&values(flags, env))
}

const NAME: (&str, &str) = ("cluster-name", "prod");

#[test]
fn defaults() {
    let options = read(&[NAME], &[]).unwrap();
    // AWS-341, AWS-342
    assert_eq!(
        (options.cluster_endpoint.as_str(), options.cluster_ca_bundle.as_str()),
        ("", "")
    );
    // AWS-343, AWS-344
    assert!(!options.isolated_vpc && !options.eks_control_plane);
    // AWS-345
    assert_eq!(options.vm_memory_overhead_percent.to_string(), "0.075");
    // AWS-346, AWS-347
    assert_eq!((options.interruption_queue.as_str(), options.reserved_enis), ("", 0));
    // AWS-348, AWS-349
    assert!(!options.disable_dry_run && !options.enable_zonal_shift);
    // AWS-350, AWS-351
    assert_eq!(options.ami_refresh_interval, GoDuration::from_secs(60));
    assert_eq!(options.subnet_refresh_interval, GoDuration::from_secs(60));
    // AWS-323
    assert!(options.learn_memory && !options.instance_status_dry_run);
    for definition in DEFINITIONS {
        assert_eq!(definition.variable.to_lowercase().replace('_', "-"), definition.flag);
    }
}

#[test]
fn what_options_may_not_be() {
    let error = |flag: (&str, &str)| read(&[NAME, flag], &[]).unwrap_err().join("; ");
    // AWS-340
    assert_eq!(read(&[], &[]).unwrap_err(), ["missing field, cluster-name"]);
    // AWS-341
    for bad in ["prod", "/prod", "https://", "https://:443"] {
        assert!(error(("cluster-endpoint", bad)).contains("cluster-endpoint"), "{bad}");
    }
    assert!(read(&[NAME, ("cluster-endpoint", "https://prod.example:443/x")], &[]).is_ok());
    // AWS-345
    assert!(error(("vm-memory-overhead-percent", "-0.1")).contains("negative"));
    // AWS-347
    assert!(error(("reserved-enis", "-1")).contains("negative"));
    // AWS-350, AWS-351
    assert!(error(("ami-refresh-interval", "59s")).contains("1m"));
    assert!(error(("subnet-refresh-interval", "1s")).contains("1m"));
}

// AWS-352
#[test]
fn flags_win_and_violations_are_reported_together() {
    let env = [
        ("CLUSTER_NAME", "test"),
        ("RESERVED_ENIS", "2"),
        ("ISOLATED_VPC", "true"),
    ];
    let options = read(&[NAME], &env).unwrap();
    assert_eq!(
        (
            options.cluster_name.as_str(),
            options.reserved_enis,
            options.isolated_vpc
        ),
        ("prod", 2, true)
    );
    let errors = read(&[("reserved-enis", "-1"), ("ami-refresh-interval", "1s")], &[]).unwrap_err();
    assert_eq!(errors.len(), 3);
}

#[test]
fn feature_gates_are_off_and_unknown_ones_are_errors() {
    let gates = |text: &str| read(&[NAME], &[("AWS_FEATURE_GATES", text)]).map(|options| options.feature_gates);
    for (text, cel, fields) in [
        ("", false, false),
        ("NodeClassCEL=false", false, false),
        ("NodeClassCEL=true", true, false),
        (" ExtendedKubeletConfiguration=1 , NodeClassCEL=t,", true, true),
        ("NodeClassCEL=true,NodeClassCEL=false", false, false),
    ] {
        let want = AwsFeatureGates {
            node_class_cel: cel,
            extended_kubelet: fields,
        };
        assert_eq!(gates(text), Ok(want), "{text}");
    }
    for (text, message) in [
        (
            "NodeClasCEL=true",
            "aws-feature-gates has the unknown gate NodeClasCEL (did you mean NodeClassCEL?); known are NodeClassCEL, \
             ExtendedKubeletConfiguration",
        ),
        (
            "NodeClassCEL",
            "aws-feature-gates has the malformed pair \"NodeClassCEL\", expect Name=true or Name=false",
        ),
        (
            "NodeClassCEL=yes",
            "aws-feature-gates has the value \"yes\" for NodeClassCEL, which must be true or false",
        ),
    ] {
        assert_eq!(gates(text), Err(vec![message.to_owned()]), "{text}");
    }
    // Flags win over the environment.
    let flag = read(
        &[NAME, ("aws-feature-gates", "NodeClassCEL=false")],
        &[("AWS_FEATURE_GATES", "NodeClassCEL=true")],
    );
    assert_eq!(
        flag.map(|options| options.feature_gates),
        Ok(AwsFeatureGates::default())
    );
}

/// The options, and what is said about them.
fn parsed(flags: &[(&str, &str)], env: &[(&str, &str)]) -> (Result<AwsOptions, Vec<String>>, Vec<Remark>) {
    let values = values(flags, env);
    (AwsOptions::from_values(&values), values.remarks().to_vec())
}

// OPS-026, AWS-352
#[test]
fn a_variable_that_does_not_parse_counts_as_absent_and_is_named() {
    let (defaults, _) = parsed(&[NAME], &[]);
    let defaults = defaults.expect("a name is enough");
    for def in DEFINITIONS.iter().filter(|def| def.kind != OptionKind::Text) {
        let (read, remarks) = parsed(&[NAME], &[(def.variable, "odd")]);
        assert_eq!(read.as_ref(), Ok(&defaults), "{}", def.variable);
        let said: Vec<String> = remarks.iter().map(ToString::to_string).collect();
        let [said] = said.as_slice() else {
            panic!("{}: {said:?}", def.variable);
        };
        assert!(said.starts_with(&format!("{} is \"odd\"", def.variable)), "{said}");
        assert!(said.contains(def.default), "{said}");
        let (read, remarks) = parsed(&[NAME], &[(def.variable, "")]);
        assert_eq!((read.as_ref(), remarks.len()), (Ok(&defaults), 0), "{}", def.variable);
    }
}

// AWS-345, AWS-347, AWS-350, AWS-351
#[test]
fn a_variable_that_parses_and_is_not_allowed_stops_the_start() {
    for (variable, value) in [
        ("VM_MEMORY_OVERHEAD_PERCENT", "-0.1"),
        ("VM_MEMORY_OVERHEAD_PERCENT", "NaN"),
        ("RESERVED_ENIS", "-1"),
        ("AMI_REFRESH_INTERVAL", "59s"),
        ("SUBNET_REFRESH_INTERVAL", "0s"),
        ("AWS_FEATURE_GATES", "odd"),
        ("CLUSTER_ENDPOINT", "odd"),
    ] {
        let (read, remarks) = parsed(&[NAME], &[(variable, value)]);
        let flag = variable.to_lowercase().replace('_', "-");
        let errors = read.expect_err(variable);
        assert!(errors.len() == 1 && errors.concat().contains(&flag), "{errors:?}");
        assert_eq!(remarks, [], "{variable}");
    }
}

#[test]
fn flags_of_every_kind_reach_the_provider() {
    let flags = [
        NAME,
        ("reserved-enis", "0x2"),
        ("vm-memory-overhead-percent", "0.1"),
        ("ami-refresh-interval", "2m30s"),
        ("learn-memory", "false"),
    ];
    let read = read(&flags, &[]).expect("all are right");
    assert_eq!((read.reserved_enis, read.learn_memory), (2, false));
    assert_eq!(read.vm_memory_overhead_percent.to_string(), "0.1");
    assert_eq!(read.ami_refresh_interval.to_string(), "2m30s");
}
