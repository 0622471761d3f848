//! Where kube-scheduler should bind the pods that a command of consolidation moves (deviation at DIS-119).
//!
//! kube-scheduler prefers nodes with most room. After a large command these are often nodes that go next, not those the command planned for: the
//! pods move a second time. A taint with effect `PreferNoSchedule` on nodes that are no destination turns the preference round.

use kerf_disruption::Command;
use kerf_model::in_flight::Destinations;
use kerf_model::node::Node;
use kerf_model::pod::PodShape;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A command for which more nodes would be tainted than this number for each pod it moves taints none: each taint is written and removed, and
/// that costs more than the moves it saves. The bench `day` with `KERF_DAY_LIFE=1` and the seeds 7, 8 and 9 has 2,069, 2,131 and 2,204 evictions
/// with this limit, 2,110, 2,134 and 2,115 with four times the writes where every command of 50 pods taints nodes, and 2,202, 2,422 and 2,285
/// without taints.
const TAINTS_PER_POD: usize = 2;

/// The destinations of a command, by node name, and the other managed nodes that have room for some pod it moves. Both are empty if it moves no
/// pods; the second is empty if it moves few pods in comparison with those nodes.
pub fn destinations(command: &Command, snapshot: &Snapshot) -> Destinations {
    let Some(plan) = &command.plan else {
        return Destinations::default();
    };
    let planned: BTreeSet<Arc<str>> = plan.existing.iter().map(|at| Arc::clone(&at.node)).collect();
    let going: BTreeSet<&Arc<str>> = command.candidates.iter().map(|one| &one.node.name).collect();
    let mut moved = 0;
    let mut shapes: Vec<&Arc<PodShape>> = Vec::new();
    for pod in command.candidates.iter().flat_map(|candidate| &candidate.pods) {
        moved += 1;
        if !shapes.iter().any(|known| Arc::ptr_eq(known, &pod.shape)) {
            shapes.push(&pod.shape);
        }
    }
    let takes_some = |node: &Node| {
        let mut free = node.allocatable.clone();
        free.subtract(&node.requested);
        shapes.iter().any(|shape| shape.requests.fits(&free))
    };
    let stays =
        |node: &Node| node.managed && node.initialized && !node.marked_for_deletion && !going.contains(&node.name);
    let others = snapshot
        .nodes
        .iter()
        .filter(|node| stays(node) && !planned.contains(&node.name));
    let avoided: Vec<Arc<str>> = others
        .filter(|node| takes_some(node))
        .filter_map(|node| node.node_name.clone())
        .collect();
    let few = avoided.len() <= moved * TAINTS_PER_POD;
    Destinations {
        planned: planned
            .iter()
            .filter_map(|name| snapshot.node(name)?.node_name.clone())
            .collect(),
        avoided: if few { avoided } else { Vec::new() },
    }
}
