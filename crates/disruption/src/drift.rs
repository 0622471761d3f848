//! Drift of dynamic pools: nodes that are no longer what their pool asks for are replaced, one command at a time (DIS-239 to DIS-248).

use crate::allowance::Allowance;
use crate::candidate::Candidate;
use crate::command::{Command, Held};
use crate::simulation::{self, SimulationError};
use jiff::Timestamp;
use kerf_model::budget::DisruptionReason;
use kerf_model::nodepool::Eligibility;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::Options;

/// The first drifted candidate that has budget and whose pods all find a place; the others that were tried, with why they stay.
pub fn drift(
    snapshot: &Snapshot,
    candidates: &[Candidate],
    allowance: &Allowance,
    now: Timestamp,
    options: &Options,
) -> Result<(Option<Command>, Vec<Held>), SimulationError> {
    let mut drifted: Vec<&Candidate> = candidates
        .iter()
        .filter(|candidate| {
            candidate.pool.eligibility != Eligibility::Static && candidate.node.lifecycle.drifted.is_some()
        })
        .collect();
    // DIS-240: those nothing moves from first, then the oldest drift.
    drifted.sort_by_key(|candidate| {
        let since = candidate.node.lifecycle.drifted.as_ref().map(|(_, since)| *since);
        (!candidate.pods.is_empty(), since, candidate.node.name.clone())
    });
    let mut held = Vec::new();
    for candidate in drifted
        .into_iter()
        .filter(|candidate| allowance.left(&candidate.pool.name) > 0)
    {
        let simulation = simulation::simulate(snapshot, &[candidate], &[], now, options)?;
        if let Some(why) = simulation.failure() {
            held.push(Held {
                index: candidate.index,
                why,
            });
            continue;
        }
        let command = Command {
            reason: DisruptionReason::Drifted,
            candidates: vec![candidate.clone()],
            replacements: simulation.plan.launches.clone(),
            plan: Some(simulation.plan),
        };
        return Ok((Some(command), held));
    }
    Ok((None, held))
}
