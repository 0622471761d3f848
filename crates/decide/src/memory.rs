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

/// What decisions remember. Provisioning and disruption each have their own.
#[derive(Debug, Default)]
pub struct Memory {
    pub(crate) prepared: PreparedCache,
    pub(crate) candidates: CandidateCache,
    pub(crate) fairness: Fairness,
    pub(crate) fruitless: FruitlessSearches,
    /// Pools of which single-node consolidation reached no candidate in time; they come first in the next search (DIS-177).
    pub(crate) unreached_pools: BTreeSet<Arc<str>>,
    /// What the last search of multi-node consolidation found of each node alone, for the single-node search that follows.
    pub(crate) single_results: Option<SingleResults>,
}

impl Memory {
    /// A memory that shares what the solver has read of the cluster with others.
    pub fn sharing(prepared: &PreparedCache) -> Self {
        Self {
            prepared: prepared.clone(),
            ..Self::default()
        }
    }

    /// What this memory says about the cluster, without what belongs to one snapshot. From equal inputs, another process that starts with it
    /// decides as the owner of this memory does.
    #[must_use]
    pub fn findings(&self) -> Self {
        Self {
            fairness: self.fairness.clone(),
            fruitless: self.fruitless.clone(),
            unreached_pools: self.unreached_pools.clone(),
            ..Self::default()
        }
    }
}

/// What removing single nodes of a snapshot comes to.
#[derive(Debug)]
pub(crate) struct SingleResults {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The nodes that took no pods.
    pub(crate) closed: Vec<usize>,
    pub(crate) results: SingleNodeResults,
}

/// What a search was based on: while it is the same, another search finds the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SearchBasis {
    /// See [`kerf_model::in_flight::InFlight::consolidation_epoch`].
    pub(crate) epoch: u64,
    /// The claims that could be chosen from, by unique id.
    pub(crate) eligible: Vec<Arc<str>>,
    /// The nodes that took no pods.
    pub(crate) closed: Vec<usize>,
    /// When the undone moves end that make moves dearer: after that more moves are worth it.
    pub(crate) undone_until: Vec<Timestamp>,
}

/// The last search of each method that found nothing, with its basis and time (DIS-124, DIS-125).
#[derive(Clone, Debug, Default)]
pub(crate) struct FruitlessSearches(Vec<(Method, SearchBasis, Timestamp)>);

impl FruitlessSearches {
    /// Whether a search on this basis was in vain, less than five minutes ago.
    pub(crate) fn contains(&self, method: Method, basis: &SearchBasis, now: Timestamp) -> bool {
        let mut all = self.0.iter();
        all.any(|(of, last, at)| *of == method && last == basis && *at <= now && now.duration_since(*at) < REPEAT_AFTER)
    }

    /// Notes the outcome of a search. Only one that was finished and in which every candidate had budget is in vain (DIS-125, DIS-172).
    pub(crate) fn note(&mut self, method: Method, basis: SearchBasis, outcome: SearchOutcome, now: Timestamp) {
        self.0.retain(|(of, _, _)| *of != method);
        if outcome.is_in_vain() {
            self.0.push((method, basis, now));
        }
    }
}

/// How a search ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchOutcome {
    pub(crate) found: bool,
    /// Some candidate was left out because its pool's budget is used up.
    pub(crate) constrained: bool,
    pub(crate) timed_out: bool,
}

impl SearchOutcome {
    const fn is_in_vain(self) -> bool {
        !self.found && !self.constrained && !self.timed_out
    }
}

/// The cluster as the solver last read it, so that the next decision reads only what has changed since. Clones share it. It holds the last
/// snapshot, and no older one.
#[derive(Clone, Default, Debug)]
pub struct PreparedCache(Arc<Mutex<Option<Last>>>);

#[derive(Debug)]
struct Last {
    snapshot: Arc<Snapshot>,
    prepared: Arc<Prepared>,
}

impl PreparedCache {
    /// A snapshot made ready for the solver. Plans made with it are those of a solver that reads the snapshot anew.
    pub(crate) fn read(&self, snapshot: &Arc<Snapshot>, options: &Options) -> Arc<Prepared> {
        // If reading panics, or two read at the same time, the next reading begins anew.
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

    const IN_VAIN: SearchOutcome = SearchOutcome {
        found: false,
        constrained: false,
        timed_out: false,
    };

    // DIS-124, DIS-126, DIS-315
    #[test]
    fn a_search_is_not_repeated_while_nothing_has_changed_for_five_minutes_at_most() {
        const MULTI: Method = Method::MultiNodeConsolidation;
        let mut searches = FruitlessSearches::default();
        let (seen, at) = (
            basis(7, &["a", "b"], &[3]),
            Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
        );
        assert!(!searches.contains(MULTI, &seen, at));
        searches.note(MULTI, seen.clone(), IN_VAIN, at);
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
    fn only_a_finished_search_in_vain_is_remembered() {
        let (seen, at) = (basis(7, &["a"], &[]), Timestamp::UNIX_EPOCH);
        for (outcome, remembered) in [
            (IN_VAIN, true),
            (SearchOutcome { found: true, ..IN_VAIN }, false),
            (
                SearchOutcome {
                    constrained: true,
                    ..IN_VAIN
                },
                false,
            ),
            (
                SearchOutcome {
                    timed_out: true,
                    ..IN_VAIN
                },
                false,
            ),
        ] {
            let mut searches = FruitlessSearches::default();
            searches.note(Method::SingleNodeConsolidation, seen.clone(), IN_VAIN, at);
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
