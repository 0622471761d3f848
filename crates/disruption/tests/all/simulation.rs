//! Section 7: what if these nodes were not there.

use crate::fixture::{Asked, Cluster, ago, now, sized};
use kerf_disruption::{Candidate, Consolidation, Simulation, Unplaced, WhatIf, settling_nodes};
use kerf_model::intern::sym;
use kerf_model::plan::Plan;
use kerf_model::pod::{DoNotDisrupt, Phase, Pod, PodFault};
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::Options;
use kerf_units::duration::GoDuration;
use std::sync::{Arc, Mutex};

fn without(cluster: &Cluster, name: &str) -> Simulation {
    let free = cluster.free();
    let candidates: Vec<&Candidate> = free.iter().filter(|candidate| *candidate.node.name == *name).collect();
    assert_eq!(candidates.len(), 1, "{name} is no candidate");
    moved(cluster, &candidates, &[])
}

/// What if these nodes were not there, and those closed to pods that move by choice?
fn moved(cluster: &Cluster, candidates: &[&Candidate], settling: &[usize]) -> Simulation {
    let what_if = WhatIf::new(&cluster.snapshot, settling.to_vec(), now(), &Options::default()).unwrap();
    what_if.without(candidates).unwrap()
}

/// Where pods went: `node: pods`, then `new: pods` per launch.
fn places(simulation: &Simulation) -> Vec<String> {
    let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>().join(" ");
    let existing = simulation
        .plan
        .existing
        .iter()
        .map(|placed| format!("{}: {}", placed.node, names(&placed.pods)));
    let new = simulation
        .plan
        .launches
        .iter()
        .map(|launch| format!("new: {}", names(&launch.pods)));
    existing.chain(new).collect()
}

// DIS-093
#[test]
fn pods_go_to_the_others_and_then_to_new_nodes() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |_| {});
    cluster.bound("a-1", "p", sized(1500));
    cluster.bound("a-1", "q", sized(400));
    cluster.bound("a-2", "r", sized(1000));
    assert_eq!(places(&without(&cluster, "a-1")), ["a-2: q", "new: p"]);
}

// DIS-093, DIS-096, DIS-288, SCH-430
#[test]
fn nodes_that_go_are_no_place_and_their_pods_need_one() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |node| node.marked_for_deletion = true);
    cluster.bound("a-1", "p", sized(1500));
    cluster.bound("a-2", "q", sized(500));
    cluster.pending("w", 2000);
    let simulation = without(&cluster, "a-1");
    let mut placed: Vec<String> = places(&simulation)
        .join(" ")
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    placed.retain(|word| word != "new:");
    placed.sort();
    assert_eq!(placed, ["p", "q", "w"]);
    assert_eq!(simulation.failure(), None);
}

// DIS-097
#[test]
fn a_replacement_has_room_for_virtual_pods_of_a_buffer() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.bound("a-1", "p", sized(500));
    let spare = Pod {
        capacity_buffer: Some("ns/spare".into()),
        ..cluster.pod("spare", 400)
    };
    assert!(spare.is_virtual());
    cluster.snapshot.pending.push(Arc::new(spare));
    let simulation = without(&cluster, "a-1");
    let places = places(&simulation);
    assert_eq!(places.len(), 1, "{places:?}");
    let mut placed: Vec<&str> = places[0].split(' ').collect();
    placed.sort_unstable();
    assert_eq!(placed, ["new:", "p", "spare"]);
}

// DIS-096: the order is that in which a plan's checker gets them.
#[test]
fn who_waits_comes_first_and_who_is_protected_needs_no_place() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |node| node.marked_for_deletion = true);
    cluster.node("a-3", |_| {});
    cluster.bound("a-2", "q", |_| {});
    cluster.bound("a-2", "protected", |pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    cluster.bound("a-1", "p", |_| {});
    cluster.pending("w", 100);
    let simulation = without(&cluster, "a-1");
    assert_eq!(
        (places(&simulation), simulation.failure()),
        (vec!["a-3: p q w".to_owned()], None)
    );
    let checked = Mutex::default();
    Asked::default().with(&cluster, |consolidation, eligible| {
        let checker = |_: &Snapshot, pods: &[Arc<Pod>], _: &Plan| {
            *checked.lock().unwrap() = pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>();
            Ok(())
        };
        let consolidation = Consolidation {
            checker: &checker,
            ..*consolidation
        };
        let command = consolidation.propose(&[&eligible[0]]).unwrap();
        consolidation.check(&command).unwrap();
    });
    assert_eq!(checked.into_inner().unwrap(), ["w", "p", "q"]);
}

// DIS-096, DIS-265: what a claim was made for already needs nothing more.
#[test]
fn pods_a_claim_was_made_for_are_left_alone() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |node| node.marked_for_deletion = true);
    cluster.bound("a-2", "q", |_| {});
    let promised = Arc::clone(&cluster.snapshot.nodes[1].pods[0]);
    cluster.node("a-3", |node| {
        node.provider_id = None;
        node.node_name = None;
        node.initialized = false;
        node.requested = node.allocatable.clone();
        node.pods.push(promised);
    });
    assert_eq!(places(&without(&cluster, "a-1")), [""; 0]);
    assert_eq!(without(&cluster, "a-1").failure(), None);
    // Should the command that asked for it be given up, the machine is no place to rely on until it is there (DIS-100).
    std::sync::Arc::make_mut(&mut cluster.snapshot.nodes[1]).marked_for_deletion = false;
    let failure = without(&cluster, "a-2").failure();
    let told =
        "not all pods would schedule, ns/q => would schedule against uninitialized nodeclaim/claim-a-3, node/a-3 ";
    assert_eq!(failure.as_deref(), Some(told));
    assert_eq!(without(&cluster, "a-1").failure(), None, "it is another node's");
}

// DIS-102, SCH-433
#[test]
fn pending_pods_may_stay_pending_and_running_ones_may_not() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.pending("w", 9000);
    assert_eq!(without(&cluster, "a-1").failure(), None);
    cluster.bound("a-1", "p", sized(9000));
    let failure = without(&cluster, "a-1").failure().unwrap();
    assert!(
        failure.starts_with("not all pods would schedule, ns/p => ") && failure.ends_with(' '),
        "{failure}"
    );
}

// DIS-102: a running pod that could not be planned for is no less homeless.
#[test]
fn a_pod_that_cannot_be_considered_is_not_placed() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.bound("a-1", "p", |pod| pod.faults = vec![PodFault::MatchFields]);
    let failure = without(&cluster, "a-1").failure().unwrap();
    assert_eq!(
        failure,
        "not all pods would schedule, ns/p => node selector term with matchFields is not supported "
    );
}

// DIS-103, SCH-433
#[test]
fn the_sentence_names_five() {
    let sentence = |count: usize| {
        let cluster = Cluster::new();
        let unplaced = (1..=count).map(|number| Unplaced {
            pod: Arc::new(cluster.pod(&format!("p{number}"), 100)),
            why: "no".to_owned(),
        });
        Simulation {
            plan: kerf_model::plan::Plan::default(),
            unplaced: unplaced.collect(),
        }
        .failure()
    };
    assert_eq!(sentence(0), None);
    assert_eq!(
        sentence(2).as_deref(),
        Some("not all pods would schedule, ns/p1 => no ns/p2 => no ")
    );
    let five = "not all pods would schedule, ns/p1 => no ns/p2 => no ns/p3 => no ns/p4 => no ns/p5 => no ";
    assert_eq!(sentence(5).as_deref(), Some(five));
    assert_eq!(sentence(6), Some(format!("{five} and 1 other(s)")));
    assert_eq!(sentence(7), Some(format!("{five} and 2 other(s)")));
}

// DIS-100, SCH-432
#[test]
fn nodes_that_are_not_initialised_are_no_place_but_for_the_homeless() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |node| node.initialized = false);
    cluster.bound("a-1", "p", |_| {});
    assert_eq!(
        without(&cluster, "a-1").failure().as_deref(),
        Some(
            "not all pods would schedule, ns/p => would schedule against uninitialized nodeclaim/claim-a-2, node/a-2 "
        )
    );
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |node| node.initialized = false);
    cluster.node("a-3", |node| node.marked_for_deletion = true);
    cluster.bound("a-3", "q", |_| {});
    let simulation = without(&cluster, "a-1");
    assert_eq!(
        (places(&simulation), simulation.failure()),
        (vec!["a-2: q".to_owned()], None)
    );
}

// DIS-101
#[test]
fn initialised_nodes_come_first() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |node| node.initialized = false);
    cluster.node("a-3", |_| {});
    cluster.bound("a-1", "p", |_| {});
    assert_eq!(places(&without(&cluster, "a-1")), ["a-3: p"]);
}

// DIS-106
#[test]
fn unmanaged_nodes_are_a_place() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.node("x-1", |node| {
        (node.managed, node.claim_name, node.pool) = (false, None, None);
    });
    cluster.bound("a-1", "p", |_| {});
    assert_eq!(places(&without(&cluster, "a-1")), ["x-1: p"]);
}

// DIS-107
#[test]
fn bare_pods_move_like_others() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.bound("a-1", "p", |pod| pod.owner = kerf_model::pod::Owner::None);
    assert_eq!(places(&without(&cluster, "a-1")), ["new: p"]);
}

// DIS-312
#[test]
fn a_pool_at_its_limit_can_replace_its_nodes() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| {
        pool.limits = Some(Resources::new().with(sym::CPU, 2000).with(sym::NODES, 1));
        pool.usage = Resources::new().with(sym::CPU, 2000).with(sym::NODES, 1);
    });
    cluster.node("a-1", |_| {});
    cluster.bound("a-1", "p", |_| {});
    let simulation = without(&cluster, "a-1");
    assert_eq!(
        (places(&simulation), simulation.failure()),
        (vec!["new: p".to_owned()], None)
    );
}

// DIS-104, DIS-105, DIS-121
#[test]
fn nodes_that_settle_take_nothing_that_could_stay() {
    let after = |seconds| Some(GoDuration::from_secs(seconds));
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.disruption.consolidate_after = after(60));
    cluster.pool("b", |pool| pool.disruption.consolidate_after = after(0));
    cluster.pool("c", |pool| pool.disruption.consolidate_after = None);
    for (name, initialized, event) in [
        ("a-1", Some(3600), None),
        ("a-2", Some(3600), Some(59)),
        ("a-3", Some(3600), Some(60)),
        ("a-4", Some(30), None),
        // The last pod event is later than the initialisation, and longer ago than the window.
        ("a-5", Some(30), Some(60)),
        ("a-6", None, Some(1)),
        ("b-1", Some(1), Some(1)),
        ("c-1", Some(1), Some(1)),
    ] {
        cluster.node(name, |node| {
            node.lifecycle.initialized_at = initialized.map(ago);
            node.lifecycle.last_pod_event = event.map(ago);
        });
    }
    let settling = settling_nodes(&cluster.snapshot, now());
    let names: Vec<&str> = settling.iter().map(|at| &*cluster.snapshot.nodes[*at].name).collect();
    assert_eq!(names, ["a-2", "a-4"]);

    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.disruption.consolidate_after = after(60));
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |node| node.lifecycle.last_pod_event = Some(ago(1)));
    cluster.bound("a-1", "p", |_| {});
    cluster.pending("w", 100);
    let free = cluster.free();
    let candidates = [&free[0]];
    let settling = settling_nodes(&cluster.snapshot, now());
    let simulation = moved(&cluster, &candidates, &settling);
    assert_eq!(places(&simulation), ["a-2: w", "new: p"]);
}

// DIS-104: the phase decides which pods may be planned there, not whether the pod is bound.
#[test]
fn a_bound_pod_that_has_not_started_may_go_to_a_node_that_settles() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| {
        pool.disruption.consolidate_after = Some(GoDuration::from_secs(60));
    });
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |node| node.lifecycle.last_pod_event = Some(ago(1)));
    cluster.bound("a-1", "running", |_| {});
    cluster.bound("a-1", "starting", |pod| pod.phase = Phase::Pending);
    let free = cluster.free();
    let settling = settling_nodes(&cluster.snapshot, now());
    let simulation = moved(&cluster, &[&free[0]], &settling);
    assert_eq!(places(&simulation), ["a-2: starting", "new: running"]);
}
