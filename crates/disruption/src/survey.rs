//! Every candidate on its own: what would become of its pods without it.

use crate::candidate::Candidate;
use crate::consolidation::Consolidation;
use crate::stay::Stay;
use kerf_model::price::Price;
use std::collections::BTreeMap;

/// How many candidates are looked at between two looks at the time. Fixed, so that no result depends on the number of threads.
pub(crate) const BATCH: usize = 64;

/// What removing one node alone comes to.
#[derive(Clone, PartialEq, Debug)]
pub enum Alone {
    /// Its pods fit on what there is.
    Deletable,
    /// One cheaper machine does, and saves that much per hour.
    Replaceable(Price),
    /// It stays.
    Stays(Stay),
}

/// The candidates looked at, by index in the snapshot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Survey(BTreeMap<usize, Alone>);

impl Survey {
    /// What was found out about a candidate, if it was looked at.
    pub fn get(&self, index: usize) -> Option<&Alone> {
        self.0.get(&index)
    }

    /// How many candidates were looked at.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Consolidation<'_> {
    /// Looks at every candidate alone. Ends early where `stop` says so; what was not reached is missing then.
    pub fn survey(&self, candidates: &[&Candidate], stop: &(dyn Fn() -> bool + Sync)) -> Survey {
        let mut all = Survey::default();
        for batch in candidates.chunks(BATCH) {
            if stop() {
                break;
            }
            let results = self.each(batch, |candidate| self.alone(candidate));
            all.0.extend(batch.iter().map(|candidate| candidate.index).zip(results));
        }
        all
    }

    /// What removing one node comes to. The pools' scores are not asked.
    pub fn alone(&self, candidate: &Candidate) -> Alone {
        match self.propose(&[candidate]) {
            Ok(command) if command.replacements.is_empty() => Alone::Deletable,
            Ok(command) => Alone::Replaceable(command.savings()),
            Err(why) => Alone::Stays(why),
        }
    }

    /// Looks at candidates on as many threads as there may be; answers come in the order of the candidates.
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
