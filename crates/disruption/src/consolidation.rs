//! One consolidation command for a given set of nodes (sections 8.1 and 8.2 of the disruption contract).

use crate::balance::{Balance, Judgement};
use crate::candidate::Candidate;
use crate::command::Command;
use crate::replacement_options::ReplacementOptions;
use crate::simulation::{Protected, Simulation, WhatIf, marked};
use crate::unconsolidatable::Unconsolidatable;
use kerf_model::budget::DisruptionReason;
use kerf_model::intern::sym;
use kerf_model::plan::{Launch, Plan};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

/// How many cheaper types it takes to go from spot to spot, so that nodes do not hop for ever (DIS-146, DIS-147).
const SPOT_CHOICE: usize = 15;

/// What consolidation may do, and how much it may think.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Spot nodes may be replaced by spot nodes: the gate `SpotToSpotConsolidation` (DIS-143).
    pub spot_to_spot: bool,
    /// How many threads may be used; no decision depends on it.
    pub threads: usize,
    /// How many pods may be planned for while a set of nodes that go together is improved.
    pub effort: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            spot_to_spot: false,
            threads: 1,
            effort: 300_000,
        }
    }
}

/// Judges a plan for the pods of a snapshot apart from the solver, and says what is wrong with it.
pub type Checker<'a> = &'a (dyn Fn(&Snapshot, &[Arc<Pod>], &Plan) -> Result<(), String> + Sync);

/// Accepts every plan.
pub fn unchecked(_: &Snapshot, _: &[Arc<Pod>], _: &Plan) -> Result<(), String> {
    Ok(())
}

/// Consolidation of one snapshot.
#[derive(Clone, Copy)]
pub struct Consolidation<'a> {
    /// What would become of pods.
    pub what_if: &'a WhatIf<'a>,
    /// What Balanced pools weigh moves against.
    pub balance: &'a Balance,
    /// What is allowed.
    pub settings: Settings,
    /// Who has the last word on plans.
    pub checker: Checker<'a>,
}

impl Consolidation<'_> {
    /// The command that removes these nodes, or why there is none (DIS-128 to DIS-148). Neither scored nor checked yet.
    pub fn propose(&self, candidates: &[&Candidate]) -> Result<Command, Unconsolidatable> {
        let simulation = self.what_if.without(candidates)?;
        self.command(candidates, simulation).map_err(|(why, _)| why)
    }

    /// The same from a simulation, which is given back where it yields nothing.
    pub(crate) fn command(
        &self,
        candidates: &[&Candidate],
        simulation: Simulation,
    ) -> Result<Command, (Unconsolidatable, Box<Simulation>)> {
        let refuse = |why, simulation| Err((why, Box::new(simulation)));
        if let Some(sentence) = simulation.failure() {
            return refuse(Unconsolidatable::Unplaceable(sentence), simulation);
        }
        let replacements = match simulation.plan.launches.as_slice() {
            [] => Vec::new(),
            [launch] => match self.cheaper(launch, candidates) {
                Ok(replacement) => vec![replacement],
                Err(why) => return refuse(why, simulation),
            },
            several => {
                let count = several.len();
                return refuse(Unconsolidatable::NeedsSeveral(count), simulation);
            }
        };
        let mut plan = simulation.plan;
        plan.launches.clone_from(&replacements);
        Ok(Command {
            reason: DisruptionReason::Underutilized,
            candidates: candidates.iter().map(|candidate| (*candidate).clone()).collect(),
            replacements,
            plan: Some(plan),
        })
    }

    /// The launch with only those types that cost less than what goes (DIS-132 to DIS-139).
    fn cheaper(&self, launch: &Launch, candidates: &[&Candidate]) -> Result<Launch, Unconsolidatable> {
        let limit: Price = candidates.iter().map(|candidate| candidate.price).sum();
        let is_spot = |candidate: &&Candidate| candidate.node.label(sym::CAPACITY_TYPE) == Some(sym::SPOT);
        let mut choice = ReplacementOptions::new(self.what_if.snapshot(), launch.clone());
        if candidates.iter().all(is_spot) && choice.allows(sym::SPOT) {
            return self.spot_to_spot(choice, limit, candidates.len());
        }
        keep_cheaper(&mut choice, limit)?;
        choice.narrow_capacity();
        if choice.allows(sym::SPOT) && choice.allows(sym::ON_DEMAND) {
            choice.go_spot();
            keep_cheaper(&mut choice, limit)?;
        }
        Ok(choice.into_launch())
    }

    /// DIS-143 to DIS-149.
    fn spot_to_spot(
        &self,
        mut choice: ReplacementOptions<'_>,
        limit: Price,
        candidates: usize,
    ) -> Result<Launch, Unconsolidatable> {
        if !self.settings.spot_to_spot {
            return Err(Unconsolidatable::SpotToSpotDisabled);
        }
        choice.go_spot();
        keep_cheaper(&mut choice, limit)?;
        if candidates > 1 {
            return Ok(choice.into_launch());
        }
        if choice.len() < SPOT_CHOICE {
            return Err(Unconsolidatable::SpotToSpotChoice {
                required: SPOT_CHOICE,
                found: choice.len(),
            });
        }
        choice.cut(choice.needed_for_min_values().max(SPOT_CHOICE));
        Ok(choice.into_launch())
    }

    /// What the pools say to a command.
    pub fn judge(&self, command: &Command) -> Judgement {
        self.balance.judge(command)
    }

    /// Whether the plan behind a command keeps every rule.
    pub fn check(&self, command: &Command) -> Result<(), Unconsolidatable> {
        let Some(plan) = &command.plan else { return Ok(()) };
        let candidates: Vec<&Candidate> = command.candidates.iter().collect();
        let after = marked(self.what_if.snapshot(), &candidates);
        let pods = self.what_if.pods(&candidates, Protected::Stay);
        (self.checker)(&after, &pods, plan).map_err(Unconsolidatable::Refused)
    }
}

/// DIS-134, DIS-137, DIS-138.
fn keep_cheaper(choice: &mut ReplacementOptions<'_>, limit: Price) -> Result<(), Unconsolidatable> {
    choice.keep_cheaper(limit);
    if let Some(keys) = choice.unmet_min_values(choice.len()) {
        return Err(Unconsolidatable::MinValues(keys));
    }
    if choice.len() == 0 {
        return Err(Unconsolidatable::NotCheaper);
    }
    Ok(())
}
