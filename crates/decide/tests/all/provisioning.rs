//! What a pass of provisioning is about, and when it makes no plan.

use crate::case::{Case, open_pool};
use kerf_decide::{Memory, NoPlan, provision};
use kerf_model::nodepool::Eligibility;
use kerf_model::pod::Pod;
use kerf_testkit::disruption::Cluster;
use std::sync::Arc;

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.name).collect()
}

// SCH-025, SCH-031
#[test]
fn pods_of_nodes_that_go_need_a_place_after_the_pending_ones() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-1", "small", |node| node.marked_for_deletion = true);
    cluster.bound("a-1", "moving", |_| {});
    cluster.bound("a-1", "served", |_| {});
    cluster.of_kind("a-2", "small", |_| {});
    cluster.bound("a-2", "stays", |_| {});
    cluster.pending("new", 500);
    let mut case = Case::of(cluster);
    let served = Arc::clone(&case.snapshot.nodes[0].pods[1]);
    case = case.changed(|snapshot| {
        let mut claim = (*snapshot.nodes[1]).clone();
        claim.name = "a-3".into();
        (claim.node_name, claim.provider_id, claim.initialized) = (None, None, false);
        claim.pods = vec![served];
        claim.requested = claim.allocatable.clone();
        snapshot.nodes.push(Arc::new(claim));
    });
    let decision = provision(&case.view(), &mut Memory::default(), &|| false);
    assert_eq!(
        names(&decision.batch.pods),
        ["new", "moving"],
        "a claim was made for the other"
    );
    assert_eq!(decision.batch.pending, 1);
    let plan = decision.plan.unwrap();
    let placed: usize = plan.existing.iter().map(|placement| placement.pods.len()).sum();
    assert_eq!((placed, plan.launches.len()), (2, 0));
    assert!(decision.violations.is_empty(), "{:?}", decision.violations);
}

// SCH-049
#[test]
fn without_a_pool_that_may_get_nodes_nothing_is_planned() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.eligibility = Eligibility::Static);
    let nothing = provision(&Case::of(cluster).view(), &mut Memory::default(), &|| false);
    assert_eq!(nothing.plan.unwrap_err(), NoPlan::NothingToPlace);
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.eligibility = Eligibility::Static);
    cluster.pending("new", 500);
    let decision = provision(&Case::of(cluster).view(), &mut Memory::default(), &|| false);
    assert_eq!(decision.plan.unwrap_err(), NoPlan::NoDynamicPools);
    assert_eq!(names(&decision.batch.pods), ["new"]);
}
