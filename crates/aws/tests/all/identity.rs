//! Labels, annotations, provider ids, repair policies and intervals.

use kerf_aws::labels::{self, label_rules, vocabulary};
use kerf_aws::provider_id::{instance_id, provider_id};
use kerf_aws::{annotations, intervals, repair, resources};
use std::time::Duration;

// AWS-031
#[test]
fn the_domain_is_closed_but_for_known_labels() {
    let rules = label_rules();
    // AWS-354
    for name in [
        "capacity-reservation-id",
        "capacity-reservation-type",
        "capacity-reservation-interruptible",
        "instance-hypervisor",
        "instance-encryption-in-transit-supported",
        "instance-category",
        "instance-capability-flex",
        "instance-family",
        "instance-generation",
        "instance-size",
        "instance-local-nvme",
        "instance-cpu",
        "instance-cpu-manufacturer",
        "instance-cpu-sustained-clock-speed-mhz",
        "instance-memory",
        "instance-ebs-bandwidth",
        "instance-network-bandwidth",
        "instance-gpu-name",
        "instance-gpu-manufacturer",
        "instance-gpu-count",
        "instance-gpu-memory",
        "instance-accelerator-name",
        "instance-accelerator-manufacturer",
        "instance-accelerator-count",
        "instance-tenancy",
        "placement-group-id",
        "placement-group-partition",
    ] {
        let key = format!("karpenter.k8s.aws/{name}");
        assert!(rules.is_well_known(&key), "{key}");
    }
    assert!(rules.is_well_known("topology.k8s.aws/zone-id"));
    assert!(rules.is_well_known("node.kubernetes.io/windows-build"));
    assert!(!rules.is_well_known("karpenter.k8s.aws/instance-colour"));
    // AWS-338
    assert_eq!(
        rules.normalize("topology.ebs.csi.aws.com/zone"),
        "topology.kubernetes.io/zone"
    );
    // AWS-356
    assert_eq!(labels::NODE_CLASS, "karpenter.k8s.aws/ec2nodeclass");
    // AWS-357
    assert_eq!(
        vocabulary().reservation_id_label.as_deref(),
        Some("karpenter.k8s.aws/capacity-reservation-id")
    );
}

// AWS-358
#[test]
fn extended_resources_have_their_plugins_names() {
    assert_eq!(
        resources::WELL_KNOWN,
        [
            "vpc.amazonaws.com/pod-eni",
            "aws.amazon.com/neuron",
            "aws.amazon.com/neuroncore",
            "habana.ai/gaudi",
            "vpc.amazonaws.com/efa"
        ]
    );
}

// AWS-360
#[test]
fn annotations_have_their_names() {
    assert_eq!(annotations::INSTANCE_TAGGED, "karpenter.k8s.aws/tagged");
    assert_eq!(
        annotations::CLUSTER_NAME_TAGGED,
        "compatibility.karpenter.k8s.aws/cluster-name-tagged"
    );
    assert_eq!(annotations::INSTANCE_PROFILE, "karpenter.k8s.aws/instance-profile-name");
}

// AWS-264
#[test]
fn provider_ids_end_in_the_instance_id() {
    assert_eq!(provider_id("us-east-1a", "i-1"), "aws:///us-east-1a/i-1");
    assert_eq!(instance_id("aws:///us-east-1a/i-1"), Ok("i-1"));
    assert_eq!(instance_id("kwok-aws:///us-east-1a/i-1"), Ok("i-1"));
    for bad in ["", "i-1", "aws://us-east-1a/i-1", "aws:///i-1", "aws:///us-east-1a/"] {
        assert!(instance_id(bad).is_err(), "{bad}");
    }
}

// AWS-324
#[test]
fn nodes_are_repaired_for_seven_conditions() {
    let policies: Vec<String> = repair::repair_policies()
        .iter()
        .map(|policy| {
            let minutes = policy.toleration.as_secs() / 60;
            format!("{}={} {minutes}", policy.condition_type, policy.status)
        })
        .collect();
    assert_eq!(
        policies,
        [
            "Ready=False 30",
            "Ready=Unknown 30",
            "AcceleratedHardwareReady=False 10",
            "StorageReady=False 30",
            "NetworkingReady=False 30",
            "KernelReady=False 30",
            "ContainerRuntimeReady=False 30",
        ]
    );
}

#[test]
fn intervals_are_those_of_the_contract() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    for (interval, want) in [
        // AWS-422
        (intervals::SELECTED, minutes(1)),
        // AWS-423
        (intervals::SHORT_LIVED, minutes(1)),
        // AWS-424
        (intervals::UNAVAILABLE_OFFERINGS, minutes(3)),
        (intervals::UNAVAILABLE_SWEEP, Duration::from_secs(10)),
        // AWS-425
        (intervals::INSTANCE_TYPES, minutes(5)),
        // AWS-426
        (intervals::INSTANCE_PROFILES, minutes(15)),
        // AWS-427
        (intervals::VALIDATION, minutes(30)),
        // AWS-428
        (intervals::PROTECTED_PROFILES, minutes(60)),
        // AWS-429
        (intervals::LONG_LIVED, minutes(24 * 60)),
        // AWS-430
        (intervals::DISCOVERED_MEMORY, minutes(60 * 24 * 60)),
        // AWS-432
        (intervals::SWEEP, minutes(1)),
        // AWS-433
        (intervals::PRICES_AND_TYPES_PERIOD, minutes(12 * 60)),
        // AWS-434
        (intervals::VERSION_PERIOD, minutes(5)),
        // AWS-435
        (intervals::SSM_AND_PROFILE_PERIOD, minutes(30)),
        // AWS-436
        (intervals::instance_gc_period(19), Duration::from_secs(10)),
        (intervals::instance_gc_period(20), minutes(2)),
        // AWS-437
        (intervals::MINUTE_PERIOD, minutes(1)),
        // AWS-438
        (intervals::ZONAL_SHIFT_PERIOD, Duration::from_secs(30)),
        // AWS-440
        (intervals::NODE_CLASS_PERIOD, minutes(1)),
        (intervals::VALIDATION_PERIOD, minutes(10)),
    ] {
        assert_eq!(interval, want);
    }
}
