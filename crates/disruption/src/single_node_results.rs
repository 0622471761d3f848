//! The result of removing each candidate alone.

use crate::candidate::Candidate;
use crate::consolidation::Consolidation;
use crate::unconsolidatable::Unconsolidatable;
use kerf_model::price::Price;
use std::collections::BTreeMap;

/// How many candidates are evaluated between two checks of the time limit. Fixed, so that no result depends on the number of threads.
pub(crate) const BATCH: usize = 64;

/// The result of removing one node alone.
#[derive(Clone, PartialEq, Debug)]
pub enum SingleNodeResult {
    /// Its pods fit on the other nodes.
    Deletable,
    /// Its pods need one cheaper machine, which saves so much per hour.
    Replaceable(Price),
    /// It is not removed, for this reason.
    Unconsolidatable(Unconsolidatable),
}

/// The candidates that were evaluated, by index in the snapshot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SingleNodeResults(BTreeMap<usize, SingleNodeResult>);

impl SingleNodeResults {
    /// The result of a candidate, if it was evaluated.
    pub fn get(&self, index: usize) -> Option<&SingleNodeResult> {
        self.0.get(&index)
    }

    /// How many candidates were evaluated.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the results of other candidates.
    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Whether no candidate was evaluated.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Consolidation<'_> {
    /// Evaluates each candidate alone. If `stop` ends the search early, the candidates not reached are missing.
    pub fn single_node_results(
        &self,
        candidates: &[&Candidate],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> SingleNodeResults {
        let mut all = SingleNodeResults::default();
        for batch in candidates.chunks(BATCH) {
            if stop() {
                break;
            }
            let results = self.each(batch, |candidate| self.single_node_result(candidate));
            all.0.extend(batch.iter().map(|candidate| candidate.index).zip(results));
        }
        all
    }

    /// The result of removing one node. Pools do not score it.
    pub fn single_node_result(&self, candidate: &Candidate) -> SingleNodeResult {
        match self.propose(&[candidate]) {
            Ok(command) => match self.too_little(&command) {
                Some(why) => SingleNodeResult::Unconsolidatable(why),
                None if command.replacements.is_empty() => SingleNodeResult::Deletable,
                None => SingleNodeResult::Replaceable(command.savings()),
            },
            Err(why) => SingleNodeResult::Unconsolidatable(why),
        }
    }

    /// Evaluates candidates on all allowed threads. Results are in the order of the candidates.
    pub(crate) fn each<T: Send>(&self, candidates: &[&Candidate], look: impl Fn(&Candidate) -> T + Sync) -> Vec<T> {
        let threads = self.settings.threads.clamp(1, candidates.len().max(1));
        if threads == 1 {
            return candidates.iter().map(|candidate| look(candidate)).collect();
        }
        let share = candidates.len().div_ceil(threads);
        let look = &look;
        std::thread::scope(|scope| {
            let workers: Vec<_> = candidates
                .chunks(share)
                .map(|some| scope.spawn(move || some.iter().map(|candidate| look(candidate)).collect::<Vec<T>>()))
                .collect();
            let joined = workers.into_iter().flat_map(|worker| match worker.join() {
                Ok(results) => results,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        })
    }
}
