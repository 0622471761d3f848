//! Retirement of nodes that only pods which must not be disrupted keep.

use crate::fixture::{Cluster, ago, now, sized};
use kerf_disruption::{Class, RETIRING, consolidation_options, is_retiring, retiring, settling_nodes};
use kerf_model::budget::ConsolidationPolicy;
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::pod::{DoNotDisrupt, Pod};
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use kerf_model::taint::{Effect, Taint};
use kerf_scheduler::Options;
use std::sync::Arc;

/// Who should retire.
fn retire(cluster: &Cluster) -> Vec<&str> {
    let sorted = cluster.sorted(Class::Graceful);
    let closed = settling_nodes(&cluster.snapshot, now());
    let options = consolidation_options(&Options::default());
    let chosen = retiring(&cluster.snapshot, &sorted, &closed, now(), &options).unwrap();
    chosen.into_iter().map(|at| &*cluster.snapshot.nodes[at].name).collect()
}

fn protected(pod: &mut Pod) {
    pod.do_not_disrupt = DoNotDisrupt::Always;
    sized(300)(pod);
}

fn taint(node: &mut Node) {
    node.taints.push(Taint {
        key: RETIRING.into(),
        value: "".into(),
        effect: Effect::NoSchedule,
    });
}

/// A dear node and a cheap one in a pool that wants blocked nodes to retire, with a job on the former.
fn blocked(pool: impl FnOnce(&mut NodePool), dear: impl FnOnce(&mut Node)) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.pool("a", |a| {
        a.disruption.retire_blocked = true;
        pool(a);
    });
    cluster.node("a-1", |node| {
        node.price = Price::from_per_hour(0.9);
        dear(node);
    });
    cluster.node("a-2", |_| {});
    cluster.bound("a-1", "job", protected);
    cluster.bound("a-2", "web", sized(200));
    cluster
}

#[test]
fn a_node_that_would_go_but_for_a_protected_pod_retires() {
    assert_eq!(retire(&blocked(|_| {}, |_| {})), ["a-1"]);
    let table: [(&str, fn(&mut NodePool), fn(&mut Node)); 6] = [
        ("not asked for", |pool| pool.disruption.retire_blocked = false, |_| {}),
        ("never", |pool| pool.disruption.consolidate_after = None, |_| {}),
        ("static", |pool| pool.eligibility = Eligibility::Static, |_| {}),
        ("too early", |_| {}, |node| node.lifecycle.consolidatable = false),
        ("annotated", |_| {}, |node| node.lifecycle.do_not_disrupt = true),
        ("nominated", |_| {}, |node| node.nominated_until = Some(ago(-60))),
    ];
    for (what, pool, node) in table {
        let mut cluster = blocked(pool, node);
        if what == "static" {
            cluster.pool("b", |_| {});
        }
        assert_eq!(retire(&cluster), [""; 0], "{what}");
    }
}

#[test]
fn other_pods_must_find_a_place_and_have_no_budget_against_it() {
    let mut cluster = blocked(|_| {}, |_| {});
    cluster.bound("a-1", "more", sized(1600));
    assert_eq!(retire(&cluster), [""; 0], "the other node has no room for both");
    let mut cluster = blocked(|_| {}, |_| {});
    cluster.bound("a-1", "more", sized(100));
    assert_eq!(retire(&cluster), ["a-1"]);
    cluster.pdb("pdb", |_| {});
    assert_eq!(retire(&cluster), [""; 0]);
    let mut only_empty = blocked(
        |pool| pool.disruption.consolidation = ConsolidationPolicy::WhenEmpty,
        |_| {},
    );
    assert_eq!(retire(&only_empty), ["a-1"], "it will be empty");
    only_empty.bound("a-1", "more", sized(100));
    assert_eq!(retire(&only_empty), [""; 0]);
}

// DIS-205: what would be refused once the job is done keeps its place.
#[test]
fn a_node_a_balanced_pool_would_keep_does_not_retire() {
    let balanced = |pool: &mut NodePool| pool.disruption.consolidation = ConsolidationPolicy::Balanced;
    let cheap = |node: &mut Node| node.price = Price::from_per_hour(0.01);
    let dear = |cluster: &mut Cluster| Arc::make_mut(&mut cluster.snapshot.nodes[1]).price = Price::from_per_hour(0.9);
    assert_eq!(retire(&blocked(balanced, |_| {})), ["a-1"]);
    let mut cluster = blocked(balanced, cheap);
    dear(&mut cluster);
    for name in ["more-1", "more-2", "more-3"] {
        cluster.bound("a-1", name, sized(10));
    }
    assert_eq!(retire(&cluster), [""; 0]);
    taint(Arc::make_mut(&mut cluster.snapshot.nodes[0]));
    assert_eq!(retire(&cluster), [""; 0], "it comes back");
    let mut cluster = blocked(|_| {}, cheap);
    dear(&mut cluster);
    assert_eq!(retire(&cluster), ["a-1"], "other policies do not weigh");
}

#[test]
fn a_node_whose_pool_changes_its_mind_comes_back() {
    let mut cluster = blocked(|_| {}, taint);
    cluster.bound("a-1", "more", sized(100));
    assert_eq!(retire(&cluster), ["a-1"]);
    let unsettled = |node: &mut Node| node.lifecycle.consolidatable = false;
    unsettled(Arc::make_mut(&mut cluster.snapshot.nodes[0]));
    assert_eq!(retire(&cluster), ["a-1"], "pods that come or go change nothing");
    let policy = |pool: &mut NodePool| pool.disruption.consolidation = ConsolidationPolicy::WhenEmpty;
    policy(Arc::make_mut(&mut cluster.snapshot.pools[0]));
    assert_eq!(retire(&cluster), [""; 0]);
}

#[test]
fn a_pod_that_has_no_place_anyway_stops_nobody() {
    let mut cluster = blocked(|_| {}, |_| {});
    cluster.node("a-3", |node| node.marked_for_deletion = true);
    cluster.bound("a-3", "huge", sized(64_000));
    assert_eq!(retire(&cluster), ["a-1"]);
    taint(Arc::make_mut(&mut cluster.snapshot.nodes[0]));
    assert_eq!(retire(&cluster), ["a-1"], "it stays so");
}

#[test]
fn the_last_place_for_pods_to_come_does_not_retire() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.disruption.retire_blocked = true);
    for name in ["a-1", "a-2", "a-3"] {
        cluster.node(name, |_| {});
        cluster.bound(name, &format!("job-{name}"), protected);
    }
    assert_eq!(retire(&cluster), ["a-1"], "one at a time");
    let mark = |cluster: &mut Cluster, at: usize| taint(Arc::make_mut(&mut cluster.snapshot.nodes[at]));
    mark(&mut cluster, 0);
    assert_eq!(retire(&cluster), ["a-1", "a-2"]);
    mark(&mut cluster, 1);
    assert_eq!(retire(&cluster), ["a-1", "a-2"], "their jobs fit on the third");
}

#[test]
fn a_node_that_is_needed_again_comes_back() {
    let mut cluster = blocked(|_| {}, taint);
    assert!(is_retiring(&cluster.snapshot.nodes[0]));
    assert_eq!(retire(&cluster), ["a-1"]);
    cluster.bound("a-2", "grown", sized(1700));
    assert_eq!(retire(&cluster), [""; 0]);
    // A pod that waits for room the node has.
    let mut cluster = blocked(|_| {}, taint);
    cluster.pending("w", 1650);
    assert_eq!(retire(&cluster), [""; 0]);
    // The same where the pool is beyond its limits, and nothing could be launched in the node's place.
    let beyond = |pool: &mut NodePool| {
        pool.limits = Some(Resources::new().with(sym::NODES, 0));
        pool.usage = Resources::new().with(sym::NODES, 2);
    };
    let mut cluster = blocked(beyond, |_| {});
    assert_eq!(retire(&cluster), ["a-1"]);
    cluster.pending("w", 1650);
    assert_eq!(retire(&cluster), [""; 0]);
    // One that needs a new machine in any case changes nothing.
    let mut cluster = blocked(|_| {}, taint);
    cluster.pending("w", 1900);
    assert_eq!(retire(&cluster), ["a-1"]);
}

#[test]
fn a_node_whose_blocker_is_gone_waits_for_its_turn_and_one_nobody_asks_for_comes_back() {
    let mut cluster = blocked(
        |_| {},
        |node| {
            taint(node);
            node.lifecycle.consolidatable = false;
        },
    );
    let node = Arc::make_mut(&mut cluster.snapshot.nodes[0]);
    node.pods.clear();
    assert_eq!(retire(&cluster), ["a-1"]);
    let cluster = blocked(|pool| pool.disruption.retire_blocked = false, taint);
    assert_eq!(retire(&cluster), [""; 0]);
    let cluster = blocked(
        |_| {},
        |node| {
            taint(node);
            node.marked_for_deletion = true;
        },
    );
    assert_eq!(retire(&cluster), ["a-1"], "on its way out");
}
