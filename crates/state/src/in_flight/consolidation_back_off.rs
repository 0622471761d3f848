//! Back-off of consolidation after moves that did not last (deviation at DIS-119).
//!
//! Consolidation plans where evicted pods go, but kube-scheduler decides: it may fill the place meant for a large pod with small ones. Then
//! provisioning launches a machine like the one that was removed, and the same move would be tried again. So pods of a kind for which
//! provisioning launched a machine after a move are not moved for a time, twice as long after each repetition. Machines launched for another
//! reason do not count: replacements of other commands, machines for pods of nodes that go by themselves, and machines for more pods than
//! there were before the move.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_model::in_flight::RestingPods;
use kerf_model::pod::{Pod, PodShape};
use kerf_model::snapshot::Snapshot;

/// How long after a command began a new machine for its pods may be due to it.
const WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// How long pods rest after the first move that did not last.
const FIRST: Duration = Duration::from_secs(15 * 60);
/// The longest they rest.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Pods of one namespace that are equal for placement; workloads with equal requests are one kind.
type Kind = (Arc<str>, Arc<PodShape>);

fn kind(pod: &Pod) -> Kind {
    (Arc::clone(&pod.namespace), Arc::clone(&pod.shape))
}

fn is_of(pod: &Pod, kind: &Kind) -> bool {
    pod.namespace == kind.0 && pod.shape == kind.1
}

/// How many pods of each kind there are.
fn counts<'a>(snapshot: &Snapshot, kinds: impl IntoIterator<Item = &'a Kind>) -> Vec<(Kind, usize)> {
    let bound = snapshot.nodes.iter().flat_map(|node| node.own_pods());
    let mut all: Vec<(Kind, usize)> = kinds.into_iter().map(|kind| (kind.clone(), 0)).collect();
    for pod in bound.chain(&snapshot.pending).filter(|pod| pod.is_active()) {
        if let Some((_, count)) = all.iter_mut().find(|(known, _)| is_of(pod, known)) {
            *count += 1;
        }
    }
    all
}

/// Pods that were moved, and when.
#[derive(Debug)]
struct Move {
    at: Timestamp,
    /// The Nodes they were moved from.
    from: Vec<Arc<str>>,
    /// What was moved, and how many of it there were in the cluster.
    kinds: Vec<(Kind, usize)>,
}

impl Move {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) < WITHIN
    }

    /// Whether the move is why this pod needs a machine: it came back, or has not even left.
    fn displaced(&self, pod: &Pod) -> bool {
        let from_here = pod.node_name.as_ref().is_none_or(|node| self.from.contains(node));
        from_here && self.kinds.iter().any(|(kind, _)| is_of(pod, kind))
    }
}

/// A machine provisioning launched.
#[derive(Debug)]
struct Launched {
    at: Timestamp,
    /// The pods it is for.
    pods: Vec<Arc<Pod>>,
}

#[derive(Debug)]
struct Rest {
    kind: Kind,
    repetitions: u32,
    until: Timestamp,
}

/// What was moved lately, and what rests.
#[derive(Debug, Default)]
pub(crate) struct ConsolidationBackOff {
    moves: Vec<Move>,
    /// Not looked at yet.
    launched: Vec<Launched>,
    rests: Vec<Rest>,
}

impl ConsolidationBackOff {
    /// Notes that a command moves the pods of `from`, given the snapshot it was decided on and the time at which its start began.
    pub(crate) fn begun<'a>(
        &mut self,
        from: Vec<Arc<str>>,
        pods: impl IntoIterator<Item = &'a Arc<Pod>>,
        snapshot: &Snapshot,
        at: Timestamp,
    ) {
        let mut kinds: Vec<Kind> = Vec::new();
        for pod in pods {
            let kind = kind(pod);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let kinds = counts(snapshot, &kinds);
        self.moves.push(Move { at, from, kinds });
    }

    /// Notes that provisioning launched a machine, and the pods it is for.
    pub(crate) fn launched(&mut self, pods: &[Arc<Pod>], at: Timestamp) {
        let recent = self.moves.iter().filter(|one| one.is_recent(at));
        let moved: Vec<&Move> = recent.collect();
        let displaced = pods.iter().filter(|pod| moved.iter().any(|one| one.displaced(pod)));
        let pods: Vec<Arc<Pod>> = displaced.cloned().collect();
        if !pods.is_empty() {
            self.launched.push(Launched { at, pods });
        }
    }

    /// Whether nothing is remembered, so that nothing can expire.
    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.launched.is_empty() && self.rests.is_empty()
    }

    /// Finds the pods that came back onto new machines, and ends moves and rests whose time has come. Where there are more pods of a kind
    /// than before the move, the machine is for those.
    pub(crate) fn expire(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let mut back: Vec<Kind> = Vec::new();
        for launched in std::mem::take(&mut self.launched) {
            for pod in &launched.pods {
                let mut moves = self.moves.iter();
                if !back.contains(&kind(pod)) && moves.any(|one| came_back(pod, launched.at, one, snapshot)) {
                    back.push(kind(pod));
                }
            }
        }
        // What came of a move is known once any of its pods came back, or none did for long.
        for one in std::mem::take(&mut self.moves) {
            let moved = |kind: &Kind| one.kinds.iter().any(|(moved, _)| moved == kind);
            if back.iter().any(&moved) {
                continue;
            }
            if one.is_recent(now) {
                self.moves.push(one);
            } else {
                // It lasted.
                self.rests.retain(|rest| rest.until > now || !moved(&rest.kind));
            }
        }
        for kind in back {
            self.rest_again(kind, now);
        }
        let longest = SignedDuration::try_from(LONGEST).unwrap_or(SignedDuration::MAX);
        self.rests.retain(|rest| now.duration_since(rest.until) < longest);
    }

    fn rest_again(&mut self, kind: Kind, now: Timestamp) {
        let repetitions = match self.rests.iter().position(|rest| rest.kind == kind) {
            Some(at) => self.rests.swap_remove(at).repetitions.saturating_add(1),
            None => 1,
        };
        let rest = FIRST.saturating_mul(2_u32.saturating_pow(repetitions - 1)).min(LONGEST);
        let until = now.checked_add(rest).unwrap_or(Timestamp::MAX);
        self.rests.push(Rest {
            kind,
            repetitions,
            until,
        });
    }

    /// The pods that rest at `now`, with the end of their rest.
    pub(crate) fn resting(&self, now: Timestamp) -> Vec<RestingPods> {
        let resting = self.rests.iter().filter(|rest| rest.until > now);
        let shown = resting.map(|rest| RestingPods {
            namespace: Arc::clone(&rest.kind.0),
            shape: Arc::clone(&rest.kind.1),
            until: rest.until,
        });
        shown.collect()
    }
}

/// Whether a machine launched for a pod undoes a move.
fn came_back(pod: &Pod, launched: Timestamp, one: &Move, snapshot: &Snapshot) -> bool {
    let Some((kind, before)) = one.kinds.iter().find(|(kind, _)| is_of(pod, kind)) else {
        return false;
    };
    let grown = || counts(snapshot, [kind]).iter().any(|(_, now)| now > before);
    one.at <= launched && one.is_recent(launched) && one.displaced(pod) && !grown()
}
