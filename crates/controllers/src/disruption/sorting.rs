//! The nodes sorted into candidates and the blocked, kept for as long as sorting them again would say the same: turns follow each other
//! closely, and most of the time nothing happens between them.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use kerf_disruption::{Candidate, Candidates, Class, Staying, candidates, underutilized};
use kerf_model::pod::{DoNotDisrupt, Pod};
use kerf_model::snapshot::Snapshot;

use super::registry::Registry;

/// The nodes of a snapshot, sorted for one class of methods.
#[derive(Debug)]
pub(super) struct Sorted {
    pub(super) candidates: Candidates,
    /// The pods on them whose do-not-disrupt annotation somebody may be told of.
    pub(super) annotated: Vec<Arc<Pod>>,
    snapshot: Arc<Snapshot>,
    class: Class,
    /// What the registry held.
    version: u64,
    since: Timestamp,
    underutilized: OnceLock<(Vec<Candidate>, Vec<Staying>)>,
}

impl Sorted {
    fn new(snapshot: &Arc<Snapshot>, class: Class, registry: &Registry, now: Timestamp) -> Self {
        let version = registry.version();
        let candidates = candidates(snapshot, now, class, &|node| registry.holds(node));
        let checked = candidates.free.iter().map(|candidate| candidate.index);
        let blocked = candidates.blocked.iter().filter(|(_, blocker)| blocker.is_pod());
        let nodes = checked
            .chain(blocked.map(|(index, _)| *index))
            .filter_map(|index| snapshot.nodes.get(index));
        let annotated = nodes
            .flat_map(|node| &node.pods)
            .filter(|pod| pod.do_not_disrupt != DoNotDisrupt::No);
        Self {
            annotated: annotated.cloned().collect(),
            candidates,
            snapshot: Arc::clone(snapshot),
            class,
            version,
            since: now,
            underutilized: OnceLock::new(),
        }
    }

    fn stands(&self, snapshot: &Arc<Snapshot>, class: Class, registry: &Registry, now: Timestamp) -> bool {
        let in_time = self.since <= now && self.candidates.until.is_none_or(|until| now < until);
        in_time && self.class == class && self.version == registry.version() && Arc::ptr_eq(&self.snapshot, snapshot)
    }

    /// What consolidation may choose from, and the others with why.
    pub(super) fn underutilized(&self) -> &(Vec<Candidate>, Vec<Staying>) {
        self.underutilized
            .get_or_init(|| underutilized(&self.snapshot, &self.candidates.free))
    }
}

/// What was sorted last, one of each class.
#[derive(Debug, Default)]
pub(super) struct Sorting(Mutex<Vec<Arc<Sorted>>>);

impl Sorting {
    /// Sorts the nodes, unless that was done.
    pub(super) fn sort(
        &self,
        snapshot: &Arc<Snapshot>,
        class: Class,
        registry: &Registry,
        now: Timestamp,
    ) -> Arc<Sorted> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.iter().find(|last| last.stands(snapshot, class, registry, now)) {
            return Arc::clone(known);
        }
        let sorted = Arc::new(Sorted::new(snapshot, class, registry, now));
        last.retain(|last| last.class != class);
        last.push(Arc::clone(&sorted));
        sorted
    }
}
