//! What moving costs, and the order that follows from it.

use crate::fixture::{Cluster, ago, names, now};
use jiff::SignedDuration;
use kerf_disruption::{Candidate, Cost, lifetime_remaining};
use kerf_model::pod::{Owner, Pod};
use kerf_model::price::Price;

const MILLION: i32 = 1_000_000;

// DIS-046, DIS-047
#[test]
fn eviction_costs() {
    let cluster = Cluster::new();
    let cost = |deletion: i32, priority: i32| {
        let mut pod = cluster.pod("p", 1);
        (pod.deletion_cost, pod.priority) = (deletion, priority);
        Cost::of_eviction(&pod).as_pods()
    };
    let table = [
        (0, 0, 1.0),
        (1 << 27, 0, 2.0),
        (-(1 << 27), 0, 0.0),
        (0, 1 << 25, 2.0),
        (0, -(1 << 26), -1.0),
        (i32::MAX, 0, 10.0),
        (i32::MIN, 0, -10.0),
        (i32::MAX, i32::MAX, 10.0),
        (0, 2_000_000_000, 10.0),
    ];
    for (deletion, priority, expected) in table {
        assert_eq!(cost(deletion, priority), expected, "{deletion} {priority}");
    }
    assert!(cost(MILLION, 0) > cost(0, 0) && cost(0, 0) > cost(-MILLION, 0));
    assert!(cost(0, 1) > cost(0, 0) && cost(0, 0) > cost(0, -1));
}

fn only(change: impl FnOnce(&mut Cluster)) -> Candidate {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    change(&mut cluster);
    cluster.free().remove(0)
}

// DIS-045, DIS-050, DIS-151
#[test]
fn empty_means_that_nothing_costs() {
    let with = |change: fn(&mut Pod)| only(|cluster| cluster.bound("a-1", "p", change));
    assert!(only(|_| {}).is_empty());
    assert_eq!(with(|_| {}).cost.as_pods(), 2.0);
    assert!(with(|pod| pod.owner = Owner::DaemonSet).is_empty());
    assert!(with(|pod| pod.deletion = Some(now())).is_empty());
    assert!(with(|pod| pod.deletion_cost = -(1 << 27)).is_empty());
    assert!(with(|pod| pod.priority = i32::MIN).is_empty());
    assert!(!with(|pod| (pod.deletion, pod.owner) = (Some(now()), Owner::StatefulSet)).is_empty());
    assert!(!with(|pod| pod.deletion_cost = -(1 << 27) + 1).is_empty());
}

// DIS-045: a pod below zero takes nothing off the others.
#[test]
fn negative_costs_count_as_nothing() {
    let candidate = only(|cluster| {
        cluster.bound("a-1", "p", |_| {});
        cluster.bound("a-1", "q", |pod| pod.deletion_cost = i32::MIN);
    });
    assert_eq!(candidate.cost.as_pods(), 2.0);
}

// DIS-051, DIS-122, DIS-123
#[test]
fn the_most_saved_per_cost_goes_first() {
    let mut cluster = Cluster::new();
    for (name, price, pods) in [
        ("a-1", 0.2, 3),
        ("a-2", 0.2, 1),
        ("a-3", 0.6, 4),
        ("a-4", 0.1, 0),
        ("a-5", 0.1, 0),
    ] {
        cluster.node(name, |node| node.price = Price::from_per_hour(price));
        for number in 0..pods {
            cluster.bound(name, &format!("{name}-{number}"), |_| {});
        }
    }
    cluster.node("a-6", |node| node.price = None);
    let mut free = cluster.free();
    free.reverse();
    free.sort_by(Candidate::by_savings);
    assert_eq!(names(&free), ["a-3", "a-2", "a-4", "a-5", "a-1", "a-6"]);
}

// DIS-049
#[test]
fn a_node_ages() {
    let mut cluster = Cluster::new();
    for (name, created, expires) in [
        ("a-1", 3600, None),
        ("a-2", 3600, Some(3600)),
        ("a-3", 7200, Some(0)),
        ("a-4", 7200, Some(-10)),
        ("a-5", -10, Some(3600)),
    ] {
        cluster.node(name, |node| {
            node.created = ago(created);
            node.lifecycle.expires = expires.map(|seconds| now() + SignedDuration::from_secs(seconds));
        });
    }
    let left: Vec<f64> = cluster
        .snapshot
        .nodes
        .iter()
        .map(|node| lifetime_remaining(node, now()))
        .collect();
    assert_eq!(left, [1.0, 0.5, 0.0, 0.0, 1.0]);
}
