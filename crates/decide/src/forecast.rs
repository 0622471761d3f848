//! The commands that disruption would start in a cluster, and the obstacles of every other node.

use crate::after_commands::AfterCommands;
use crate::candidate_cache::SortedNodes;
use crate::consolidate::{refusals, with_consolidation};
use crate::disrupt::disrupt;
use crate::drift_obstacles::DriftObstacles;
use crate::inputs::{Inputs, UnreadNodes};
use crate::memory::Memory;
use crate::method::Method;
use crate::verify::Refusals;
use kerf_disruption::{Allowance, Class, Command, Consolidation, Explainer, Object, Obstacle, ObstacleKind, unchecked};
use kerf_model::budget::DisruptionReason;
use kerf_model::node::Node;
use std::collections::BTreeSet;

/// The commands a controller would start now, and the obstacles of the other nodes.
#[derive(Debug)]
pub struct Forecast {
    /// The commands in the order in which a controller would start them, up to those of the first pass that consolidates. Later commands
    /// depend on where kube-scheduler puts the pods.
    pub commands: Vec<Command>,
    /// Nodes that stay, by index in the snapshot, with every obstacle to the consolidation of each, and to its replacement if it drifted. A
    /// node that consolidation would take too, but only after the commands above, has that as its obstacle.
    pub obstacles: Vec<(usize, Vec<Obstacle>)>,
    /// The plan checker's objections to plans that were therefore not taken. Each is a bug of the solver.
    pub refused_plans: Vec<String>,
}

/// Runs rounds of [`disrupt`] as if each command succeeded, until one consolidates or nothing is left to do. Obstacles are computed for all
/// nodes, or for the node of index `only`.
pub fn forecast(inputs: &Inputs<'_>, only: Option<usize>) -> Forecast {
    let mut after = AfterCommands::new(inputs);
    let (mut commands, mut refused_plans, mut memory) = (Vec::new(), Vec::new(), Memory::default());
    let mut consolidates = false;
    while !consolidates {
        let round = disrupt(&after.view(inputs), Method::ORDER[0], &mut memory, &());
        let is_last_round = round.commands().next().is_none();
        for evaluation in round.evaluations {
            refused_plans.extend(evaluation.refused_plans);
            // Obstacles are computed on the cluster in which the consolidating commands were chosen, so those are not started here.
            let is_last = evaluation.method.consolidates() && !evaluation.commands.is_empty();
            if !is_last {
                after.start(&evaluation.commands);
            }
            consolidates |= is_last;
            commands.extend(evaluation.commands);
        }
        if is_last_round {
            break;
        }
    }
    let now = after.view(inputs);
    let going: BTreeSet<usize> = commands
        .iter()
        .flat_map(|command| &command.candidates)
        .map(|candidate| candidate.index)
        .collect();
    let refusals = refusals(&now);
    let mut obstacles = obstacles(&now, inputs.snapshot.nodes.len(), &going, only, &memory, &refusals);
    for (index, of_node) in &mut obstacles {
        if let Some(node) = inputs.snapshot.nodes.get(*index) {
            complete(of_node, node, &inputs.settings.unread);
        }
    }
    refused_plans.extend(refusals.into_texts());
    Forecast {
        commands,
        obstacles,
        refused_plans,
    }
}

/// Adds to the obstacles of a node the objects that cannot be read and may protect it. A node without any obstacle waits for other commands.
fn complete(obstacles: &mut Vec<Obstacle>, node: &Node, unread: &UnreadNodes) {
    if !obstacles.iter().any(|obstacle| obstacle.kind == ObstacleKind::Final) {
        // They block every voluntary disruption, so they come before the obstacles to consolidation alone.
        let at = obstacles.iter().position(|obstacle| obstacle.reason.is_some());
        let at = at.unwrap_or(obstacles.len());
        obstacles.splice(at..at, unread.obstacles(&node.name));
    }
    if obstacles.is_empty() {
        obstacles.push(later(node));
    }
}

/// The obstacle of a node that consolidation would take after the commands of this pass.
fn later(node: &Node) -> Obstacle {
    Obstacle {
        kind: ObstacleKind::Plain,
        code: "Later",
        reason: Some(DisruptionReason::Underutilized),
        objects: vec![Object::cluster_wide("Node", &node.name)],
        message: "Consolidation would take it too, but carries out one command at a time".to_owned(),
        remedy: "none: its turn comes once the nodes that go now are gone".to_owned(),
    }
}

/// The obstacles of the first `nodes` nodes, without those in `going`. Planned replacements have higher indices.
fn obstacles(
    inputs: &Inputs<'_>,
    nodes: usize,
    going: &BTreeSet<usize>,
    only: Option<usize>,
    memory: &Memory,
    refusals: &Refusals,
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
        let asked = (0..nodes).filter(|index| !going.contains(index));
        let asked = asked.filter(|index| only.is_none_or(|only| only == *index));
        let explained = asked.map(|index| {
            let mut found = explainer.why_not(snapshot, index);
            drift.add(index, &mut found);
            (index, found)
        });
        explained.collect()
    };
    // Plans of nodes that go later are not checked here: that takes longer than to find them, and each is checked before it is carried out.
    let check = only.is_some() || going.is_empty();
    let free = &sorted.candidates.free;
    let all = with_consolidation(inputs, &memory.prepared, free, inputs.closed(), refusals, |all| {
        let unchecked = Consolidation {
            checker: &unchecked,
            ..*all
        };
        explain(Some(if check { all } else { &unchecked }))
    });
    all.unwrap_or_else(|_| explain(None))
}
