//! Options of the provider.

use kerf_aws::options::{AwsOptions, DEFINITIONS};
use kerf_units::duration::GoDuration;
use std::collections::BTreeMap;

fn read(flags: &[(&str, &str)], env: &[(&str, &str)]) -> Result<AwsOptions, Vec<String>> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let flags: BTreeMap<String, String> = flags.iter().map(owned).collect();
    let env: BTreeMap<String, String> = env.iter().map(owned).collect();
    AwsOptions::read(&flags, &|name| env.get(name).cloned())
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
    for definition in DEFINITIONS {
        assert_eq!(definition.env.to_lowercase().replace('_', "-"), definition.flag);
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
    let from_env = read(&[NAME], &[("VM_MEMORY_OVERHEAD_PERCENT", "odd")]).unwrap();
    assert_eq!(from_env.vm_memory_overhead_percent.to_string(), "0.075");
    // AWS-347
    assert!(error(("reserved-enis", "-1")).contains("negative"));
    // AWS-350, AWS-351
    assert!(error(("ami-refresh-interval", "59s")).contains("1m"));
    assert!(error(("subnet-refresh-interval", "soon")).contains("duration"));
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
