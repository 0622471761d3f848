//! Nodes onto which pods that wait are planned stay.

use crate::case::{Case, commands, open_pool};
use kerf_decide::{Memory, Method, validate};
use kerf_disruption::Blocker;
use kerf_testkit::disruption::{Cluster, sized};
use std::collections::BTreeMap;

// DIS-028 and DIS-154 as docs/deviations.md has them
#[test]
fn a_node_stays_while_pods_that_wait_are_planned_onto_it() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    for node in ["a-awaited", "a-empty"] {
        cluster.of_kind(node, "small", |_| {});
    }
    cluster.of_kind("a-going", "small", |node| node.marked_for_deletion = true);
    cluster.bound("a-going", "moving", sized(500));
    cluster.untried("waiting", 500);
    let mut case = Case::of(cluster);
    let planned = |pod: &str, claim: &str| (("ns".into(), pod.into()), claim.into());
    case.in_flight.planned = BTreeMap::from([
        planned("waiting", "claim-a-awaited"),
        // It still runs, maybe for as long as its node is drained.
        planned("moving", "claim-a-empty"),
    ]);
    let mut memory = Memory::default();
    let found = commands(&case.round(Method::Emptiness, &mut memory));
    assert_eq!(found, ["Empty: delete: [a-empty]"]);
    let awaited = case.snapshot.position("a-awaited").unwrap();
    let round = case.round(Method::Emptiness, &mut memory);
    let blocked = &round.evaluations[0].sorted.candidates.blocked;
    assert!(blocked.contains(&(awaited, Blocker::Nominated)), "{blocked:?}");
    // The pod was bound or planned elsewhere: the same snapshot is evaluated again.
    case.in_flight.planned.clear();
    let found = commands(&case.round(Method::Emptiness, &mut memory));
    assert_eq!(found, ["Empty: delete: [a-awaited, a-empty]"]);
}

// DIS-155
#[test]
fn a_command_that_waits_loses_the_nodes_onto_which_pods_are_planned_meanwhile() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    for node in ["a-1", "a-2"] {
        cluster.of_kind(node, "small", |_| {});
    }
    cluster.untried("waiting", 500);
    let mut case = Case::of(cluster);
    let round = case.round(Method::Emptiness, &mut Memory::default());
    let command = round.commands().next().unwrap().clone();
    case.in_flight.planned = BTreeMap::from([(("ns".into(), "waiting".into()), "claim-a-1".into())]);
    let view = case.view();
    let validation = validate(&view, Method::Emptiness, &command, &[], &mut Memory::default());
    assert_eq!(validation.result.unwrap().short(), "delete: [a-2]");
    assert_eq!(validation.failed, 1);
}
