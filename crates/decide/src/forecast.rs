//! What disruption would do with a cluster from here on, and what keeps every other node.

use crate::candidate_cache::SortedNodes;
use crate::consolidate::with_consolidation;
use crate::disrupt::disrupt;
use crate::drift_obstacles::DriftObstacles;
use crate::inputs::Inputs;
use crate::memory::Memory;
use crate::method::Method;
use kerf_disruption::{Allowance, Class, Command, Consolidation, Explainer, Obstacle, unchecked};
use kerf_model::budget::DisruptionReason;
use kerf_model::in_flight::InFlight;
use kerf_model::node::Node;
use kerf_model::plan::Plan;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The commands a controller would start now, and what keeps the other nodes.
#[derive(Debug)]
pub struct Forecast {
    /// The commands in the order in which a controller would start them, up to the first one that consolidates: what comes after it depends
    /// on where kube-scheduler puts the pods.
    pub commands: Vec<Command>,
    /// Nodes that stay, by index in the snapshot, with everything that keeps each from consolidation, and from replacement if it drifted;
    /// empty for a node that consolidation would take too, but only after the commands above.
    pub obstacles: Vec<(usize, Vec<Obstacle>)>,
}

/// Runs rounds of [`disrupt`] as if each command succeeded, until one consolidates or nothing is left to do. Obstacles are computed for all
/// nodes, or for the node of index `only`.
pub fn forecast(inputs: &Inputs<'_>, only: Option<usize>) -> Forecast {
    let (mut snapshot, mut in_flight) = (Arc::clone(inputs.snapshot), inputs.in_flight.clone());
    let (mut commands, mut memory) = (Vec::new(), Memory::default());
    loop {
        let now = Inputs {
            snapshot: &snapshot,
            in_flight: &in_flight,
            ..*inputs
        };
        let mut round = disrupt(&now, Method::ORDER[0], &mut memory, &());
        let found = round.evaluations.pop().filter(|last| !last.commands.is_empty());
        let Some(found) = found else { break };
        let after = carry_out(&snapshot, &mut in_flight, &found.commands);
        commands.extend(found.commands);
        // What keeps the others is said of the cluster in which this command was chosen.
        if found.method.consolidates() {
            break;
        }
        snapshot = after;
    }
    let now = Inputs {
        snapshot: &snapshot,
        in_flight: &in_flight,
        ..*inputs
    };
    let going: BTreeSet<usize> = commands
        .iter()
        .flat_map(|command| &command.candidates)
        .map(|candidate| candidate.index)
        .collect();
    let obstacles = obstacles(&now, &going, only, &memory);
    Forecast { commands, obstacles }
}

/// What keeps the nodes that do not go.
fn obstacles(
    inputs: &Inputs<'_>,
    going: &BTreeSet<usize>,
    only: Option<usize>,
    memory: &Memory,
) -> Vec<(usize, Vec<Obstacle>)> {
    let (snapshot, now) = (inputs.snapshot, inputs.now);
    let sorted = SortedNodes::new(inputs, Class::Graceful);
    let queued = |node: &Node| inputs.in_flight.holds(node);
    let (empty, underutilized) = (
        Allowance::new(snapshot, DisruptionReason::Empty, now),
        Allowance::new(snapshot, DisruptionReason::Underutilized, now),
    );
    let drift = DriftObstacles::new(inputs);
    let explain = |consolidation: Option<&Consolidation<'_>>| {
        let explainer = Explainer {
            now,
            queued: &queued,
            empty: &empty,
            underutilized: &underutilized,
            consolidation,
        };
        let asked = (0..snapshot.nodes.len()).filter(|index| !going.contains(index));
        let asked = asked.filter(|index| only.is_none_or(|only| only == *index));
        let explained = asked.map(|index| {
            let mut found = explainer.why_not(snapshot, index);
            drift.add(index, &mut found);
            (index, found)
        });
        explained.collect()
    };
    // A plan is checked before it is carried out. To check those of all nodes that come later takes longer than to find them.
    let check = only.is_some() || going.is_empty();
    let free = &sorted.candidates.free;
    let all = with_consolidation(
        inputs,
        &memory.prepared,
        free,
        inputs.closed(),
        &mut Vec::new(),
        |all| {
            let unchecked = Consolidation {
                checker: &unchecked,
                ..*all
            };
            explain(Some(if check { all } else { &unchecked }))
        },
    );
    all.unwrap_or_else(|_| explain(None))
}

/// The cluster as if the commands had been started: their nodes go, and the pods that move have the places their plan gives them. Pods
/// that go to replacements are left out: the replacements are full of them.
fn carry_out(snapshot: &Arc<Snapshot>, in_flight: &mut InFlight, commands: &[Command]) -> Arc<Snapshot> {
    let mut after = Snapshot::clone(snapshot);
    let mut held = BTreeSet::clone(&in_flight.held);
    for command in commands {
        for candidate in &command.candidates {
            held.extend(candidate.node.provider_id.clone());
            let Some(node) = after.nodes.get_mut(candidate.index).map(Arc::make_mut) else {
                continue;
            };
            node.marked_for_deletion = true;
            if command.plan.is_some() {
                let moving: BTreeSet<&str> = candidate.pods.iter().map(|pod| &*pod.uid).collect();
                node.pods.retain(|pod| !moving.contains(&*pod.uid));
            }
        }
        match &command.plan {
            Some(plan) => place(&mut after, plan),
            // Only nodes of static pools are replaced without a plan: each replacement takes room under the pool's limit (LIF-213).
            None => take_room(in_flight, command),
        }
    }
    in_flight.held = Arc::new(held);
    Arc::new(after)
}

/// Takes the room of a command's replacements from their static pools.
fn take_room(in_flight: &mut InFlight, command: &Command) {
    for launch in &command.replacements {
        if let Some(pool) = in_flight.static_pools.get_mut(&launch.pool) {
            pool.room = pool.room.saturating_sub(1);
        }
    }
}

/// Puts the pods that move onto the nodes a plan names for them.
fn place(snapshot: &mut Snapshot, plan: &Plan) {
    for placement in &plan.existing {
        let at = snapshot.position(&placement.node);
        let Some(node) = at.and_then(|at| snapshot.nodes.get_mut(at)).map(Arc::make_mut) else {
            continue;
        };
        for pod in placement.pods.iter().filter(|pod| pod.node_name.is_some()) {
            node.requested.add(&pod.shape.requests);
            node.pods.push(Arc::clone(pod));
        }
    }
}
