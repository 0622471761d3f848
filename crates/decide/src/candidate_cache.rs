//! The nodes of a snapshot, sorted into candidates and blocked nodes. The result is kept while the snapshot is the same.

use crate::inputs::{Inputs, UnreadNodes};
use jiff::Timestamp;
use kerf_disruption::{Blocker, Candidate, Candidates, Class, UnconsolidatableNode, candidates, underutilized};
use kerf_model::pod::{DoNotDisrupt, Pod};
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// The nodes of a snapshot, sorted for one class of methods.
#[derive(Debug)]
pub struct SortedNodes {
    /// The candidates, and the blocked nodes with what blocks each.
    pub candidates: Candidates,
    /// Pods on them with a do-not-disrupt annotation of any value.
    pub annotated: Vec<Arc<Pod>>,
    snapshot: Arc<Snapshot>,
    class: Class,
    command_machines: Arc<BTreeSet<Arc<str>>>,
    awaited: BTreeSet<Arc<str>>,
    unread: UnreadNodes,
    since: Timestamp,
    underutilized: OnceLock<(Vec<Candidate>, Vec<UnconsolidatableNode>)>,
}

impl SortedNodes {
    /// Sorts the nodes for a class of methods.
    pub(crate) fn new(inputs: &Inputs<'_>, class: Class) -> Self {
        let (snapshot, unread) = (inputs.snapshot, &inputs.settings.unread);
        let mut candidates = candidates(snapshot, inputs.now, class, &|node| inputs.in_flight.holds(node));
        let awaited = inputs.awaited_claims();
        block(&mut candidates, |candidate| {
            if awaited.contains(candidate.claim()) {
                return Some(Blocker::Nominated);
            }
            let protector = unread.protector(&candidate.node.name)?;
            Some(Blocker::Unreadable(Arc::clone(protector)))
        });
        let free = candidates.free.iter().map(|candidate| candidate.index);
        let by_pods = candidates.blocked.iter().filter(|(_, blocker)| blocker.is_pod());
        let nodes = free
            .chain(by_pods.map(|(index, _)| *index))
            .filter_map(|index| snapshot.nodes.get(index));
        let annotated = nodes
            .flat_map(|node| &node.pods)
            .filter(|pod| pod.do_not_disrupt != DoNotDisrupt::No);
        Self {
            annotated: annotated.cloned().collect(),
            candidates,
            snapshot: Arc::clone(snapshot),
            class,
            command_machines: Arc::clone(&inputs.in_flight.command_machines),
            awaited,
            unread: unread.clone(),
            since: inputs.now,
            underutilized: OnceLock::new(),
        }
    }

    fn is_current(&self, inputs: &Inputs<'_>, class: Class) -> bool {
        let in_time = self.since <= inputs.now && self.candidates.until.is_none_or(|until| inputs.now < until);
        in_time
            && self.class == class
            && Arc::ptr_eq(&self.snapshot, inputs.snapshot)
            && self.command_machines == inputs.in_flight.command_machines
            && self.awaited == inputs.awaited_claims()
            && self.unread == inputs.settings.unread
    }

    /// The candidates that consolidation may choose, and the others with the reason why each stays.
    pub(crate) fn underutilized(&self) -> &(Vec<Candidate>, Vec<UnconsolidatableNode>) {
        self.underutilized
            .get_or_init(|| underutilized(&self.snapshot, &self.candidates.free))
    }
}

/// Blocks the candidates for which `blocker` gives something.
fn block(candidates: &mut Candidates, blocker: impl Fn(&Candidate) -> Option<Blocker>) {
    let blocked = &mut candidates.blocked;
    candidates.free.retain(|candidate| match blocker(candidate) {
        Some(blocker) => {
            blocked.push((candidate.index, blocker));
            false
        }
        None => true,
    });
    blocked.sort_by_key(|(index, _)| *index);
}

/// The last sorted nodes, one entry per class. The options of the process do not change.
#[derive(Debug, Default)]
pub(crate) struct CandidateCache(Vec<Arc<SortedNodes>>);

impl CandidateCache {
    /// Sorts the nodes, unless that was done for the same snapshot.
    pub(crate) fn sort(&mut self, inputs: &Inputs<'_>, class: Class) -> Arc<SortedNodes> {
        if let Some(known) = self.0.iter().find(|last| last.is_current(inputs, class)) {
            return Arc::clone(known);
        }
        let sorted = Arc::new(SortedNodes::new(inputs, class));
        self.0.retain(|last| last.class != class);
        self.0.push(Arc::clone(&sorted));
        sorted
    }
}
