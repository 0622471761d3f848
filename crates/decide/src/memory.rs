//! What one decision leaves for the next.

use crate::candidate_cache::CandidateCache;
use crate::fairness::Fairness;
use crate::method::Method;
use jiff::{SignedDuration, Timestamp};
use kerf_disruption::SingleNodeResults;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Prepared};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// After this long a search is repeated even if nothing has changed (DIS-126).
const REPEAT_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// The memory of one kind of decision. Provisioning and disruption each have their own.
#[derive(Debug, Default)]
pub struct Memory {
    pub(crate) prepared: PreparedCache,
    pub(crate) candidates: CandidateCache,
    pub(crate) fairness: Fairness,
    pub(crate) searches: SearchCache,
    /// Pools of which single-node consolidation reached no candidate in time; they come first in the next search (DIS-177).
    pub(crate) unreached_pools: BTreeSet<Arc<str>>,
    /// The single-node results of the last search of multi-node consolidation, for the single-node search that follows.
    pub(crate) single_results: Option<SingleResults>,
}

impl Memory {
    /// An empty memory that shares the compiled snapshot of `prepared`.
    pub fn sharing(prepared: &PreparedCache) -> Self {
        Self {
            prepared: prepared.clone(),
            ..Self::default()
        }
    }

    /// The parts of this memory that do not belong to one snapshot. A process that starts with them decides as the owner of this memory does
    /// from equal inputs.
    #[must_use]
    pub fn findings(&self) -> Self {
        Self {
            fairness: self.fairness.clone(),
            searches: self.searches.clone(),
            unreached_pools: self.unreached_pools.clone(),
            ..Self::default()
        }
    }
}

/// The single-node results of a snapshot.
#[derive(Debug)]
pub(crate) struct SingleResults {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The nodes that took no pods, by index.
    pub(crate) closed: Vec<usize>,
    pub(crate) results: SingleNodeResults,
}

/// The inputs of a search. A search with an equal basis finds the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SearchBasis {
    /// See [`kerf_model::in_flight::InFlight::consolidation_epoch`].
    pub(crate) epoch: u64,
    /// The claims that could be chosen from, by unique id.
    pub(crate) eligible: Vec<Arc<str>>,
    /// The nodes that took no pods.
    pub(crate) closed: Vec<usize>,
    /// The times at which undone moves expire. From then on moves like them need not save more than others.
    pub(crate) undone_until: Vec<Timestamp>,
}

/// The last search of each method that found nothing, with its basis and time (DIS-124, DIS-125).
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchCache(Vec<(Method, SearchBasis, Timestamp)>);

impl SearchCache {
    /// Whether a search with this basis found nothing less than five minutes ago.
    pub(crate) fn contains(&self, method: Method, basis: &SearchBasis, now: Timestamp) -> bool {
        let mut all = self.0.iter();
        all.any(|(of, last, at)| *of == method && last == basis && *at <= now && now.duration_since(*at) < REPEAT_AFTER)
    }

    /// Records the outcome of a search. It is kept only if the search found nothing, was finished, and every candidate had budget (DIS-125,
    /// DIS-172).
    pub(crate) fn note(&mut self, method: Method, basis: SearchBasis, outcome: SearchOutcome, now: Timestamp) {
        self.0.retain(|(of, _, _)| *of != method);
        if outcome.found_nothing() {
            self.0.push((method, basis, now));
        }
    }
}

/// How a search ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchOutcome {
    pub(crate) found: bool,
    /// Whether some candidate was left out because its pool's budget is used up.
    pub(crate) constrained: bool,
    pub(crate) timed_out: bool,
}

impl SearchOutcome {
    const fn found_nothing(self) -> bool {
        !self.found && !self.constrained && !self.timed_out
    }
}

/// The last compiled snapshot, so that the next decision compiles only what has changed since. Clones share it. No older snapshot is kept.
#[derive(Clone, Default, Debug)]
pub struct PreparedCache(Arc<Mutex<Option<Last>>>);

#[derive(Debug)]
struct Last {
    snapshot: Arc<Snapshot>,
    prepared: Arc<Prepared>,
}

impl PreparedCache {
    /// Compiles a snapshot for the solver. Plans made with the result equal those of a solver that compiles the snapshot from nothing.
    pub(crate) fn read(&self, snapshot: &Arc<Snapshot>, options: &Options) -> Arc<Prepared> {
        // If `next` panics, or two threads read at the same time, the next call compiles from nothing.
        let last = self.lock().take();
        let prepared = match last {
            Some(last) if Arc::ptr_eq(&last.snapshot, snapshot) => last.prepared,
            Some(last) => Arc::new(last.prepared.next(snapshot, options)),
            None => Arc::new(Prepared::new(snapshot, options)),
        };
        *self.lock() = Some(Last {
            snapshot: Arc::clone(snapshot),
            prepared: Arc::clone(&prepared),
        });
        prepared
    }

    fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::intern::Interner;

    fn basis(epoch: u64, eligible: &[&str], closed: &[usize]) -> SearchBasis {
        SearchBasis {
            epoch,
            eligible: eligible.iter().map(|uid| Arc::from(*uid)).collect(),
            closed: closed.to_vec(),
            undone_until: Vec::new(),
        }
    }

    const FOUND_NOTHING: SearchOutcome = SearchOutcome {
        found: false,
        constrained: false,
        timed_out: false,
    };

    // DIS-124, DIS-126, DIS-315
    #[test]
    fn a_search_is_not_repeated_while_nothing_has_changed_for_five_minutes_at_most() {
        const MULTI: Method = Method::MultiNodeConsolidation;
        let mut searches = SearchCache::default();
        let (seen, at) = (
            basis(7, &["a", "b"], &[3]),
            Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
        );
        assert!(!searches.contains(MULTI, &seen, at));
        searches.note(MULTI, seen.clone(), FOUND_NOTHING, at);
        assert!(searches.contains(MULTI, &seen, at));
        assert!(
            !searches.contains(Method::SingleNodeConsolidation, &seen, at),
            "each method has an entry of its own"
        );
        for changed in [
            basis(8, &["a", "b"], &[3]),
            basis(7, &["a"], &[3]),
            basis(7, &["a", "b"], &[]),
            SearchBasis {
                undone_until: vec![at],
                ..seen.clone()
            },
        ] {
            assert!(!searches.contains(MULTI, &changed, at), "{changed:?}");
        }
        let five_minutes = SignedDuration::from_mins(5);
        assert!(searches.contains(MULTI, &seen, at + five_minutes - SignedDuration::from_nanos(1)));
        assert!(!searches.contains(MULTI, &seen, at + five_minutes));
        assert!(
            !searches.contains(MULTI, &seen, Timestamp::UNIX_EPOCH),
            "the clock went back"
        );
    }

    // DIS-125, DIS-172
    #[test]
    fn only_a_finished_search_that_found_nothing_is_remembered() {
        let (seen, at) = (basis(7, &["a"], &[]), Timestamp::UNIX_EPOCH);
        for (outcome, remembered) in [
            (FOUND_NOTHING, true),
            (
                SearchOutcome {
                    found: true,
                    ..FOUND_NOTHING
                },
                false,
            ),
            (
                SearchOutcome {
                    constrained: true,
                    ..FOUND_NOTHING
                },
                false,
            ),
            (
                SearchOutcome {
                    timed_out: true,
                    ..FOUND_NOTHING
                },
                false,
            ),
        ] {
            let mut searches = SearchCache::default();
            searches.note(Method::SingleNodeConsolidation, seen.clone(), FOUND_NOTHING, at);
            searches.note(Method::SingleNodeConsolidation, seen.clone(), outcome, at);
            let found = searches.contains(Method::SingleNodeConsolidation, &seen, at);
            assert_eq!(found, remembered, "{outcome:?}");
        }
    }

    #[test]
    fn the_same_snapshot_is_read_once_and_an_older_one_is_let_go() {
        let (cache, options) = (PreparedCache::default(), Options::default());
        let interner = Arc::new(Interner::default());
        let first = Arc::new(Snapshot::new(Arc::clone(&interner)));
        let reading = cache.read(&first, &options);
        assert!(Arc::ptr_eq(&reading, &cache.read(&first, &options)));
        let gone = Arc::downgrade(&reading);
        drop(reading);
        let next = Arc::new(Snapshot::new(interner));
        cache.read(&next, &options);
        assert!(gone.upgrade().is_none());
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
