//! Single-node consolidation: one node at a time is deleted, or replaced by a cheaper one (section 8.5 of the disruption contract).

use crate::allowance::Allowance;
use crate::balance::Judgement;
use crate::candidate::Candidate;
use crate::command::Command;
use crate::consolidation::Consolidation;
use crate::single_node_results::{BATCH, SingleNodeResult, SingleNodeResults};
use crate::unconsolidatable::{Unconsolidatable, UnconsolidatableNode};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What single-node consolidation came to.
#[derive(Clone, Debug, Default)]
pub struct SingleNodeOutcome {
    /// What is to be done, if anything.
    pub command: Option<Command>,
    /// What pools said to every command that was computed on the way, the last one included (DIS-210).
    pub judgements: Vec<Judgement>,
    /// Candidates that stay, with why, as far as they were looked at.
    pub held: Vec<UnconsolidatableNode>,
    /// Some candidate was left out because its pool's budget is used up.
    pub constrained: bool,
    /// The time was over before every candidate had been looked at.
    pub timed_out: bool,
    /// How many candidates were looked at.
    pub evaluated: usize,
    /// Pools no candidate of which was looked at.
    pub unreached_pools: BTreeSet<Arc<str>>,
}

/// The order in which candidates get their turn: the pools of `first` before the others, by name; one candidate of each pool, then a second
/// one of each, and so on. `eligible` is in order of savings (DIS-174).
pub fn interleaved<'c>(eligible: &'c [Candidate], first: &BTreeSet<Arc<str>>) -> Vec<&'c Candidate> {
    let mut pools: Vec<(bool, &Arc<str>, Vec<&Candidate>)> = Vec::new();
    for candidate in eligible {
        let name = &candidate.pool.name;
        match pools.iter_mut().find(|(_, pool, _)| *pool == name) {
            Some((_, _, of_pool)) => of_pool.push(candidate),
            None => pools.push((!first.contains(name), name, vec![candidate])),
        }
    }
    pools.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let most = pools.iter().map(|(_, _, of_pool)| of_pool.len()).max().unwrap_or(0);
    let turns = (0..most).flat_map(|turn| {
        let of_turn = pools
            .iter()
            .filter_map(move |(_, _, of_pool)| of_pool.get(turn).copied());
        of_turn.collect::<Vec<_>>()
    });
    turns.collect()
}

/// One candidate's outcome.
enum Turn {
    Constrained,
    Stays(Unconsolidatable),
    Rejected(Judgement, Unconsolidatable),
    Goes(Box<Command>, Judgement),
}

impl Consolidation<'_> {
    /// The first candidate, in the order given, that can go (DIS-178). `results` are those of the same snapshot; what they say is not computed again.
    /// `stop` is looked at between batches of candidates (DIS-176).
    pub fn single(
        &self,
        order: &[&Candidate],
        allowance: &Allowance,
        results: &SingleNodeResults,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> SingleNodeOutcome {
        let mut found = SingleNodeOutcome {
            unreached_pools: order.iter().map(|candidate| Arc::clone(&candidate.pool.name)).collect(),
            ..SingleNodeOutcome::default()
        };
        let (mut rest, mut size) = (order, self.settings.threads.max(1));
        while !rest.is_empty() {
            if stop() {
                found.timed_out = true;
                return found;
            }
            // The first often goes: what is looked at beside it is lost then.
            let (batch, later) = rest.split_at(size.min(rest.len()));
            (rest, size) = (later, (size * 2).min(BATCH));
            let turns = self.each(batch, |candidate| self.turn(candidate, allowance, results));
            for (candidate, turn) in batch.iter().zip(turns) {
                found.evaluated += 1;
                found.unreached_pools.remove(&candidate.pool.name);
                let mut hold = |why| {
                    found.held.push(UnconsolidatableNode {
                        index: candidate.index,
                        why,
                    });
                };
                match turn {
                    Turn::Constrained => {
                        hold(Unconsolidatable::Budget(Arc::clone(&candidate.pool.name)));
                        found.constrained = true;
                    }
                    Turn::Stays(why) => hold(why),
                    Turn::Rejected(judgement, why) => {
                        hold(why);
                        found.judgements.push(judgement);
                    }
                    Turn::Goes(command, judgement) => {
                        found.judgements.push(judgement);
                        match self.check(&command) {
                            Ok(()) => {
                                found.command = Some(*command);
                                return found;
                            }
                            Err(why) => hold(why),
                        }
                    }
                }
            }
        }
        found
    }

    fn turn(&self, candidate: &Candidate, allowance: &Allowance, results: &SingleNodeResults) -> Turn {
        if allowance.left(&candidate.pool.name) == 0 {
            return Turn::Constrained;
        }
        if let Some(score) = self.balance.hopeless(candidate) {
            return Turn::Stays(Unconsolidatable::Unbalanced(Box::new(score)));
        }
        if let Some(SingleNodeResult::Unconsolidatable(why)) = results.get(candidate.index) {
            return Turn::Stays(why.clone());
        }
        let command = match self.propose(&[candidate]) {
            Ok(command) => command,
            Err(why) => return Turn::Stays(why),
        };
        let judgement = self.judge(&command);
        if let Some(score) = judgement.objection() {
            let why = Unconsolidatable::Unbalanced(Box::new(score.clone()));
            return Turn::Rejected(judgement, why);
        }
        Turn::Goes(Box::new(command), judgement)
    }
}
