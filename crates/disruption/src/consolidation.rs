//! The consolidation command for a given set of nodes (DIS-128 to DIS-149).

use crate::balance::{Balance, Judgement};
use crate::candidate::Candidate;
use crate::command::Command;
use crate::replacement_options::ReplacementOptions;
use crate::savings_per_pod::SavingsPerPod;
use crate::simulation::{Protected, Simulation, WhatIf, marked};
use crate::unconsolidatable::Unconsolidatable;
use kerf_model::budget::{ConsolidationPolicy, DisruptionReason};
use kerf_model::in_flight::UndoneMove;
use kerf_model::intern::sym;
use kerf_model::plan::{Launch, Plan};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use kerf_units::min_savings::MinSavingsPercent;
use kerf_units::policy::Replacements;
use std::sync::Arc;

/// The number of cheaper instance types that a replacement of a spot node by a spot node needs. Fewer would let a node be replaced again
/// and again (DIS-146, DIS-147).
const SPOT_CHOICE: usize = 15;

/// What consolidation may do, and how much work it may spend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Whether spot nodes may be replaced by spot nodes: the feature gate `SpotToSpotConsolidation` (DIS-143).
    pub spot_to_spot: bool,
    /// What a command must save for each pod it moves.
    pub savings_per_pod: SavingsPerPod,
    /// What replacements must save of the price of the nodes they replace.
    pub min_savings: MinSavingsPercent,
    /// How many nodes may replace those of a command.
    pub replacements: Replacements,
    /// The number of threads; no decision depends on it.
    pub threads: usize,
    /// How many pods the search may plan for while it extends the best set of nodes.
    pub effort: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            spot_to_spot: false,
            savings_per_pod: SavingsPerPod::default(),
            min_savings: MinSavingsPercent::default(),
            replacements: Replacements::default(),
            threads: 1,
            effort: 300_000,
        }
    }
}

/// Checks a plan for the pods of a snapshot independently of the solver. The error says what is wrong with the plan.
pub type Checker<'a> = &'a (dyn Fn(&Snapshot, &[Arc<Pod>], &Plan) -> Result<(), String> + Sync);

/// Accepts every plan.
pub fn unchecked(_: &Snapshot, _: &[Arc<Pod>], _: &Plan) -> Result<(), String> {
    Ok(())
}

/// Consolidation of one snapshot.
#[derive(Clone, Copy)]
pub struct Consolidation<'a> {
    /// Where pods would go.
    pub what_if: &'a WhatIf<'a>,
    /// The totals that Balanced pools compare commands with.
    pub balance: &'a Balance,
    /// What consolidation may do.
    pub settings: Settings,
    /// Moves that did not last.
    pub undone: &'a [UndoneMove],
    /// Checks every plan before its command is returned.
    pub checker: Checker<'a>,
}

impl Consolidation<'_> {
    /// The command that removes these nodes, or why there is none (DIS-128 to DIS-148). The command is neither scored nor checked yet.
    pub fn propose(&self, candidates: &[&Candidate]) -> Result<Command, Unconsolidatable> {
        let simulation = self.what_if.without(candidates)?;
        self.command(candidates, simulation).map_err(|(why, _)| why)
    }

    /// The command that a simulation without these nodes gives. On failure the simulation is returned with the reason.
    pub(crate) fn command(
        &self,
        candidates: &[&Candidate],
        simulation: Simulation,
    ) -> Result<Command, (Unconsolidatable, Box<Simulation>)> {
        let refuse = |why, simulation| Err((why, Box::new(simulation)));
        if let Some(sentence) = simulation.failure() {
            return refuse(Unconsolidatable::Unplaceable(sentence), simulation);
        }
        let before: Price = candidates.iter().map(|candidate| candidate.price).sum();
        let least = self.least_savings(candidates);
        let one = match simulation.plan.launches.as_slice() {
            [] => Ok(Vec::new()),
            [launch] => {
                let limit = before - (least - self.overhead_saved(candidates, launch)).max(Price::ZERO);
                match self.cheaper(launch, limit, candidates) {
                    Ok(replacement) => Ok(vec![replacement]),
                    Err(Unconsolidatable::NotCheaper) => Err(not_cheaper(launch, before, limit)),
                    Err(why) => Err(why),
                }
            }
            several => Err(Unconsolidatable::NeedsSeveral(several.len())),
        };
        match one {
            Ok(replacements) => Ok(replace(candidates, simulation.plan, replacements)),
            Err(why) => match self.several(candidates, before - least, &simulation) {
                Some(command) => Ok(command),
                None => refuse(why, simulation),
            },
        }
    }

    /// What replacements of these nodes must save. Pools whose policy is Balanced have a measure of their own (DIS-190).
    fn least_savings(&self, candidates: &[&Candidate]) -> Price {
        let judged = |candidate: &&&Candidate| candidate.pool.disruption.consolidation == ConsolidationPolicy::Balanced;
        let others = candidates.iter().filter(|candidate| !judged(candidate));
        let price: Price = others.map(|candidate| candidate.price).sum();
        Price::from_pico(self.settings.min_savings.of(price.pico()))
    }

    /// What these nodes cost besides their price more than the one node that replaces them.
    fn overhead_saved(&self, candidates: &[&Candidate], launch: &Launch) -> Price {
        let pools = candidates.iter().map(|candidate| &candidate.pool.name);
        let overhead: Price = pools.map(|pool| self.what_if.node_overhead(pool)).sum();
        overhead - self.what_if.node_overhead(&launch.pool)
    }

    /// The launch, narrowed to instance types that cost less than `limit`, which is at most the price of the nodes that go (DIS-132 to DIS-139).
    pub(crate) fn cheaper(
        &self,
        launch: &Launch,
        limit: Price,
        candidates: &[&Candidate],
    ) -> Result<Launch, Unconsolidatable> {
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

    /// The launch, narrowed to spot capacity that costs less than the spot nodes that go (DIS-143 to DIS-149).
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

    /// The pools' judgement of a command.
    pub fn judge(&self, command: &Command) -> Judgement {
        self.balance.judge(command)
    }

    /// Checks the plan behind a command. The error is [`Unconsolidatable::Refused`].
    pub fn check(&self, command: &Command) -> Result<(), Unconsolidatable> {
        let Some(plan) = &command.plan else { return Ok(()) };
        let candidates: Vec<&Candidate> = command.candidates.iter().collect();
        let after = marked(self.what_if.snapshot(), &candidates);
        let pods = self.what_if.pods(&candidates, Protected::Stay);
        (self.checker)(&after, &pods, plan).map_err(Unconsolidatable::Refused)
    }
}

/// Why no type of the launch is sure to cost less than `limit`: the cheapest saves too little of the price `before`, or nothing.
fn not_cheaper(launch: &Launch, before: Price, limit: Price) -> Unconsolidatable {
    match launch.price() {
        Some(price) if (limit..before).contains(&price) => Unconsolidatable::SavesTooLittle {
            savings: before - price,
            required: before - limit,
        },
        _ => Unconsolidatable::NotCheaper,
    }
}

/// The command that replaces nodes.
pub(crate) fn replace(candidates: &[&Candidate], mut plan: Plan, replacements: Vec<Launch>) -> Command {
    plan.launches.clone_from(&replacements);
    Command {
        reason: DisruptionReason::Underutilized,
        candidates: candidates.iter().map(|candidate| (*candidate).clone()).collect(),
        replacements,
        plan: Some(plan),
    }
}

/// Keeps the instance types that cost less than `limit`; an error if none or too few are left (DIS-134, DIS-137, DIS-138).
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
