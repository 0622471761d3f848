//! Section 9.5: drift of pools with a fixed number of nodes.

use crate::fixture::{Cluster, ago, budget, names, now};
use kerf_disruption::{Allowance, Class, Command, static_drift, statically_drifted};
use kerf_model::budget::DisruptionReason;
use kerf_model::in_flight::StaticPool;
use kerf_model::nodepool::Eligibility;
use kerf_model::pod::DoNotDisrupt;
use std::collections::BTreeMap;

/// A static pool "a" of so many nodes, all drifted, the last by name first.
fn cluster(nodes: i64) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.eligibility = Eligibility::Static);
    for number in 0..nodes {
        cluster.node(&format!("a-{number}"), |node| {
            node.lifecycle.drifted = Some(("NodePoolDrifted".into(), ago(number)));
        });
    }
    cluster
}

/// What is decided when so many nodes are wanted, so many stay, and the pool's limit leaves so much room.
fn decide(cluster: &Cluster, replicas: u64, staying: u64, room: u64) -> Vec<Command> {
    let drifted = statically_drifted(&cluster.sorted(Class::Eventual).free);
    let allowance = Allowance::new(&cluster.snapshot, DisruptionReason::Drifted, now());
    let pool = StaticPool {
        replicas,
        staying,
        room,
    };
    static_drift(&drifted, &allowance, &BTreeMap::from([("a".into(), pool)]))
}

// DIS-249
#[test]
fn each_node_gets_a_replacement_made_from_the_template() {
    let commands = decide(&cluster(3), 3, 3, u64::MAX);
    let short: Vec<String> = commands.iter().map(Command::short).collect();
    // The oldest drift first.
    let one = |name: &str| format!("replace: [{name}] -> [1 replacement]");
    assert_eq!(short, [one("a-2"), one("a-1"), one("a-0")]);
    for command in &commands {
        let launch = &command.replacements[0];
        assert_eq!(command.reason, DisruptionReason::Drifted);
        assert!(launch.types.is_empty() && launch.pods.is_empty() && command.plan.is_none());
    }
}

// DIS-249
#[test]
fn dynamic_pools_and_nodes_without_drift_are_not_its_business() {
    let mut cluster = cluster(1);
    cluster.node("a-9", |_| {});
    cluster.pool("b", |_| {});
    cluster.node("b-1", |node| node.lifecycle.drifted = Some(("x".into(), ago(1))));
    let drifted = statically_drifted(&cluster.sorted(Class::Eventual).free);
    assert_eq!(names(&drifted), ["a-0"]);
}

// DIS-250, DIS-251
#[test]
fn budget_and_limit_bound_how_many_go_at_once() {
    let at_once = |nodes: &str, room: u64| {
        let mut cluster = cluster(5);
        let pool = cluster.snapshot.pools[0].clone();
        cluster.pool("a", |changed| {
            *changed = (*pool).clone();
            changed.disruption.budgets = vec![budget(nodes)];
        });
        decide(&cluster, 5, 5, room).len()
    };
    assert_eq!(at_once("100%", u64::MAX), 5);
    assert_eq!(at_once("2", u64::MAX), 2);
    assert_eq!(at_once("0", u64::MAX), 0);
    // No room to surge, no drift; else as much as there is room for.
    assert_eq!(at_once("100%", 0), 0);
    assert_eq!(at_once("100%", 1), 1);
    assert_eq!(at_once("100%", 2), 2);
    assert_eq!(at_once("1", 2), 1);
}

// DIS-250, DIS-252
#[test]
fn a_pool_that_is_to_shrink_does_that_first() {
    assert_eq!(decide(&cluster(3), 2, 3, u64::MAX).len(), 0);
    assert_eq!(decide(&cluster(1), 0, 1, u64::MAX).len(), 0);
    assert_eq!(decide(&cluster(3), 3, 3, u64::MAX).len(), 3);
}

// DIS-253
#[test]
fn protection_keeps_a_node_and_a_grace_period_overrules_that_of_pods() {
    let mut cluster = cluster(0);
    cluster.node("a-0", |node| {
        node.lifecycle.drifted = Some(("x".into(), ago(1)));
        node.lifecycle.do_not_disrupt = true;
    });
    cluster.node("a-1", |node| node.lifecycle.drifted = Some(("x".into(), ago(1))));
    cluster.node("a-2", |node| {
        node.lifecycle.drifted = Some(("x".into(), ago(1)));
        node.lifecycle.termination_grace_seconds = Some(60);
    });
    for node in ["a-1", "a-2"] {
        cluster.bound(node, &format!("on-{node}"), |pod| {
            pod.do_not_disrupt = DoNotDisrupt::Always;
        });
    }
    let drifted = statically_drifted(&cluster.sorted(Class::Eventual).free);
    assert_eq!(names(&drifted), ["a-2"]);
}
