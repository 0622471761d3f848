//! Drift of dynamic pools: replaces nodes that no longer match their pool, one command at a time (DIS-239 to DIS-248).

use crate::allowance::Allowance;
use crate::candidate::Candidate;
use crate::command::Command;
use crate::consolidation::Checker;
use crate::simulation::{Protected, SimulationError, WhatIf, marked};
use crate::unconsolidatable::{Unconsolidatable, UnconsolidatableNode};
use jiff::Timestamp;
use kerf_model::budget::DisruptionReason;
use kerf_model::nodepool::Eligibility;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::Options;

/// The drifted candidates: those from which no pod moves first, then by the time of drift, oldest first (DIS-239, DIS-240).
pub fn drifted(candidates: &[Candidate]) -> Vec<Candidate> {
    let is_drifted = |candidate: &&Candidate| {
        candidate.pool.eligibility != Eligibility::Static && candidate.node.lifecycle.drifted.is_some()
    };
    let mut drifted: Vec<Candidate> = candidates.iter().filter(is_drifted).cloned().collect();
    drifted.sort_by_key(|candidate| {
        let since = candidate.node.lifecycle.drifted.as_ref().map(|(_, since)| *since);
        (!candidate.pods.is_empty(), since, candidate.node.name.clone())
    });
    drifted
}

/// A command for the first drifted candidate that budgets allow, whose pods all fit elsewhere, and whose plan `checker` accepts. Also the
/// candidates tried before it, with the reason why each stays (DIS-241, DIS-242).
pub fn drift(
    snapshot: &Snapshot,
    drifted: &[Candidate],
    allowance: &Allowance,
    now: Timestamp,
    options: &Options,
    checker: Checker<'_>,
) -> Result<(Option<Command>, Vec<UnconsolidatableNode>), SimulationError> {
    let mut staying = Vec::new();
    if drifted.is_empty() {
        return Ok((None, staying));
    }
    let what_if = WhatIf::new(snapshot, Vec::new(), now, options)?;
    let with_budget = drifted
        .iter()
        .filter(|candidate| allowance.left(&candidate.pool.name) > 0);
    for candidate in with_budget {
        let simulation = match what_if.without(&[candidate]) {
            Ok(simulation) => simulation,
            // DIS-095
            Err(SimulationError::Deleting) => continue,
            Err(error) => return Err(error),
        };
        if let Some(sentence) = simulation.failure() {
            staying.push(UnconsolidatableNode {
                index: candidate.index,
                why: Unconsolidatable::Unplaceable(sentence),
            });
            continue;
        }
        let after = marked(snapshot, &[candidate]);
        let pods = what_if.pods(&[candidate], Protected::Stay);
        if let Err(objections) = checker(&after, &pods, &simulation.plan) {
            staying.push(UnconsolidatableNode {
                index: candidate.index,
                why: Unconsolidatable::Refused(objections),
            });
            continue;
        }
        let command = Command {
            reason: DisruptionReason::Drifted,
            candidates: vec![candidate.clone()],
            replacements: simulation.plan.launches.clone(),
            plan: Some(simulation.plan),
        };
        return Ok((Some(command), staying));
    }
    Ok((None, staying))
}
