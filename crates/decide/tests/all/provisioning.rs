//! What a pass of provisioning is about, and when it makes no plan.

use crate::case::{Case, open_pool};
use kerf_decide::{Memory, NoPlan, provision};
use kerf_model::in_flight::LaunchRoom;
use kerf_model::intern::sym;
use kerf_model::nodepool::Eligibility;
use kerf_model::pod::{AffinityTerm, NamespaceScope, Pod};
use kerf_model::selector::{LabelSelector, Match};
use kerf_testkit::disruption::{Cluster, ago, sized};
use std::collections::BTreeSet;
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

#[test]
fn pods_that_kube_scheduler_has_not_looked_at_are_planned_with_those_it_has() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.untried("later-1", 500);
    cluster.untried("later-2", 500);
    cluster.untried("too-large", 64_000);
    let nothing = provision(&Case::of(cluster.clone()).view(), &mut Memory::default(), &|| false);
    assert_eq!(
        nothing.plan.unwrap_err(),
        NoPlan::NothingToPlace,
        "there may be room for them"
    );
    cluster.pending("first", 500);
    let decision = provision(&Case::of(cluster).view(), &mut Memory::default(), &|| false);
    assert_eq!(
        names(&decision.batch.pods),
        ["first", "later-1", "later-2", "too-large"]
    );
    assert!(decision.violations.is_empty(), "{:?}", decision.violations);
    let plan = decision.plan.unwrap();
    let launches: Vec<usize> = plan.launches.iter().map(|launch| launch.pods.len()).collect();
    assert_eq!(launches, [3], "one machine for all");
    assert_eq!(plan.left_over(), 0, "kube-scheduler says first that a pod has no place");
}

#[test]
fn pods_stay_where_they_were_planned_also_once_the_nodes_are_ready() {
    for initialized in [false, true] {
        let mut cluster = Cluster::new();
        open_pool(&mut cluster);
        for name in ["a-1", "a-2"] {
            cluster.of_kind(name, "small", |node| {
                node.initialized = initialized;
                node.claim_name = Some(format!("claim-{name}").into());
            });
        }
        cluster.pending("one", 500);
        cluster.pending("two", 500);
        let mut case = Case::of(cluster);
        let planned = |case: &Case| {
            let plan = provision(&case.view(), &mut Memory::default(), &|| false).plan.unwrap();
            assert!(plan.launches.is_empty());
            let places = plan.existing.iter();
            let texts = places.map(|place| format!("{}: {}", place.node, names(&place.pods).join(" ")));
            texts.collect::<Vec<_>>().join(", ")
        };
        for (one, two, expected) in [
            ("a-2", "a-2", "a-2: one two"),
            ("a-1", "a-2", "a-1: one, a-2: two"),
            ("a-2", "a-1", "a-1: two, a-2: one"),
        ] {
            for (pod, node) in [("one", one), ("two", two)] {
                let key = ("ns".into(), pod.into());
                case.in_flight.planned.insert(key, format!("claim-{node}").into());
            }
            assert_eq!(planned(&case), expected, "initialized: {initialized}");
        }
    }
}

#[test]
fn many_pods_stay_where_they_were_planned_while_a_machine_is_launched_for_another() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    let nodes: Vec<String> = (1..=12).map(|node| format!("a-{node:02}")).collect();
    for name in &nodes {
        cluster.of_kind(name, "small", |node| {
            node.claim_name = Some(format!("claim-{name}").into());
        });
    }
    let places: Vec<(String, &String)> = (0..1_100)
        .map(|pod| (format!("pod-{pod}"), &nodes[pod * 7 % nodes.len()]))
        .collect();
    for (pod, _) in &places {
        cluster.pending(pod, 1);
    }
    // It needs a larger machine than these.
    cluster.pending("large", 2_500);
    let mut case = Case::of(cluster);
    for (pod, node) in &places {
        let key = ("ns".into(), pod.as_str().into());
        case.in_flight.planned.insert(key, format!("claim-{node}").into());
    }
    let decision = provision(&case.view(), &mut Memory::default(), &|| false);
    let plan = decision.plan.unwrap();
    assert_eq!(names(&plan.launches[0].pods), ["large"]);
    let placed = plan
        .existing
        .iter()
        .flat_map(|placement| names(&placement.pods).into_iter().map(|pod| (pod, &*placement.node)));
    let expected: BTreeSet<(&str, &str)> = places.iter().map(|(pod, node)| (pod.as_str(), node.as_str())).collect();
    assert_eq!(placed.collect::<BTreeSet<_>>(), expected);
}

/// A pod of 500 that was planned onto `a-1`, where another pod took its place. A new pod has room on `a-2`, and so has a pod that was planned onto it.
#[derive(Clone, Copy)]
struct Displaced {
    /// For how many seconds `a-1` has been ready, if it is there.
    ready_for: Option<i64>,
    /// How many seconds ago the last pod was bound to `a-1`.
    last_bound: Option<i64>,
    /// Whether the pod that was planned onto `a-2` still waits.
    waits_elsewhere: bool,
    /// How many seconds ago the pods were created.
    age: i64,
    /// The room that is left on `a-1`; `a-2` will have 300.
    left: i64,
}

const DISPLACED: Displaced = Displaced {
    ready_for: Some(10),
    last_bound: None,
    waits_elsewhere: true,
    age: 60,
    left: 200,
};

/// What is decided about it, as `held; launched`.
fn about_displaced(displaced: Displaced) -> String {
    let Displaced {
        ready_for,
        last_bound,
        waits_elsewhere,
        age,
        left,
    } = displaced;
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    for (name, ready_for) in [("a-1", ready_for), ("a-2", Some(10))] {
        cluster.of_kind(name, "small", |node| {
            node.claim_name = Some(format!("claim-{name}").into());
            node.lifecycle.initialized_at = ready_for.map(ago);
            node.lifecycle.last_pod_event = last_bound.map(ago);
        });
    }
    let room = cluster.snapshot.nodes[0].available().get(sym::CPU);
    cluster.bound("a-1", "other", sized(room - left));
    cluster.pending("displaced", 500);
    cluster.pending("new", room - 600 - 300);
    match waits_elsewhere {
        true => cluster.pending("waiting", 600),
        false => cluster.bound("a-2", "waiting", sized(600)),
    }
    for pod in &mut cluster.snapshot.pending {
        Arc::make_mut(pod).created = ago(age);
    }
    let mut case = Case::of(cluster);
    for (pod, node) in [("displaced", "a-1"), ("waiting", "a-2")] {
        let key = ("ns".into(), pod.into());
        case.in_flight.planned.insert(key, format!("claim-{node}").into());
    }
    let decision = provision(&case.view(), &mut Memory::default(), &|| false);
    assert!(decision.violations.is_empty(), "{:?}", decision.violations);
    let launches = decision.plan.expect("a plan").launches;
    let launched: Vec<String> = launches.iter().map(|launch| names(&launch.pods).join(" ")).collect();
    format!("{}; {}", names(&decision.held).join(" "), launched.join(", "))
}

// SCH-045 as docs/deviations.md has it
#[test]
fn no_machine_is_launched_for_a_pod_whose_node_is_full_while_others_are_still_bound() {
    assert_eq!(about_displaced(DISPLACED), "displaced; ", "the new pod has room");
    let to_come = Displaced {
        ready_for: None,
        ..DISPLACED
    };
    assert_eq!(about_displaced(to_come), "displaced; ", "its node is not initialized");
    let slow = |ready_for, last_bound| {
        about_displaced(Displaced {
            ready_for: Some(ready_for),
            last_bound: Some(last_bound),
            age: 150,
            ..DISPLACED
        })
    };
    assert_eq!(slow(119, 9), "displaced; ", "pods are still bound");
    assert_eq!(slow(119, 10), "; displaced", "no pod is bound any more");
    assert_eq!(slow(120, 9), "; displaced", "it is bound to a node of long ago");
    // kube-scheduler had time enough, or has bound all others.
    let long_ready = Displaced {
        ready_for: Some(30),
        ..DISPLACED
    };
    assert_eq!(about_displaced(long_ready), "; displaced");
    let alone = Displaced {
        waits_elsewhere: false,
        ..DISPLACED
    };
    assert_eq!(about_displaced(alone), "; displaced");
    let old = Displaced { age: 300, ..to_come };
    assert_eq!(about_displaced(old), "; displaced", "it has waited for long");
}

// SCH-045 as docs/deviations.md has it
#[test]
fn a_machine_is_launched_at_once_for_a_pod_whose_room_a_new_pod_took() {
    let left = |left| about_displaced(Displaced { left, ..DISPLACED });
    assert_eq!(left(200), "displaced; ", "there is room for it in sum");
    assert_eq!(left(199), "; displaced", "however pods are bound, one has no room");
}

// SCH-045 as docs/deviations.md has it
#[test]
fn a_pod_that_can_be_bound_only_after_a_launch_does_not_hold_the_launch_back() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-1", "small", |node| {
        node.claim_name = Some("claim-a-1".into());
        node.lifecycle.initialized_at = Some(ago(10));
    });
    let room = cluster.snapshot.nodes[0].available().get(sym::CPU);
    cluster.bound("a-1", "other", sized(500));
    cluster.pending("leader", room);
    cluster.pending("follower", 100);
    for pod in &mut cluster.snapshot.pending {
        Arc::make_mut(pod).created = ago(60);
    }
    // It may only run in the zone of the other.
    let near = AffinityTerm {
        key: sym::ZONE,
        selector: LabelSelector::all([Match::any_of("app", ["leader".into()])]),
        namespaces: NamespaceScope {
            names: vec!["ns".into()],
            selector: None,
        },
    };
    let follower = Arc::make_mut(&mut cluster.snapshot.pending[1]);
    Arc::make_mut(&mut follower.shape).affinity.push(near);
    let mut case = Case::of(cluster);
    for pod in ["leader", "follower"] {
        let key = ("ns".into(), pod.into());
        case.in_flight.planned.insert(key, "claim-a-1".into());
    }
    let decision = provision(&case.view(), &mut Memory::default(), &|| false);
    assert!(decision.held.is_empty(), "{:?}", names(&decision.held));
    let plan = decision.plan.unwrap();
    assert_eq!(names(&plan.launches[0].pods), ["leader"]);
    assert_eq!(names(&plan.existing[0].pods), ["follower"]);
}

// AWS-255 and LIF-023 as docs/deviations.md has it
#[test]
fn a_pool_without_capacity_launches_as_many_machines_as_it_has_room_for() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    // Each fills a machine of the largest type.
    for name in ["one", "two", "three"] {
        cluster.pending(name, 3000);
    }
    let mut case = Case::of(cluster);
    let decided = |case: &Case| {
        let decision = provision(&case.view(), &mut Memory::default(), &|| false);
        let plan = decision.plan.unwrap();
        let launched: Vec<&str> = plan.launches.iter().flat_map(|launch| names(&launch.pods)).collect();
        assert_eq!(plan.left_over(), 0, "pods that wait are not unschedulable");
        assert_eq!(
            names(&decision.batch.pods).len(),
            launched.len(),
            "nor part of the pass"
        );
        assert!(!decision.any_unreached);
        (launched.len(), decision.held.len())
    };
    assert_eq!(decided(&case), (3, 0));
    let room = |claims, failures| LaunchRoom { claims, failures };
    for (claims, expected) in [(0, (0, 3)), (1, (1, 2)), (2, (2, 1)), (3, (3, 0)), (9, (3, 0))] {
        case.in_flight.launch_room.insert("a".into(), room(claims, 1));
        assert_eq!(decided(&case), expected, "room for {claims}");
    }
    case.in_flight.launch_room = [("b".into(), room(0, 1))].into();
    assert_eq!(decided(&case), (3, 0), "another pool has none");
    let tried: BTreeSet<String> = (1..=3)
        .map(|failures| {
            case.in_flight.launch_room = [("a".into(), room(1, failures))].into();
            let plan = provision(&case.view(), &mut Memory::default(), &|| false).plan.unwrap();
            names(&plan.launches[0].pods).concat()
        })
        .collect();
    assert_eq!(tried.len(), 3, "after each failure another one: {tried:?}");
}
