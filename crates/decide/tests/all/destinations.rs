//! Where kube-scheduler should bind the pods that a command moves.

use crate::case::{Case, open_pool};
use kerf_decide::{Memory, Method, destinations};
use kerf_disruption::Command;
use kerf_model::in_flight::Destinations;
use kerf_testkit::disruption::{Cluster, sized};
use std::sync::Arc;

/// A node that has one pod and goes, `others` with room for it that stay, and a full one.
fn case(others: usize) -> (Case, Command) {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-goes", "small", |_| {});
    cluster.bound("a-goes", "web", sized(300));
    cluster.of_kind("a-full", "small", |_| {});
    cluster.bound("a-full", "large", sized(1900));
    for at in 0..others {
        let node = format!("a-stays-{at}");
        cluster.of_kind(&node, "small", |node| node.lifecycle.do_not_disrupt = true);
        cluster.bound(&node, &format!("web-{at}"), sized(300));
    }
    let case = Case::of(cluster);
    let round = case.round(Method::SingleNodeConsolidation, &mut Memory::default());
    let command = round.evaluations[0].commands[0].clone();
    assert_eq!(command.candidates[0].node.name, "a-goes".into());
    (case, command)
}

fn sorted(mut names: Vec<Arc<str>>) -> Vec<Arc<str>> {
    names.sort_unstable();
    names
}

// DIS-119 as docs/deviations.md has it
#[test]
fn other_nodes_with_room_are_avoided() {
    let (case, command) = case(3);
    let plan = command.plan.as_ref().unwrap();
    let Destinations { planned, avoided } = destinations(&command, &case.snapshot);
    assert_eq!(planned, [Arc::clone(&plan.existing[0].node)]);
    let mut others: Vec<Arc<str>> = (0..3).map(|at| format!("a-stays-{at}").into()).collect();
    others.retain(|name| *name != planned[0]);
    assert_eq!(sorted(avoided), others, "neither the full node nor the one that goes");
}

// DIS-119 as docs/deviations.md has it
#[test]
fn nothing_is_avoided_for_few_pods() {
    let (case, command) = case(4);
    let found = destinations(&command, &case.snapshot);
    assert_eq!(
        (found.planned.len(), found.avoided.len()),
        (1, 0),
        "three taints for one pod"
    );
}

// DIS-119 as docs/deviations.md has it
#[test]
fn nodes_that_are_deleted_or_start_are_not_avoided() {
    let (case, command) = case(3);
    let before = destinations(&command, &case.snapshot).avoided;
    for change in [
        |node: &mut kerf_model::node::Node| node.marked_for_deletion = true,
        |node: &mut kerf_model::node::Node| node.initialized = false,
        |node: &mut kerf_model::node::Node| node.managed = false,
    ] {
        let changed = case.changed(|snapshot| {
            let found = snapshot.nodes.iter_mut().find(|node| node.name == before[0]);
            change(Arc::make_mut(found.unwrap()));
        });
        assert_eq!(destinations(&command, &changed.snapshot).avoided, before[1..]);
    }
}

// DIS-119 as docs/deviations.md has it
#[test]
fn a_command_that_moves_no_pods_has_no_destinations() {
    let (case, mut command) = case(3);
    command.plan = None;
    assert_eq!(destinations(&command, &case.snapshot), Destinations::default());
}
