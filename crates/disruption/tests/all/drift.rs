//! Section 9.4: acting on drift.

use crate::fixture::{Asked, Cluster, ago, budget, names, now};
use kerf_disruption::{Allowance, Class, Command, SimulationError, UnconsolidatableNode, drift, drifted, unchecked};
use kerf_model::budget::DisruptionReason;
use kerf_model::nodepool::Eligibility;
use kerf_model::pod::{DoNotDisrupt, Owner};
use kerf_scheduler::Options;
use kerf_units::duration::GoDuration;

/// The command for the first drifted node that can go, and the nodes that stay.
type Outcome = Result<(Option<Command>, Vec<UnconsolidatableNode>), SimulationError>;

fn decide(cluster: &Cluster) -> (Option<Command>, Vec<UnconsolidatableNode>) {
    outcome(cluster).unwrap()
}

fn outcome(cluster: &Cluster) -> Outcome {
    let candidates = drifted(&cluster.sorted(Class::Eventual).free);
    let allowance = Allowance::new(&cluster.snapshot, DisruptionReason::Drifted, now());
    drift(
        &cluster.snapshot,
        &candidates,
        &allowance,
        now(),
        &Options::default(),
        &unchecked,
    )
}

fn cluster(nodes: &[(&str, i64)]) -> Cluster {
    let mut cluster = Cluster::new();
    for (name, since) in nodes {
        cluster.node(name, |node| {
            node.lifecycle.drifted = Some(("NodePoolDrifted".into(), ago(*since)));
        });
    }
    cluster
}

// DIS-239, DIS-240
#[test]
fn the_empty_go_first_and_then_the_longest_drifted() {
    let mut cluster = cluster(&[("a-1", 10), ("a-2", 30), ("a-3", 20), ("a-4", 5)]);
    cluster.node("a-5", |_| {});
    for name in ["a-1", "a-2"] {
        cluster.bound(name, name, |_| {});
    }
    // A daemon does not move.
    cluster.bound("a-3", "d", |pod| pod.owner = Owner::DaemonSet);
    // Cheap to evict is not the same as nothing to evict.
    cluster.bound("a-4", "cheap", |pod| pod.deletion_cost = i32::MIN);
    let order = drifted(&cluster.sorted(Class::Eventual).free);
    assert_eq!(names(&order), ["a-3", "a-2", "a-1", "a-4"]);
}

// DIS-239, DIS-249
#[test]
fn static_pools_are_not_its_business() {
    let mut cluster = cluster(&[("a-1", 10)]);
    cluster.pool("a", |pool| pool.eligibility = Eligibility::Static);
    assert!(drifted(&cluster.sorted(Class::Eventual).free).is_empty());
}

// DIS-157, DIS-243
#[test]
fn consolidation_settings_do_not_matter() {
    let mut cluster = cluster(&[]);
    cluster.pool("a", |pool| pool.disruption.consolidate_after = None);
    cluster.node("a-1", |node| {
        node.lifecycle.drifted = Some(("x".into(), ago(1)));
        node.lifecycle.consolidatable = false;
    });
    assert_eq!(decide(&cluster).0.unwrap().short(), "delete: [a-1]");
}

// SCH-431, DIS-104
#[test]
fn pods_go_where_consolidation_may_not_put_them() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| {
        pool.disruption.consolidate_after = Some(GoDuration::from_secs(60));
    });
    cluster.node("a-1", |node| node.lifecycle.drifted = Some(("x".into(), ago(1))));
    // Inside its `consolidateAfter`.
    cluster.node("a-2", |node| node.lifecycle.last_pod_event = Some(ago(1)));
    cluster.bound("a-1", "p", |_| {});
    assert_eq!(decide(&cluster).0.unwrap().short(), "delete: [a-1]");
    let chosen = Asked::default().propose(&cluster, &["a-1"]);
    assert!(chosen.unwrap().short().starts_with("replace: [a-1] -> "));
    // It has been left alone long enough for both.
    cluster.snapshot.nodes.retain(|node| &*node.name != "a-2");
    cluster.node("a-2", |node| node.lifecycle.last_pod_event = Some(ago(60)));
    assert_eq!(decide(&cluster).0.unwrap().short(), "delete: [a-1]");
    let chosen = Asked::default().propose(&cluster, &["a-1"]);
    assert_eq!(chosen.unwrap().short(), "delete: [a-1]");
}

// DIS-242
#[test]
fn one_node_becomes_as_many_as_its_pods_need() {
    let mut cluster = cluster(&[("a-1", 10)]);
    cluster.bound("a-1", "p", |_| {});
    let one = decide(&cluster).0.unwrap();
    assert_eq!(one.short(), "replace: [a-1] -> [1 replacement]");
    assert_eq!(one.candidates.len(), 1);
    cluster.bound("a-1", "q", |pod| {
        let mut shape = (*pod.shape).clone();
        shape.requests.set(kerf_model::intern::sym::CPU, 2000);
        pod.shape = shape.into();
    });
    assert_eq!(
        decide(&cluster).0.unwrap().short(),
        "replace: [a-1] -> [2 replacements]"
    );
}

// DIS-293
#[test]
fn a_replace_commands_full_text_counts_the_replacements() {
    let mut cluster = cluster(&[("a-1", 10)]);
    cluster.bound("a-1", "p", |_| {});
    // The node costs 0.10, and the cheapest offering of its successor is spot at 0.05.
    assert_eq!(
        decide(&cluster).0.unwrap().full("u"),
        "Drifted/u: replace: nodepools=[a]: [a-1] -> [1 replacement] (savings: $0.05)"
    );
}

// DIS-241
#[test]
fn what_cannot_be_placed_is_told_and_the_next_is_tried() {
    let mut cluster = cluster(&[("a-1", 30), ("a-2", 10)]);
    cluster.bound("a-1", "big", |pod| {
        let mut shape = (*pod.shape).clone();
        shape.requests.set(kerf_model::intern::sym::CPU, 9000);
        pod.shape = shape.into();
    });
    cluster.bound("a-2", "p", |_| {});
    let (command, staying) = decide(&cluster);
    assert_eq!(names(&command.unwrap().candidates), ["a-2"]);
    assert_eq!(staying.len(), 1);
    let message = staying[0].why.message();
    assert!(
        message.starts_with("Not all pods would schedule, ns/big => "),
        "{message}"
    );
}

// DIS-088, DIS-241
#[test]
fn budgets_let_one_after_the_other_go() {
    let mut cluster = cluster(&[("a-1", 30), ("a-2", 20), ("a-3", 10)]);
    cluster.pool("a", |pool| pool.disruption.budgets = vec![budget("1")]);
    assert_eq!(names(&decide(&cluster).0.unwrap().candidates), ["a-1"]);
    cluster.node("a-4", |node| node.marked_for_deletion = true);
    assert!(decide(&cluster).0.is_none());
}

// DIS-244
#[test]
fn protected_pods_get_no_replacement() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |node| {
        node.lifecycle.drifted = Some(("x".into(), ago(1)));
        node.lifecycle.termination_grace_seconds = Some(60);
    });
    cluster.bound("a-1", "p", |pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    assert_eq!(decide(&cluster).0.unwrap().short(), "delete: [a-1]");
}

// DIS-245, DIS-248
#[test]
fn blocked_nodes_wait() {
    let mut protected = cluster(&[("a-1", 10)]);
    protected.bound("a-1", "p", |pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    assert!(decide(&protected).0.is_none());
    let mut guarded = cluster(&[("a-1", 10)]);
    guarded.bound("a-1", "p", |pod| pod.ready = Some(false));
    guarded.pdb("one", |_| {});
    assert!(decide(&guarded).0.is_none());
}

// DIS-094
#[test]
fn without_a_pool_to_launch_from_drift_fails() {
    let mut cluster = cluster(&[("a-1", 10)]);
    cluster.pool("a", |pool| pool.eligibility = Eligibility::NotReady("no".into()));
    let error = outcome(&cluster).unwrap_err();
    assert_eq!(error.to_string(), "no dynamic nodepools found");
}
