//! Multi-node consolidation: removes several nodes together and launches one cheaper machine at most, or a few on request (DIS-158
//! to DIS-173, `several.rs`).
//!
//! Upstream tries prefixes of one order only, so one node that cannot go excludes all nodes after it, and the first nodes use up the budgets
//! even if they cannot go. Here the search first sets aside nodes that cannot go even alone. Then it finds the longest prefix that works by binary search. A prefix that does not work is repaired: the nodes
//! whose pods found no place are left out. Finally the best set is extended by other nodes. The set with the highest savings is taken.

use crate::allowance::Allowance;
use crate::balance::Judgement;
use crate::bounds::Bounds;
use crate::candidate::Candidate;
use crate::command::Command;
use crate::consolidation::Consolidation;
use crate::same_type;
use crate::simulation::Simulation;
use crate::single_node_results::{BATCH, SingleNodeResult, SingleNodeResults};
use crate::unconsolidatable::Unconsolidatable;
use kerf_model::plan::{Launch, Plan};
use kerf_model::price::Price;
use std::collections::{BTreeMap, BTreeSet};

/// The result of multi-node consolidation.
#[derive(Clone, Debug, Default)]
pub struct MultiNodeOutcome {
    /// The command, if one was found.
    pub command: Option<Command>,
    /// The pools' judgement of the command; without a command, their judgement of the last set they refused (DIS-212).
    pub judgement: Option<Judgement>,
    /// Whether a candidate was left out because its pool's budgets allow no more (DIS-158).
    pub constrained: bool,
    /// Whether the search stopped before its end (DIS-163).
    pub timed_out: bool,
    /// The result of removing each candidate alone.
    pub results: SingleNodeResults,
}

/// A set of nodes that can go together.
struct Found {
    /// Positions in the order searched, ascending.
    members: Vec<usize>,
    savings: Price,
    command: Command,
    judgement: Judgement,
}

/// The state of a search.
struct Search<'s, 'a> {
    consolidation: &'s Consolidation<'a>,
    order: &'s [&'s Candidate],
    stop: &'s (dyn Fn() -> bool + Sync),
    best: Option<Found>,
    refused: Option<Judgement>,
    tried: BTreeSet<Vec<usize>>,
    timed_out: bool,
}

impl Consolidation<'_> {
    /// The set of nodes with the highest savings (DIS-158 to DIS-172). `eligible` is in order of savings; `allowance` decreases as candidates
    /// are considered. `stop` is polled before every simulation of more than one node.
    pub fn multi(
        &self,
        eligible: &[Candidate],
        allowance: &mut Allowance,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> MultiNodeOutcome {
        let mut result = MultiNodeOutcome::default();
        let movable = self.movable(eligible, allowance, &mut result, stop);
        if movable.len() < 2 {
            return result;
        }
        let mut search = Search {
            consolidation: self,
            order: &movable,
            stop,
            best: None,
            refused: None,
            tried: BTreeSet::new(),
            timed_out: result.timed_out,
        };
        search.prefixes();
        search.grow(&result.results);
        result.timed_out = search.timed_out;
        (result.command, result.judgement) = match search.best {
            Some(found) => (Some(found.command), Some(found.judgement)),
            None => (None, search.refused),
        };
        result
    }

    /// The candidates that may go together, as many as budgets allow. Those that cannot go even alone use up no budget.
    fn movable<'c>(
        &self,
        eligible: &'c [Candidate],
        allowance: &mut Allowance,
        result: &mut MultiNodeOutcome,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Vec<&'c Candidate> {
        let mut left = allowance.clone();
        let most = eligible.iter().filter(|one| left.take(&one.pool.name)).count();
        let open = eligible.iter().filter(|one| allowance.left(&one.pool.name) > 0);
        let open: Vec<&Candidate> = open.collect();
        result.constrained = most < 2 && most < eligible.len() || open.len() < eligible.len();
        let mut movable = Vec::new();
        if most < 2 {
            return movable;
        }
        for batch in open.chunks(BATCH) {
            if movable.len() == most {
                result.constrained |= most < eligible.len();
                break;
            }
            let evaluated = self.single_node_results(batch, stop);
            let excluded = self.never_worth_it(batch, &evaluated);
            for candidate in batch {
                let may_go =
                    evaluated.get(candidate.index).is_some_and(may_join) && !excluded.contains(&candidate.index);
                match may_go && allowance.take(&candidate.pool.name) {
                    true => movable.push(*candidate),
                    false => result.constrained |= may_go,
                }
            }
            result.timed_out |= evaluated.len() < batch.len();
            result.results.extend(evaluated);
            if result.timed_out {
                break;
            }
        }
        movable
    }
}

/// Whether a node with this result could be removed with others. With more nodes removed there is less room, so pods that do not fit when the
/// node alone is removed do not fit then either.
const fn may_join(alone: &SingleNodeResult) -> bool {
    match alone {
        SingleNodeResult::Deletable | SingleNodeResult::Replaceable(_) => true,
        SingleNodeResult::Unconsolidatable(why) => !matches!(
            why,
            Unconsolidatable::Unplaceable(_) | Unconsolidatable::NeedsSeveral(_) | Unconsolidatable::NoSimulation(_)
        ),
    }
}

impl Search<'_, '_> {
    /// Finds the longest prefix that works, by binary search (DIS-160).
    fn prefixes(&mut self) {
        let bounds = Bounds::new(self.consolidation.what_if.snapshot());
        let (mut low, mut high) = (2, bounds.longest_prefix(self.order));
        while low <= high {
            let middle = low.midpoint(high);
            let whole: Vec<usize> = (0..middle).collect();
            match self.attempt(&whole) {
                Ok(true) => low = middle + 1,
                Ok(false) => high = middle - 1,
                Err(Ended) => return,
            }
        }
    }

    /// Tries a set and, if it does not work, its repairs. Returns whether the set itself works.
    fn attempt(&mut self, members: &[usize]) -> Result<bool, Ended> {
        match self.probe(members)? {
            None => Ok(true),
            Some(repairs) => {
                for repaired in repairs {
                    self.probe(&repaired)?;
                }
                Ok(false)
            }
        }
    }

    /// Tries a set and keeps it if it works and saves most. Returns `None` if it works, else smaller sets that may work.
    fn probe(&mut self, members: &[usize]) -> Result<Option<Vec<Vec<usize>>>, Ended> {
        if members.len() < 2 || !self.tried.insert(members.to_vec()) {
            return Ok(Some(Vec::new()));
        }
        if (self.stop)() {
            self.timed_out = true;
            return Err(Ended);
        }
        let set: Vec<&Candidate> = members.iter().filter_map(|at| self.order.get(*at).copied()).collect();
        let consolidation = self.consolidation;
        let Ok(simulation) = consolidation.what_if.without(&set) else {
            return Ok(Some(Vec::new()));
        };
        let mut command = match consolidation.command(&set, simulation) {
            Ok(command) => command,
            Err((_, simulation)) => return Ok(Some(repairs(&set, members, &simulation))),
        };
        if !command.replacements.is_empty() {
            let snapshot = consolidation.what_if.snapshot();
            let replacements = command.replacements.iter();
            let filtered = replacements.map(|replacement| same_type::filter(snapshot, &set, replacement.clone()));
            let Some(replacements) = filtered.collect::<Option<Vec<Launch>>>() else {
                let plan = command.plan.as_ref();
                let unmoved = plan.map(|plan| vec![on_existing(&set, members, plan)]);
                return Ok(Some(unmoved.unwrap_or_default()));
            };
            if let Some(plan) = &mut command.plan {
                plan.launches.clone_from(&replacements);
            }
            command.replacements = replacements;
        }
        if consolidation.too_little(&command).is_some() {
            return Ok(Some(Vec::new()));
        }
        let judgement = consolidation.judge(&command);
        if !judgement.approved() {
            self.refused = Some(judgement);
            return Ok(Some(Vec::new()));
        }
        let savings = command.savings();
        let better = self
            .best
            .as_ref()
            .is_none_or(|best| (savings, members.len()) > (best.savings, best.members.len()));
        if better {
            if consolidation.check(&command).is_err() {
                return Ok(Some(Vec::new()));
            }
            self.best = Some(Found {
                members: members.to_vec(),
                savings,
                command,
                judgement,
            });
        }
        Ok(None)
    }

    /// Extends the best set by deletable nodes until the effort is spent. The number added at a time doubles while it works and falls back to one
    /// when it does not.
    fn grow(&mut self, results: &SingleNodeResults) {
        let deletable = |at: &usize| {
            let candidate = self.order.get(*at);
            candidate.is_some_and(|candidate| results.get(candidate.index) == Some(&SingleNodeResult::Deletable))
        };
        let mut rest: Vec<usize> = (0..self.order.len()).filter(deletable).collect();
        let members = self.best.as_ref().map(|best| best.members.clone()).unwrap_or_default();
        rest.retain(|at| members.binary_search(at).is_err());
        let mut base = members;
        if base.is_empty() && !rest.is_empty() {
            base.push(rest.remove(0));
        }
        let mut effort = self.consolidation.settings.effort;
        let (mut next, mut step) = (0, 1);
        while let Some(some) = rest
            .get(next..(next + step).min(rest.len()))
            .filter(|some| !some.is_empty())
        {
            let mut larger = base.clone();
            larger.extend(some);
            larger.sort_unstable();
            let cost = self.pods(&larger);
            if cost > effort {
                return;
            }
            effort -= cost;
            match self.probe(&larger) {
                Ok(None) => {
                    base = larger;
                    next += some.len();
                    step *= 2;
                }
                Ok(Some(_)) if step > 1 => step = 1,
                Ok(Some(_)) => next += 1,
                Err(Ended) => return,
            }
        }
    }

    fn pods(&self, members: &[usize]) -> u64 {
        let of_node = |at: &usize| self.order.get(*at).map_or(0, |candidate| candidate.pods.len() as u64);
        members.iter().map(of_node).sum::<u64>().max(1)
    }
}

/// The caller asked to stop.
struct Ended;

/// Smaller sets that may work: the nodes that need no new machine, and these together with the nodes whose pods are on the new machine that
/// replaces the highest price.
fn repairs(set: &[&Candidate], members: &[usize], simulation: &Simulation) -> Vec<Vec<usize>> {
    let unplaced = simulation.unplaced.iter().map(|unplaced| &*unplaced.pod.uid);
    let lost: BTreeSet<usize> = owners(set, unplaced);
    let on_launches: Vec<BTreeSet<usize>> = simulation
        .plan
        .launches
        .iter()
        .map(|launch: &Launch| owners(set, launch.pods.iter().map(|pod| &*pod.uid)))
        .collect();
    let without = |spared: Option<usize>| -> Vec<usize> {
        let others = on_launches.iter().enumerate().filter(|(at, _)| Some(*at) != spared);
        let in_the_way: BTreeSet<usize> = others.flat_map(|(_, owners)| owners).chain(&lost).copied().collect();
        let kept = (0..set.len()).filter(|at| !in_the_way.contains(at));
        kept.filter_map(|at| members.get(at).copied()).collect()
    };
    let worth = |owners: &BTreeSet<usize>| -> Price {
        let nodes = owners.iter().filter_map(|at| set.get(*at));
        nodes.map(|candidate| candidate.price).sum()
    };
    let most = on_launches
        .iter()
        .enumerate()
        .max_by_key(|(at, owners)| (worth(owners), std::cmp::Reverse(*at)));
    let mut sets = Vec::new();
    if on_launches.len() > 1 || !lost.is_empty() {
        sets.extend(most.map(|(at, _)| without(Some(at))));
    }
    sets.push(without(None));
    sets.retain(|some| some.len() < members.len());
    sets
}

/// The nodes of a set whose pods are all planned onto existing nodes.
fn on_existing(set: &[&Candidate], members: &[usize], plan: &Plan) -> Vec<usize> {
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let in_the_way = owners(set, launched.map(|pod| &*pod.uid));
    let kept = (0..set.len()).filter(|at| !in_the_way.contains(at));
    kept.filter_map(|at| members.get(at).copied()).collect()
}

/// The positions in `set` of the nodes that hold some pods.
fn owners<'p>(set: &[&Candidate], pods: impl Iterator<Item = &'p str>) -> BTreeSet<usize> {
    let mut of_pod: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, candidate) in set.iter().enumerate() {
        of_pod.extend(candidate.pods.iter().map(|pod| (&*pod.uid, at)));
    }
    pods.filter_map(|uid| of_pod.get(uid).copied()).collect()
}
