//! Placement groups: look-up, partitions and labels.

use kerf_api::ec2_node_class::PlacementGroupSelector;
use kerf_aws::placement_group::{PartitionHook, PlacementGroup, Strategy, partition_hook, query};
use std::collections::BTreeMap;

fn group(strategy: Strategy) -> PlacementGroup {
    PlacementGroup {
        id: "pg-1".to_owned(),
        name: "one".to_owned(),
        strategy,
        partitions: 12,
    }
}

// AWS-279
#[test]
fn a_group_is_asked_for_by_id_or_by_name() {
    let by_name = query(&PlacementGroupSelector {
        name: Some("pg-name".to_owned()),
        id: None,
    });
    assert_eq!((by_name.names, by_name.ids.len()), (vec!["pg-name".to_owned()], 0));
    assert_eq!(by_name.filters[0].name, "state");
}

// AWS-280
#[test]
fn a_claim_gets_the_partition_with_the_smallest_number() {
    let partition = group(Strategy::Partition);
    assert_eq!(partition.targeted_partition(["10", "2"]), Some(2));
    assert_eq!(partition.targeted_partition(["13", "x"]), None);
    assert_eq!(group(Strategy::Spread).targeted_partition(["1"]), None);
}

// AWS-281
#[test]
fn claims_carry_the_group_and_for_partition_groups_the_partition() {
    let labels = |group: &PlacementGroup, targeted| group.claim_labels(targeted).into_values().collect::<Vec<_>>();
    assert_eq!(labels(&group(Strategy::Cluster), None), ["pg-1"]);
    assert_eq!(labels(&group(Strategy::Partition), Some(3)), ["pg-1", "3"]);
    assert_eq!(labels(&group(Strategy::Partition), None), ["pg-1", ""]);
}

// AWS-282
#[test]
fn registration_waits_for_the_partition() {
    let labels = |partition: Option<&str>| -> BTreeMap<String, String> {
        let id = Some(("karpenter.k8s.aws/placement-group-id".to_owned(), "pg-1".to_owned()));
        let partition = partition.map(|value| {
            (
                "karpenter.k8s.aws/placement-group-partition".to_owned(),
                value.to_owned(),
            )
        });
        id.into_iter().chain(partition).collect()
    };
    for (labels, has_instance, described, want) in [
        (BTreeMap::new(), true, None, PartitionHook::Ready),
        (labels(None), true, None, PartitionHook::Ready),
        (labels(Some("3")), false, None, PartitionHook::Ready),
        (labels(Some("")), false, None, PartitionHook::Wait),
        (labels(Some("")), true, None, PartitionHook::Describe),
        (labels(Some("")), true, Some(None), PartitionHook::Wait),
        (
            labels(Some("")),
            true,
            Some(Some(4)),
            PartitionHook::Label("4".to_owned()),
        ),
    ] {
        assert_eq!(partition_hook(&labels, has_instance, described), want, "{labels:?}");
    }
}
