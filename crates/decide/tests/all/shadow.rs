//! What Kerf would have done beside another autoscaler.

use crate::case::{Case, open_pool};
use kerf_decide::{Memory, Method, StandingCommands, before_answers, provision};
use kerf_model::intern::sym;
use kerf_model::nodepool::Eligibility;
use kerf_model::pod::Owner;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_testkit::disruption::{Cluster, sized};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The NodeClaims of nodes, by the node's name.
fn claims(snapshot: &Snapshot, nodes: &[&str]) -> BTreeSet<Arc<str>> {
    let named = snapshot.nodes.iter().filter(|node| nodes.contains(&&*node.name));
    named.filter_map(|node| node.claim_name.clone()).collect()
}

fn waiting(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.pending.iter().map(|pod| &*pod.name).collect()
}

/// A node that was there before, one that answered two pods and a daemon, and a pod that still waits.
fn answered() -> Cluster {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-old", "small", |_| {});
    cluster.bound("a-old", "full", sized(1900));
    cluster.of_kind("a-new", "large", |_| {});
    cluster.bound("a-new", "web-2", sized(900));
    cluster.bound("a-new", "web-1", sized(900));
    cluster.bound("a-new", "agent", |pod| pod.owner = Owner::DaemonSet);
    cluster.pending("web-3", 100);
    cluster
}

#[test]
fn a_plan_begins_where_the_other_autoscaler_began() {
    let case = Case::of(answered());
    let before = claims(&case.snapshot, &["a-old"]);
    let unanswered = before_answers(&case.snapshot, &before);
    assert_eq!(unanswered.answers.len(), 1);
    assert_eq!(&*unanswered.answers[0].name, "a-new");
    assert_eq!(
        waiting(&unanswered.snapshot),
        ["web-1", "web-2", "web-3"],
        "the daemon stays"
    );
    assert!(unanswered.snapshot.pending.iter().all(|pod| pod.node_name.is_none()));
    assert_eq!(unanswered.snapshot.nodes.len(), 1);
    // The same pods need a machine again.
    let case = Case {
        snapshot: unanswered.snapshot,
        ..case
    };
    let plan = provision(&case.view(), &mut Memory::default(), &|| false).plan.unwrap();
    assert_eq!((plan.launches.len(), plan.left_over()), (1, 0));
    let price = plan.launches[0].price().unwrap().per_hour();
    assert!((price - 0.1).abs() < 1e-9, "a small one does, not one for {price} $/h");
}

#[test]
fn without_answers_the_snapshot_is_the_same() {
    let case = Case::of(answered());
    let before = claims(&case.snapshot, &["a-old", "a-new"]);
    let unanswered = before_answers(&case.snapshot, &before);
    assert!(unanswered.answers.is_empty());
    assert!(Arc::ptr_eq(&unanswered.snapshot, &case.snapshot));
}

#[test]
fn limits_do_not_count_answers() {
    let mut cluster = answered();
    for pool in &mut cluster.snapshot.pools {
        let pool = Arc::make_mut(pool);
        pool.limits = Some(Resources::new().with(sym::CPU, 6000));
        pool.usage = Resources::new().with(sym::CPU, 6000);
    }
    let case = Case::of(cluster);
    let before = claims(&case.snapshot, &["a-old"]);
    let unanswered = before_answers(&case.snapshot, &before);
    let pool = unanswered
        .snapshot
        .pools
        .iter()
        .find(|pool| &*pool.name == "a")
        .unwrap();
    assert_eq!(pool.usage.get(sym::CPU), 2000);
}

#[test]
fn machines_of_static_pools_answer_no_pods() {
    let mut cluster = answered();
    for pool in &mut cluster.snapshot.pools {
        Arc::make_mut(pool).eligibility = Eligibility::Static;
    }
    let case = Case::of(cluster);
    let before = claims(&case.snapshot, &["a-old"]);
    assert!(before_answers(&case.snapshot, &before).answers.is_empty());
}

#[test]
fn a_command_that_holds_is_decided_once() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-1", "small", |_| {});
    cluster.of_kind("a-2", "small", |_| {});
    let case = Case::of(cluster);
    let commands = |case: &Case| {
        let round = case.round(Method::Emptiness, &mut Memory::default());
        round.commands().cloned().collect::<Vec<_>>()
    };
    let both = commands(&case);
    let mut standing = StandingCommands::default();
    let first = standing.update(&both);
    let ids: Vec<u64> = first.new.iter().map(|(command, _)| command.id).collect();
    assert_eq!((first.new.len(), first.ended.len()), (both.len(), 0));
    assert!((standing.savings().per_hour() - 0.2).abs() < 1e-9);
    let again = standing.update(&both);
    assert_eq!((again.new.len(), again.ended.len()), (0, 0));
    // The other autoscaler deletes one of the nodes.
    let case = case.changed(|snapshot| snapshot.nodes.retain(|node| &*node.name != "a-2"));
    let one = commands(&case);
    let change = standing.update(&one);
    let (new, ended) = (change.new.len(), change.ended.len());
    assert!(ended > 0 && ids.contains(&change.ended[0].id), "{new} {ended}");
    assert!((standing.savings().per_hour() - 0.1).abs() < 1e-9);
    assert_eq!(standing.update(&[]).ended.len(), 1);
    assert!(standing.savings().per_hour().abs() < 1e-9);
}
