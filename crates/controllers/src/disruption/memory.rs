//! What consolidation remembers from turn to turn, so that it does not search again where nothing has changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kerf_disruption::{Relapses, Survey};
use kerf_model::snapshot::Snapshot;
use tokio::time::Instant;

use super::methods::Method;
use super::sorting::Sorting;

/// Nothing is taken as unchanged for longer than this (DIS-126).
const FORGET: Duration = Duration::from_secs(300);

/// What an evaluation was based on: while it is the same, another one finds the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Basis {
    /// What LIF-207 counts.
    pub(super) epoch: u64,
    /// The claims that could be chosen from, by unique id.
    pub(super) eligible: Vec<Arc<str>>,
    /// The nodes pods could not be moved to.
    pub(super) closed: Vec<usize>,
}

/// What consolidation remembers from turn to turn.
#[derive(Debug, Default)]
pub(super) struct Memory {
    remembered: Mutex<Remembered>,
    /// What the nodes were sorted into.
    pub(super) sorting: Sorting,
}

#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// What the last search for several nodes that found nothing was based on, and when (DIS-124).
    pub(super) multi: Option<(Basis, Instant)>,
    /// The same for single nodes.
    pub(super) single: Option<(Basis, Instant)>,
    /// Pools no candidate of which was reached in time (DIS-177).
    pub(super) unseen: BTreeSet<Arc<str>>,
    /// What was moved and came back.
    pub(super) relapses: Relapses,
    /// What the last search for several nodes found out about each alone, for the turn that follows it.
    pub(super) survey: Option<(Arc<Snapshot>, Vec<usize>, Survey)>,
}

impl Remembered {
    fn quiet(&mut self, method: Method) -> &mut Option<(Basis, Instant)> {
        match method {
            Method::Multi => &mut self.multi,
            _ => &mut self.single,
        }
    }
}

impl Memory {
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Remembered) -> T) -> T {
        look(&mut self.remembered.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_quiet(&self, method: Method, basis: &Basis) -> bool {
        self.with(|all| {
            let quiet = all.quiet(method).as_ref();
            quiet.is_some_and(|(last, at)| last == basis && at.elapsed() < FORGET)
        })
    }
}

/// Whether an evaluation need not be repeated while nothing changes (DIS-125, DIS-172): it found nothing, every candidate had budget, and it
/// was finished.
pub(super) const fn is_settled(found: bool, constrained: bool, timed_out: bool) -> bool {
    !found && !constrained && !timed_out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basis(epoch: u64, eligible: &[&str], closed: &[usize]) -> Basis {
        Basis {
            epoch,
            eligible: eligible.iter().map(|uid| Arc::from(*uid)).collect(),
            closed: closed.to_vec(),
        }
    }

    // DIS-124, DIS-126, DIS-315
    #[tokio::test(start_paused = true)]
    async fn a_method_rests_while_nothing_has_changed_for_five_minutes_at_most() {
        let memory = Memory::default();
        let seen = basis(7, &["a", "b"], &[3]);
        assert!(!memory.is_quiet(Method::Multi, &seen));
        memory.with(|all| all.multi = Some((seen.clone(), Instant::now())));
        assert!(memory.is_quiet(Method::Multi, &seen));
        assert!(!memory.is_quiet(Method::Single, &seen), "each has a memory of its own");
        for changed in [
            basis(8, &["a", "b"], &[3]),
            basis(7, &["a"], &[3]),
            basis(7, &["a", "b"], &[]),
        ] {
            assert!(!memory.is_quiet(Method::Multi, &changed), "{changed:?}");
        }
        tokio::time::advance(FORGET).await;
        assert!(!memory.is_quiet(Method::Multi, &seen));
    }

    // DIS-125, DIS-172
    #[test]
    fn only_a_finished_search_in_vain_is_remembered() {
        assert!(is_settled(false, false, false));
        assert!(!is_settled(true, false, false));
        assert!(!is_settled(false, true, false));
        assert!(!is_settled(false, false, true));
    }
}
