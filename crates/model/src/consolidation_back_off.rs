//! Back-off of consolidation after moves that did not last (deviation at DIS-119).
//!
//! Consolidation plans where evicted pods go, but kube-scheduler decides: it may fill the place meant for a large pod with small ones, or
//! bind evicted pods where there was room for a pending one. Then provisioning launches a machine like the one that was removed, and the
//! same move would be tried again. So a move of such pods onto such machines has to save more than that machine costs, for a time that
//! doubles after each repetition. Moves that save more than that, such as those of many nodes together, stay possible. Machines launched for
//! another reason do not count: replacements of other commands, machines for pods of nodes that go by themselves, and machines for more pods
//! than there were before the move.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::in_flight::{MachineKind, StartedMove, UndoneMove};
use crate::plan::Plan;
use crate::pod::{Pod, PodShape};
use crate::price::Price;
use crate::snapshot::Snapshot;
use jiff::{SignedDuration, Timestamp};

/// How long after a command began a new machine for its pods may be due to it.
const WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// How much older than a move the successor of an evicted pod may seem: times of creation are cut to whole seconds.
const CREATION_ROUNDING: SignedDuration = SignedDuration::from_secs(1);
/// How long the first undone move counts.
const FIRST: Duration = Duration::from_secs(15 * 60);
/// The longest an undone move counts.
const BACK_OFF_MAX: Duration = Duration::from_secs(24 * 3600);

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
    /// What was moved.
    pods: Vec<MovedPods>,
    /// The uids of pods that waited for kube-scheduler to bind them, and the names of the nodes with room for them.
    waiting: Vec<(Arc<str>, Arc<str>)>,
}

/// Pods of one kind that were moved.
#[derive(Debug)]
struct MovedPods {
    kind: Kind,
    /// How many of the kind there were in the cluster.
    before: usize,
    /// Where they were to go.
    destinations: BTreeSet<MachineKind>,
}

/// Whether there are more pods of a kind than before a move. Each answer is kept: the whole snapshot is read for it.
struct Growth<'a> {
    snapshot: &'a Snapshot,
    known: Vec<(Kind, usize)>,
}

impl<'a> Growth<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            known: Vec::new(),
        }
    }

    fn is_more_than_before(&mut self, moved: &MovedPods) -> bool {
        let is_known = self.known.iter().any(|(kind, _)| *kind == moved.kind);
        if !is_known {
            self.known.extend(counts(self.snapshot, [&moved.kind]));
        }
        let mut known = self.known.iter();
        known.any(|(kind, now)| *kind == moved.kind && *now > moved.before)
    }
}

/// Moved pods of one kind that need machines again.
struct ReturnedPods {
    kind: Kind,
    /// The part of the price per hour of their new machines that falls to them.
    cost: Price,
    /// Where they had been moved.
    destinations: BTreeSet<MachineKind>,
}

impl Move {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) < WITHIN
    }

    fn has_moved(&self, kind: &Kind) -> bool {
        self.pods.iter().any(|moved| moved.kind == *kind)
    }

    /// Whether this pod needs a machine because of the move: it waits again, or has not left its node yet.
    fn displaced(&self, pod: &Pod) -> bool {
        let from_here = pod.node_name.as_ref().is_none_or(|node| self.from.contains(node));
        from_here && self.pods.iter().any(|moved| is_of(pod, &moved.kind))
    }

    /// The node that had room for a pod that waited.
    fn room_for(&self, pod: &Pod) -> Option<&Arc<str>> {
        let mut waiting = self.waiting.iter();
        waiting.find_map(|(uid, node)| (*uid == pod.uid).then_some(node))
    }

    /// The moved pods of which some were bound since to the node with room for this pod.
    fn took_the_room_of(&self, pod: &Pod, snapshot: &Snapshot) -> Vec<&MovedPods> {
        let Some(node) = self.room_for(pod).and_then(|node| snapshot.node(node)) else {
            return Vec::new();
        };
        let is_there = |moved: &&MovedPods| {
            let mut bound = node.own_pods();
            bound.any(|other| is_of(other, &moved.kind) && self.at.duration_since(other.created) < CREATION_ROUNDING)
        };
        self.pods.iter().filter(is_there).collect()
    }

    /// The moved pods because of which this pod needs a machine, if `launched` is when it was launched.
    fn cause(&self, pod: &Pod, launched: Timestamp, snapshot: &Snapshot) -> Vec<&MovedPods> {
        if launched < self.at || !self.is_recent(launched) {
            return Vec::new();
        }
        let mut cause = self.took_the_room_of(pod, snapshot);
        if cause.is_empty() && self.displaced(pod) {
            cause.extend(self.pods.iter().find(|moved| is_of(pod, &moved.kind)));
        }
        cause
    }
}

/// A machine provisioning launched.
#[derive(Debug)]
struct Launched {
    at: Timestamp,
    /// The pods it is for that were moved, or had room elsewhere before a move.
    pods: Vec<Arc<Pod>>,
    /// The part of its price per hour that falls to one pod.
    price_per_pod: Price,
}

#[derive(Debug)]
struct Undone {
    kind: Kind,
    destinations: BTreeSet<MachineKind>,
    surcharge: Price,
    repetitions: u32,
    until: Timestamp,
}

/// What was moved lately, and the moves that did not last.
#[derive(Debug, Default)]
pub struct ConsolidationBackOff {
    moves: Vec<Move>,
    /// Launches that were not compared with the moves yet.
    launched: Vec<Launched>,
    undone: Vec<Undone>,
}

impl ConsolidationBackOff {
    /// Records that a command moves the pods of the Nodes `from`, given its plan, the snapshot it was decided on and the time at which its start
    /// began.
    pub fn begun<'a>(
        &mut self,
        from: Vec<Arc<str>>,
        pods: impl IntoIterator<Item = &'a Arc<Pod>>,
        plan: Option<&Plan>,
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
        let pods = counts(snapshot, &kinds).into_iter().map(|(kind, before)| MovedPods {
            destinations: plan
                .map(|plan| MachineKind::of_destinations(snapshot, plan, &|pod| is_of(pod, &kind)))
                .unwrap_or_default(),
            kind,
            before,
        });
        let pods = pods.collect();
        let existing = plan.into_iter().flat_map(|plan| &plan.existing);
        let waiting = existing.flat_map(|placement| {
            let waiting = placement.pods.iter().filter(|pod| pod.node_name.is_none());
            waiting.map(|pod| (Arc::clone(&pod.uid), Arc::clone(&placement.node)))
        });
        let waiting = waiting.collect();
        self.moves.push(Move {
            at,
            from,
            pods,
            waiting,
        });
    }

    /// Whether nothing is remembered, so that nothing can expire.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.launched.is_empty() && self.undone.is_empty()
    }

    /// Records that provisioning launched a machine for these pods, and its price per hour if it is known.
    pub fn launched(&mut self, pods: &[Arc<Pod>], price: Option<Price>, at: Timestamp) {
        let recent = self.moves.iter().filter(|one| one.is_recent(at));
        let moved: Vec<&Move> = recent.collect();
        let concerns = |pod: &Pod| {
            moved
                .iter()
                .any(|one| one.displaced(pod) || one.room_for(pod).is_some())
        };
        let displaced = pods.iter().filter(|pod| concerns(pod));
        let displaced: Vec<Arc<Pod>> = displaced.cloned().collect();
        if !displaced.is_empty() {
            let (price, count) = (price.unwrap_or(Price::ZERO).pico(), pods.len().max(1));
            // At least the smallest amount, so that a machine of unknown price counts too.
            let share = (price / i64::try_from(count).unwrap_or(i64::MAX)).max(1);
            self.launched.push(Launched {
                at,
                pods: displaced,
                price_per_pod: Price::from_pico(share),
            });
        }
    }

    /// Finds the moves that new machines undo, and removes moves and undone moves that have expired.
    pub fn expire(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let returned = self.returned(snapshot);
        self.launched.clear();
        self.end_moves(&returned, now);
        for pods in returned {
            self.undone_again(pods, now);
        }
        let longest = SignedDuration::try_from(BACK_OFF_MAX).unwrap_or(SignedDuration::MAX);
        self.undone.retain(|undone| now.duration_since(undone.until) < longest);
    }

    /// The moved pods that new machines were launched for. If there are more pods of a kind than before the move, the machine is for those.
    fn returned<'a>(&'a self, snapshot: &Snapshot) -> Vec<ReturnedPods> {
        let mut growth = Growth::new(snapshot);
        let mut returned: Vec<ReturnedPods> = Vec::new();
        let of_each = |launched: &'a Launched| launched.pods.iter().map(move |pod| (launched, pod));
        for (launched, pod) in self.launched.iter().flat_map(of_each) {
            let mut causes = self.moves.iter().map(|one| {
                let mut cause = one.cause(pod, launched.at, snapshot);
                cause.retain(|moved| !growth.is_more_than_before(moved));
                cause
            });
            let cause = causes.find(|cause| !cause.is_empty()).unwrap_or_default();
            let kinds = i64::try_from(cause.len()).unwrap_or(i64::MAX);
            for moved in cause {
                let share = Price::from_pico((launched.price_per_pod.pico() / kinds).max(1));
                match returned.iter_mut().find(|known| known.kind == moved.kind) {
                    Some(known) => known.cost = known.cost + share,
                    None => returned.push(ReturnedPods {
                        kind: moved.kind.clone(),
                        cost: share,
                        destinations: moved.destinations.clone(),
                    }),
                }
            }
        }
        returned
    }

    /// Ends moves of which it is known whether they last: some of their pods came back, or none did for long.
    fn end_moves(&mut self, returned: &[ReturnedPods], now: Timestamp) {
        for one in std::mem::take(&mut self.moves) {
            if returned.iter().any(|pods| one.has_moved(&pods.kind)) {
                continue;
            }
            if one.is_recent(now) {
                self.moves.push(one);
            } else {
                // It lasted.
                self.undone
                    .retain(|undone| undone.until > now || !one.has_moved(&undone.kind));
            }
        }
    }

    /// Records an undone move: it counts for longer, and for more, than the one before.
    fn undone_again(&mut self, pods: ReturnedPods, now: Timestamp) {
        let ReturnedPods {
            kind,
            cost,
            destinations,
        } = pods;
        let known = self.undone.iter().position(|undone| undone.kind == kind);
        let mut undone = match known.map(|at| self.undone.swap_remove(at)) {
            Some(known) => known,
            None => Undone {
                kind,
                destinations: BTreeSet::new(),
                surcharge: Price::ZERO,
                repetitions: 0,
                until: now,
            },
        };
        undone.destinations.extend(destinations);
        undone.surcharge = undone.surcharge + cost;
        undone.repetitions = undone.repetitions.saturating_add(1);
        let counts_for = FIRST
            .saturating_mul(2_u32.saturating_pow(undone.repetitions - 1))
            .min(BACK_OFF_MAX);
        undone.until = now.checked_add(counts_for).unwrap_or(Timestamp::MAX);
        self.undone.push(undone);
    }

    /// The moves of the last ten minutes, but for those whose pods needed machines again.
    pub fn started(&self) -> Vec<StartedMove> {
        let moves = self.moves.iter().map(|one| StartedMove {
            at: one.at,
            nodes: one.from.len(),
        });
        moves.collect()
    }

    /// The undone moves that count at `now`.
    pub fn undone(&self, now: Timestamp) -> Vec<UndoneMove> {
        let active = self.undone.iter().filter(|undone| undone.until > now);
        let shown = active.map(|undone| UndoneMove {
            namespace: Arc::clone(&undone.kind.0),
            shape: Arc::clone(&undone.kind.1),
            destinations: Arc::new(undone.destinations.clone()),
            surcharge: undone.surcharge,
            until: undone.until,
        });
        shown.collect()
    }
}
