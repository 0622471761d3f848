//! Whether a command is still valid after its wait (DIS-181 to DIS-189).

use crate::allowance::Allowance;
use crate::candidate::Candidate;
use crate::command::Command;
use crate::simulation::WhatIf;
use kerf_model::intern::{Sym, sym};
use kerf_model::plan::Launch;

/// Why a command is no longer valid; its `Display` is the text of log lines.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Invalid {
    /// None of the nodes of an emptiness command is empty any more (DIS-155).
    #[error("no node of the command is empty any more")]
    NoLongerEmpty,
    /// This number of nodes are no longer candidates (DIS-181).
    #[error("{0} candidates are no longer valid")]
    Churn(usize),
    /// Pods were nominated to one of the nodes (DIS-182).
    #[error("a candidate was nominated during validation")]
    Nominated,
    /// Budgets no longer allow it (DIS-182).
    #[error("a candidate can no longer be disrupted without violating budgets")]
    Budget,
    /// Some pods would have no node now; the message of DIS-103 (DIS-183).
    #[error("{0}")]
    Unplaceable(String),
    /// Different launches would be needed now (DIS-184, DIS-185).
    #[error("scheduling simulation produced new results")]
    Changed,
    /// No simulation is possible.
    #[error("{0}")]
    NoSimulation(crate::simulation::SimulationError),
}

impl Invalid {
    /// The reason as events print it (DIS-188, DIS-295).
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoLongerEmpty | Self::Churn(_) => "churn",
            Self::Nominated | Self::Budget => "budget",
            Self::Unplaceable(_) | Self::Changed => "scheduling",
            Self::NoSimulation(_) => "unknown",
        }
    }

    /// By how much the count of failed validations grows for a command of so many nodes (DIS-189).
    pub const fn failed(&self, candidates: usize) -> usize {
        match self {
            Self::NoLongerEmpty | Self::Churn(_) | Self::Nominated | Self::Budget => candidates,
            Self::Unplaceable(_) | Self::Changed | Self::NoSimulation(_) => 0,
        }
    }
}

/// The command's nodes as they are now, if all may still go. `eligible` are the candidates the method may choose now, `nominated` says whether
/// pods were nominated to a node of that name meanwhile, `allowance` is fresh (DIS-181, DIS-182).
pub fn still_candidates(
    command: &Command,
    eligible: &[Candidate],
    nominated: &dyn Fn(&str) -> bool,
    allowance: &mut Allowance,
) -> Result<Vec<Candidate>, Invalid> {
    let current = |one: &Candidate| eligible.iter().find(|other| is_same(one, other));
    let now: Vec<Candidate> = command.candidates.iter().filter_map(current).cloned().collect();
    if command.candidates.iter().any(|one| nominated(&one.node.name)) {
        return Err(Invalid::Nominated);
    }
    if now.len() < command.candidates.len() {
        return Err(Invalid::Churn(command.candidates.len() - now.len()));
    }
    if !now.iter().all(|candidate| allowance.take(&candidate.pool.name)) {
        return Err(Invalid::Budget);
    }
    Ok(now)
}

/// The command's nodes as they are now, as far as they may still go, in the order of `eligible`. The parameters are those of
/// [`still_candidates`].
pub fn remaining_candidates(
    command: &Command,
    eligible: &[Candidate],
    nominated: &dyn Fn(&str) -> bool,
) -> Vec<Candidate> {
    let is_of_command = |now: &&Candidate| command.candidates.iter().any(|one| is_same(one, now));
    let mut left: Vec<Candidate> = eligible.iter().filter(is_of_command).cloned().collect();
    left.retain(|candidate| !nominated(&candidate.node.name));
    left
}

/// Whether two candidates are the same machine.
fn is_same(one: &Candidate, other: &Candidate) -> bool {
    other.node.name == one.node.name && other.claim_uid() == one.claim_uid()
}

/// Whether the pods of the command's nodes, as they are now, still fit with the launches of the command (DIS-183 to DIS-185). Prices are not
/// compared again.
pub fn still_fits(command: &Command, now: &[Candidate], what_if: &WhatIf<'_>) -> Result<(), Invalid> {
    let candidates: Vec<&Candidate> = now.iter().collect();
    let simulation = match command.replacements.len() {
        0 | 1 => what_if.without(&candidates),
        _ => what_if.without_for_several(&candidates),
    };
    let simulation = simulation.map_err(Invalid::NoSimulation)?;
    if let Some(sentence) = simulation.failure() {
        return Err(Invalid::Unplaceable(sentence));
    }
    let (wanted, planned) = (&simulation.plan.launches, &command.replacements);
    let (wanted, planned) = (by_price(wanted), by_price(planned));
    let same = wanted.len() == planned.len()
        && wanted
            .iter()
            .zip(&planned)
            .all(|(wanted, planned)| is_subset(planned, wanted));
    if same { Ok(()) } else { Err(Invalid::Changed) }
}

/// Launches in the order of their prices: the same pods give the same launches.
fn by_price(launches: &[Launch]) -> Vec<&Launch> {
    let mut all: Vec<&Launch> = launches.iter().collect();
    all.sort_by_key(|launch| launch.price());
    all
}

/// Whether every type a launch offers is among those of another.
fn is_subset(planned: &Launch, wanted: &Launch) -> bool {
    let names = |launch: &Launch| -> Vec<Sym> {
        let requirement = launch.requirements.get(sym::INSTANCE_TYPE);
        let mut names: Vec<Sym> = requirement
            .iter()
            .flat_map(|requirement| requirement.values.to_vec())
            .collect();
        names.sort_unstable();
        names
    };
    let wanted = names(wanted);
    names(planned).iter().all(|name| wanted.binary_search(name).is_ok())
}
