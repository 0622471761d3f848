//! What disruption would do with a cluster from here on, and what keeps every other node.

use crate::after_commands::AfterCommands;
use crate::candidate_cache::SortedNodes;
use crate::consolidate::{refusals, with_consolidation};
use crate::disrupt::disrupt;
use crate::drift_obstacles::DriftObstacles;
use crate::inputs::Inputs;
use crate::memory::Memory;
use crate::method::Method;
use crate::verify::Refusals;
use kerf_disruption::{Allowance, Class, Command, Consolidation, Explainer, Obstacle, unchecked};
use kerf_model::budget::DisruptionReason;
use kerf_model::node::Node;
use std::collections::BTreeSet;

/// The commands a controller would start now, and what keeps the other nodes.
#[derive(Debug)]
pub struct Forecast {
    /// The commands in the order in which a controller would start them, up to those of the first pass that consolidates: what comes after
    /// them depends on where kube-scheduler puts the pods.
    pub commands: Vec<Command>,
    /// Nodes that stay, by index in the snapshot, with everything that keeps each from consolidation, and from replacement if it drifted;
    /// empty for a node that consolidation would take too, but only after the commands above.
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
            // What keeps the others is said of the cluster in which the commands that consolidate were chosen.
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
    let obstacles = obstacles(&now, inputs.snapshot.nodes.len(), &going, only, &memory, &refusals);
    refused_plans.extend(refusals.into_texts());
    Forecast {
        commands,
        obstacles,
        refused_plans,
    }
}

/// What keeps the first `nodes` nodes, without those that go. Planned replacements come after them.
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
    // A plan is checked before it is carried out. To check those of all nodes that come later takes longer than to find them.
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
