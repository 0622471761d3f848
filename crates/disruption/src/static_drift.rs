//! Drift of pools with a fixed number of nodes: each node gets a replacement made from its pool's template, as far as budgets and the
//! pool's node limit leave room (DIS-249 to DIS-252).
//!
//! Nothing is simulated: the replacement is the same kind of node, whichever pods it gets.

use crate::allowance::Allowance;
use crate::candidate::Candidate;
use crate::command::Command;
use kerf_model::budget::DisruptionReason;
use kerf_model::in_flight::StaticPool;
use kerf_model::nodepool::Eligibility;
use kerf_model::plan::Launch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The candidates static drift may choose from, the oldest drift first (DIS-249).
pub fn statically_drifted(candidates: &[Candidate]) -> Vec<Candidate> {
    let is_drifted = |candidate: &&Candidate| {
        candidate.pool.eligibility == Eligibility::Static && candidate.node.lifecycle.drifted.is_some()
    };
    let mut drifted: Vec<Candidate> = candidates.iter().filter(is_drifted).cloned().collect();
    drifted.sort_by_key(|candidate| {
        let since = candidate.node.lifecycle.drifted.as_ref().map(|(_, since)| *since);
        (since, candidate.node.name.clone())
    });
    drifted
}

/// One command for each drifted candidate that its pool's budgets and limit let go now, by pool. Pools that must first shrink, and pools that
/// are not among `pools`, have none (DIS-250, DIS-252).
pub fn static_drift(
    drifted: &[Candidate],
    allowance: &Allowance,
    pools: &BTreeMap<Arc<str>, StaticPool>,
) -> Vec<Command> {
    let mut by_pool: BTreeMap<&Arc<str>, Vec<&Candidate>> = BTreeMap::new();
    for candidate in drifted {
        by_pool.entry(&candidate.pool.name).or_default().push(candidate);
    }
    let going = by_pool.into_iter().flat_map(|(name, candidates)| {
        let complete = pools.get(name).filter(|pool| pool.staying <= pool.replicas);
        let room = complete.map_or(0, |pool| pool.room);
        let count = room.min(u64::from(allowance.left(name)));
        candidates
            .into_iter()
            .take(usize::try_from(count).unwrap_or(usize::MAX))
    });
    let command = |candidate: &Candidate| Command {
        reason: DisruptionReason::Drifted,
        replacements: vec![Launch::of_template(&candidate.pool)],
        candidates: vec![candidate.clone()],
        plan: None,
    };
    going.map(command).collect()
}
