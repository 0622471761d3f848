//! Single-node consolidation: deletes one node, or replaces it by a cheaper one (DIS-174 to DIS-180).

use crate::allowance::Allowance;
use crate::balance::Judgement;
use crate::candidate::Candidate;
use crate::command::Command;
use crate::consolidation::Consolidation;
use crate::single_node_results::{BATCH, SingleNodeResult, SingleNodeResults};
use crate::unconsolidatable::{Unconsolidatable, UnconsolidatableNode};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The result of single-node consolidation.
#[derive(Clone, Debug, Default)]
pub struct SingleNodeOutcome {
    /// The command, if one was found.
    pub command: Option<Command>,
    /// The pools' judgements of all commands that were computed, in order; the last is about the command found (DIS-210).
    pub judgements: Vec<Judgement>,
    /// The candidates that were evaluated and stay, with the reason.
    pub staying: Vec<UnconsolidatableNode>,
    /// Whether a candidate was left out because its pool's budgets allow no more.
    pub constrained: bool,
    /// Whether the search stopped before every candidate was evaluated.
    pub timed_out: bool,
    /// How many candidates were evaluated.
    pub evaluated: usize,
    /// Pools of which no candidate was evaluated.
    pub unreached_pools: BTreeSet<Arc<str>>,
}

/// The order in which candidates are evaluated: one candidate of each pool, then a second one of each, and so on. The pools of `first` come
/// before the others, each group ordered by name. `eligible` is in order of savings (DIS-174).
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
    let rounds = (0..most).flat_map(|round| {
        let of_round = pools
            .iter()
            .filter_map(move |(_, _, of_pool)| of_pool.get(round).copied());
        of_round.collect::<Vec<_>>()
    });
    rounds.collect()
}

/// The result of evaluating one candidate.
enum CandidateOutcome {
    Constrained,
    Stays(Unconsolidatable),
    Rejected(Judgement, Unconsolidatable),
    Goes(Box<Command>, Judgement),
}

impl Consolidation<'_> {
    /// A command for the first candidate in `order` that can go (DIS-178). `results` are known results for the same snapshot, which are not
    /// computed again. `stop` is polled between batches of candidates (DIS-176).
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
            // The first candidate can often be removed; then the evaluation of the others in its batch is wasted. So batches start small.
            let (batch, later) = rest.split_at(size.min(rest.len()));
            (rest, size) = (later, (size * 2).min(BATCH));
            let outcomes = self.each(batch, |candidate| self.evaluate(candidate, allowance, results));
            for (candidate, outcome) in batch.iter().zip(outcomes) {
                found.evaluated += 1;
                found.unreached_pools.remove(&candidate.pool.name);
                let mut hold = |why| {
                    found.staying.push(UnconsolidatableNode {
                        index: candidate.index,
                        why,
                    });
                };
                match outcome {
                    CandidateOutcome::Constrained => {
                        hold(Unconsolidatable::Budget(Arc::clone(&candidate.pool.name)));
                        found.constrained = true;
                    }
                    CandidateOutcome::Stays(why) => hold(why),
                    CandidateOutcome::Rejected(judgement, why) => {
                        hold(why);
                        found.judgements.push(judgement);
                    }
                    CandidateOutcome::Goes(command, judgement) => {
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

    fn evaluate(&self, candidate: &Candidate, allowance: &Allowance, results: &SingleNodeResults) -> CandidateOutcome {
        if allowance.left(&candidate.pool.name) == 0 {
            return CandidateOutcome::Constrained;
        }
        if let Some(score) = self.balance.hopeless(candidate) {
            return CandidateOutcome::Stays(Unconsolidatable::Unbalanced(Box::new(score)));
        }
        if let Some(SingleNodeResult::Unconsolidatable(why)) = results.get(candidate.index) {
            return CandidateOutcome::Stays(why.clone());
        }
        let command = match self.propose(&[candidate]) {
            Ok(command) => command,
            Err(why) => return CandidateOutcome::Stays(why),
        };
        if let Some(why) = self.too_little(&command) {
            return CandidateOutcome::Stays(why);
        }
        let judgement = self.judge(&command);
        if let Some(score) = judgement.objection() {
            let why = Unconsolidatable::Unbalanced(Box::new(score.clone()));
            return CandidateOutcome::Rejected(judgement, why);
        }
        CandidateOutcome::Goes(Box::new(command), judgement)
    }
}
