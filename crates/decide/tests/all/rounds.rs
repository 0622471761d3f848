//! Rounds of disruption: the order of methods, what a search remembers, and what holds nodes back.

use crate::case::{Case, commands, drifted, methods, open, open_pool};
use jiff::SignedDuration;
use kerf_decide::{Memory, Method, Progress, disrupt};
use kerf_model::in_flight::{MachineKind, StartedMove, StaticPool, UndoneMove};
use kerf_model::nodepool::Eligibility;
use kerf_testkit::disruption::{Cluster, now, sized};
use kerf_units::duration::GoDuration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SINGLE: Method = Method::SingleNodeConsolidation;

/// Every search has to end before it begins.
struct NoTime;

impl Progress for NoTime {
    fn is_over(&self) -> bool {
        true
    }
}

// DIS-005, DIS-007
#[test]
fn the_first_method_after_emptiness_with_something_to_do_ends_the_round() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-empty", "small", |_| {});
    cluster.of_kind("a-old", "small", drifted);
    cluster.bound("a-old", "web", sized(1900));
    let case = Case::of(cluster);
    let round = case.round(Method::StaticDrift, &mut Memory::default());
    assert_eq!(methods(&round), [Method::StaticDrift, Method::Drift]);
    assert_eq!(
        commands(&round),
        ["Drifted: delete: [a-old]"],
        "its pod fits the empty node"
    );
}

/// Three full nodes of each of two pools: nothing can be consolidated.
fn full() -> Case {
    let mut cluster = Cluster::new();
    for pool in ["a", "b"] {
        open(&mut cluster, pool);
        for at in 0..3 {
            let node = format!("{pool}-{at}");
            cluster.of_kind(&node, "small", |_| {});
            cluster.bound(&node, &format!("web-{node}"), sized(1900));
        }
    }
    Case::of(cluster)
}

// DIS-124, DIS-126, DIS-315
#[test]
fn a_search_in_vain_is_repeated_only_when_something_has_changed() {
    let (mut case, mut memory) = (full(), Memory::default());
    let evaluated = |case: &Case, memory: &mut Memory| {
        let round = case.round(Method::MultiNodeConsolidation, memory);
        round.evaluations.iter().map(|one| one.evaluated).collect::<Vec<_>>()
    };
    assert_eq!(evaluated(&case, &mut memory), [6, 6]);
    assert_eq!(evaluated(&case, &mut memory), [0, 0]);
    case.in_flight.consolidation_epoch += 1;
    assert_eq!(evaluated(&case, &mut memory), [6, 6]);
    case.in_flight.command_machines = Arc::new(BTreeSet::from(["p://a-0".into()]));
    assert_eq!(evaluated(&case, &mut memory), [5, 5], "another command holds one");
}

// DIS-175, DIS-177
#[test]
fn pools_not_reached_come_first_until_a_search_was_in_vain() {
    let (case, mut memory) = (full(), Memory::default());
    let both: BTreeSet<Arc<str>> = ["a".into(), "b".into()].into();
    let cut_off = disrupt(&case.view(), SINGLE, &mut memory, &NoTime);
    let last = cut_off.evaluations.last().unwrap();
    assert!(last.timed_out && last.first_pools.is_empty());
    let next = case.round(SINGLE, &mut memory);
    assert_eq!(next.evaluations.last().unwrap().first_pools, both);
    let mut again = case.clone();
    again.in_flight.consolidation_epoch += 1;
    let last = again.round(SINGLE, &mut memory);
    assert_eq!(last.evaluations.last().unwrap().first_pools, BTreeSet::new());
}

// DIS-177
#[test]
fn a_search_that_found_something_leaves_the_pools_not_reached_as_they_were() {
    let (full, mut memory) = (full(), Memory::default());
    disrupt(&full.view(), SINGLE, &mut memory, &NoTime);
    let mut cluster = Cluster::new();
    open(&mut cluster, "b");
    for node in ["b-1", "b-2"] {
        cluster.of_kind(node, "small", |_| {});
        cluster.bound(node, &format!("web-{node}"), |_| {});
    }
    let case = Case::of(cluster);
    assert_eq!(commands(&case.round(SINGLE, &mut memory)).len(), 1);
    let round = case.round(SINGLE, &mut memory);
    assert_eq!(round.evaluations.last().unwrap().first_pools.len(), 2);
}

// DIS-119 as docs/deviations.md has it
#[test]
fn a_move_like_an_undone_one_waits_until_that_ends() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    for node in ["a-1", "a-2"] {
        cluster.of_kind(node, "small", |_| {});
        cluster.bound(node, &format!("web-{node}"), |_| {});
    }
    let mut case = Case::of(cluster);
    assert_eq!(commands(&case.round(SINGLE, &mut Memory::default())).len(), 1);
    let (node, until) = (&case.snapshot.nodes[0], now() + SignedDuration::from_mins(5));
    case.in_flight.undone.push(UndoneMove {
        namespace: Arc::clone(&node.pods[0].namespace),
        shape: Arc::clone(&node.pods[0].shape),
        destinations: Arc::new(BTreeSet::from([MachineKind::of(node)])),
        surcharge_per_pod: node.price.expect("a price"),
        until,
    });
    let round = case.round(SINGLE, &mut Memory::default());
    let codes: Vec<&str> = round.evaluations[0]
        .staying
        .iter()
        .map(|staying| staying.why.code())
        .collect();
    assert_eq!(
        (commands(&round).len(), codes),
        (0, vec!["MoveUndone", "MoveUndone"]),
        "both pods have one shape"
    );
    case.in_flight.expire(until);
    assert_eq!(commands(&case.round(SINGLE, &mut Memory::default())).len(), 1);
}

// DIS-241, DIS-247 as docs/deviations.md has it
#[test]
fn a_node_whose_replacement_failed_does_not_keep_other_drifted_nodes_waiting() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    for (node, pod) in [("a-1", "first"), ("a-2", "second")] {
        cluster.of_kind(node, "small", drifted);
        cluster.bound(node, pod, sized(1900));
    }
    let mut case = Case::of(cluster);
    let of = |case: &Case| commands(&case.round(Method::StaticDrift, &mut Memory::default()));
    assert_eq!(of(&case), ["Drifted: replace: [a-1] -> [1 replacement]"]);
    let id = case.snapshot.node("a-1").and_then(|node| node.provider_id.clone());
    let until = kerf_testkit::disruption::now() + SignedDuration::from_secs(10);
    case.in_flight.failed_replacements = BTreeMap::from([(id.expect("an id"), until)]);
    assert_eq!(of(&case), ["Drifted: replace: [a-2] -> [1 replacement]"]);
    let round = case.round(Method::StaticDrift, &mut Memory::default());
    let staying = round.evaluations.iter().flat_map(|evaluation| &evaluation.staying);
    let codes: Vec<&str> = staying.map(|one| one.why.code()).collect();
    assert_eq!(codes, ["ReplacementFailed"]);
    case.in_flight.expire(until);
    assert_eq!(of(&case), ["Drifted: replace: [a-1] -> [1 replacement]"]);
}

// DIS-250, DIS-252, LIF-213
#[test]
fn drifted_nodes_of_static_pools_are_replaced_as_far_as_limits_leave_room() {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1)], |pool| {
        pool.eligibility = Eligibility::Static;
        pool.disruption.budgets = vec![kerf_testkit::disruption::budget("100%")];
    });
    for node in ["a-1", "a-2", "a-3"] {
        cluster.of_kind(node, "small", drifted);
    }
    let mut case = Case::of(cluster);
    case.settings.static_capacity = true;
    for (staying, room, replaced) in [(3, 2, 2), (3, 9, 3), (3, 0, 0), (4, 9, 0)] {
        case.in_flight.static_pools = BTreeMap::from([(
            "a".into(),
            StaticPool {
                replicas: 3,
                staying,
                room,
            },
        )]);
        let found = commands(&case.round(Method::StaticDrift, &mut Memory::default()));
        assert_eq!(found.len(), replaced, "{staying} stay, room for {room}: {found:?}");
    }
    // Neither without the feature gate, nor for a pool whose number of nodes is unknown.
    let known = StaticPool {
        replicas: 3,
        staying: 3,
        room: 9,
    };
    for (gate, pools) in [(false, BTreeMap::from([("a".into(), known)])), (true, BTreeMap::new())] {
        case.settings.static_capacity = gate;
        case.in_flight.static_pools = pools;
        let found = commands(&case.round(Method::StaticDrift, &mut Memory::default()));
        assert_eq!(found, [""; 0], "the gate is {gate}");
    }
}

// Deviation at DIS-104.
#[test]
fn consolidation_pauses_until_the_pods_of_many_nodes_have_settled() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-empty", "small", |_| {});
    for node in ["a-1", "a-2", "a-3"] {
        cluster.of_kind(node, "small", |_| {});
        cluster.bound(node, &format!("web-{node}"), sized(500));
    }
    let mut case = Case::of(cluster);
    let consolidates = |case: &Case| {
        let round = case.round(Method::MultiNodeConsolidation, &mut Memory::default());
        let until = round.evaluations.iter().find_map(|one| one.paused_until);
        assert_eq!(until.is_some(), round.commands().next().is_none());
        assert!(
            round.evaluations.iter().all(|one| one.eligible > 0),
            "they can be chosen later"
        );
        until.is_none_or(|until| {
            assert_eq!(until, case.in_flight.moves[0].at + SignedDuration::from_secs(45));
            false
        })
    };
    let set_after = |case: &mut Case, after: Option<i64>| {
        for pool in &mut Arc::make_mut(&mut case.snapshot).pools {
            Arc::make_mut(pool).disruption.consolidate_after = after.map(GoDuration::from_secs);
        }
    };
    let ago = |seconds: i64| now() - SignedDuration::from_secs(seconds);
    let started = |at, nodes| StartedMove { at, nodes };
    for (after, moves, expected) in [
        (30, vec![], true),
        (30, vec![started(ago(0), 5)], false),
        (30, vec![started(ago(44), 5)], false),
        (30, vec![started(ago(45), 5)], true),
        // The clock was set back.
        (30, vec![started(ago(-3600), 5)], true),
        // The pods of one node leave the rest of the cluster as it was.
        (30, vec![started(ago(0), 1); 5], true),
        // Without settling, and where it takes long.
        (0, vec![started(ago(0), 5)], true),
        (61, vec![started(ago(0), 5)], true),
    ] {
        set_after(&mut case, Some(after));
        case.in_flight.moves.clone_from(&moves);
        assert_eq!(consolidates(&case), expected, "{after} s, {moves:?}");
    }
    // Empty nodes go meanwhile.
    set_after(&mut case, Some(30));
    case.in_flight.moves = vec![started(ago(0), 5)];
    let round = case.round(Method::Emptiness, &mut Memory::default());
    assert_eq!(commands(&round), ["Empty: delete: [a-empty]"]);
}

// Deviation at DIS-104.
#[test]
fn the_pause_is_longer_while_pods_still_come_to_many_nodes() {
    let started = |seconds: i64| now() - SignedDuration::from_secs(seconds);
    // Nodes to which a pod came so many seconds after the start of the command, the time since then, and how long the pause is.
    for (came, events, passed, expected) in [
        (3, 10, 44, Some(45)),
        (3, 10, 45, None),
        (3, 30, 45, Some(60)),
        (3, 30, 60, None),
        (2, 30, 45, None),
        (3, 80, 85, Some(90)),
        (3, 80, 90, None),
        // Before the command.
        (3, -1, 45, None),
    ] {
        let mut cluster = Cluster::new();
        open_pool(&mut cluster);
        for at in 0..20 {
            let node = format!("a-{at:02}");
            cluster.of_kind(&node, "small", |node| {
                let event = started(passed) + SignedDuration::from_secs(events);
                node.lifecycle.last_pod_event = (at < came).then_some(event);
            });
            cluster.bound(&node, &format!("web-{node}"), sized(1900));
        }
        let mut case = Case::of(cluster);
        for pool in &mut Arc::make_mut(&mut case.snapshot).pools {
            Arc::make_mut(pool).disruption.consolidate_after = Some(GoDuration::from_secs(30));
        }
        case.in_flight.moves = vec![StartedMove {
            at: started(passed),
            nodes: 5,
        }];
        let round = case.round(Method::MultiNodeConsolidation, &mut Memory::default());
        let until = round.evaluations.iter().find_map(|one| one.paused_until);
        let pause = until.map(|until| until.duration_since(started(passed)).as_secs());
        assert_eq!(
            pause, expected,
            "{came} nodes {events} s after the start, {passed} s ago"
        );
    }
}

#[test]
fn few_nodes_cause_no_pause() {
    // Managed nodes, and how many of them have to go for a pause.
    for (managed, least) in [(20, 5), (101, 5), (250, 5), (251, 6)] {
        let mut cluster = Cluster::new();
        open_pool(&mut cluster);
        for at in 0..managed {
            let node = format!("a-{at:03}");
            cluster.of_kind(&node, "small", |_| {});
            cluster.bound(&node, &format!("web-{node}"), sized(1900));
        }
        let mut case = Case::of(cluster);
        for pool in &mut Arc::make_mut(&mut case.snapshot).pools {
            Arc::make_mut(pool).disruption.consolidate_after = Some(GoDuration::from_secs(30));
        }
        let started = |nodes| StartedMove { at: now(), nodes };
        for (moves, expected) in [
            (vec![started(least - 1)], false),
            (vec![started(least)], true),
            (vec![started(2), started(least - 2)], true),
        ] {
            case.in_flight.moves.clone_from(&moves);
            let round = case.round(Method::MultiNodeConsolidation, &mut Memory::default());
            let paused = round.evaluations.iter().any(|one| one.paused_until.is_some());
            assert_eq!(paused, expected, "{moves:?} of {managed}");
        }
    }
}

#[test]
fn what_decisions_remember_changes_no_command() {
    let mut memory = Memory::default();
    for cores in [400, 900, 1900] {
        let mut cluster = Cluster::new();
        open_pool(&mut cluster);
        for at in 0..5 {
            let node = format!("a-{at}");
            cluster.of_kind(&node, "small", |_| {});
            cluster.bound(&node, &format!("web-{at}"), sized(cores));
        }
        let case = Case::of(cluster);
        let fresh = commands(&case.round(Method::Emptiness, &mut Memory::default()));
        assert_eq!(commands(&case.round(Method::Emptiness, &mut memory)), fresh, "{cores}");
    }
}
