//! Back-off of consolidation after moves that did not last (deviation at DIS-119).
//!
//! Consolidation plans where evicted pods go, but kube-scheduler decides: it may fill the place meant for a large pod with small ones, or
//! bind evicted pods where there was room for a pending one. Then provisioning launches a machine like the one that was removed, and the
//! same move would be tried again. So for each pod of the kind that a move takes to such machines again, it has to save what the new machines
//! cost per pod that was moved, for a time that doubles after each repetition. The same move then has to save what it caused, and one of which
//! most pods stayed where they went may soon be repeated. If it is undone again within that time, it has to save the sum of what it caused.
//! If the number of such pods has changed since the last move, the time begins anew: the cluster is another one.
//!
//! Machines launched for another reason do not count: replacements of other commands, machines for pods of nodes that go by themselves, and
//! machines for other workloads or for more pods than there were before the move.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::in_flight::{MachineKind, StartedMove, UndoneMove};
use crate::plan::Plan;
use crate::pod::{Pod, PodShape};
use crate::price::Price;
use crate::selector::LabelSet;
use crate::snapshot::Snapshot;
use jiff::{SignedDuration, Timestamp};

/// How long after a command began a new machine for its pods may be due to it.
const WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// How much older than a move the successor of an evicted pod may seem: times of creation are cut to whole seconds.
const CREATION_ROUNDING: SignedDuration = SignedDuration::from_secs(1);
/// How long the first undone move counts. In clusters whose load changes, most moves that are undone would last if they were tried again:
/// docs/packing.md has what longer times cost in the bench `day`.
const FIRST: Duration = Duration::from_secs(60);
/// The longest an undone move counts.
const BACK_OFF_MAX: Duration = Duration::from_secs(3600);

/// Pods of one namespace that are equal for placement; workloads with equal requests are one kind.
type Kind = (Arc<str>, Arc<PodShape>);

/// Pods of one kind and with equal labels, as the replicas of one revision of a workload are.
#[derive(Clone, PartialEq, Debug)]
struct Replicas {
    kind: Kind,
    labels: Arc<LabelSet>,
}

impl Replicas {
    fn of(pod: &Pod) -> Self {
        Self {
            kind: (Arc::clone(&pod.namespace), Arc::clone(&pod.shape)),
            labels: Arc::clone(&pod.labels),
        }
    }

    fn have_kind_of(&self, pod: &Pod) -> bool {
        pod.namespace == self.kind.0 && pod.shape == self.kind.1
    }

    fn contain(&self, pod: &Pod) -> bool {
        self.have_kind_of(pod) && pod.labels == self.labels
    }
}

/// How many pods there are in the cluster.
#[derive(Clone, Copy, Default, Debug)]
struct PodCount {
    replicas: usize,
    /// Pods of the kind of these replicas.
    of_kind: usize,
}

/// How many pods there are of each of these.
fn counts<'a>(snapshot: &Snapshot, of: impl IntoIterator<Item = &'a Replicas>) -> Vec<(Replicas, PodCount)> {
    let bound = snapshot.nodes.iter().flat_map(|node| node.own_pods());
    let none = |replicas: &Replicas| (replicas.clone(), PodCount::default());
    let mut all: Vec<(Replicas, PodCount)> = of.into_iter().map(none).collect();
    for pod in bound.chain(&snapshot.pending).filter(|pod| pod.is_active()) {
        for (known, count) in all.iter_mut().filter(|(known, _)| known.have_kind_of(pod)) {
            count.of_kind += 1;
            count.replicas += usize::from(pod.labels == known.labels);
        }
    }
    all
}

/// One of `parts` equal parts of a price, rounded up: the parts together are not less than the whole.
fn part(whole: Price, parts: usize) -> Price {
    let parts = i64::try_from(parts.max(1)).unwrap_or(i64::MAX);
    let rest = i64::from(whole.pico() % parts > 0);
    Price::from_pico(whole.pico() / parts + rest)
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

/// Replicas that were moved.
#[derive(Debug)]
struct MovedPods {
    replicas: Replicas,
    /// How many were moved.
    count: usize,
    /// How many there were.
    before: PodCount,
    /// Where they were to go.
    destinations: BTreeSet<MachineKind>,
}

/// Whether there are more replicas than before a move. Each answer is kept: the whole snapshot is read for it.
struct Growth<'a> {
    snapshot: &'a Snapshot,
    known: Vec<(Replicas, PodCount)>,
}

impl<'a> Growth<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            known: Vec::new(),
        }
    }

    fn is_more_than_before(&mut self, moved: &MovedPods) -> bool {
        let is_known = self.known.iter().any(|(replicas, _)| *replicas == moved.replicas);
        if !is_known {
            self.known.extend(counts(self.snapshot, [&moved.replicas]));
        }
        let mut known = self.known.iter();
        known.any(|(replicas, now)| *replicas == moved.replicas && now.replicas > moved.before.replicas)
    }
}

/// Moved pods of one kind that need machines again.
struct ReturnedPods {
    kind: Kind,
    /// The part of the price per hour of their new machines that falls to them.
    cost: Price,
    /// Where they had been moved.
    destinations: BTreeSet<MachineKind>,
    /// How many pods of the kind there were before they were moved.
    before: usize,
}

impl Move {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) < WITHIN
    }

    /// How many pods of a kind it moved.
    fn count(&self, kind: &Kind) -> usize {
        let of_kind = self.pods.iter().filter(|moved| moved.replicas.kind == *kind);
        of_kind.map(|moved| moved.count).sum()
    }

    /// Whether this pod needs a machine because of the move: it waits again, or has not left its node yet.
    fn displaced(&self, pod: &Pod) -> bool {
        let from_here = pod.node_name.as_ref().is_none_or(|node| self.from.contains(node));
        from_here && self.pods.iter().any(|moved| moved.replicas.contain(pod))
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
            bound
                .any(|other| moved.replicas.contain(other) && self.at.duration_since(other.created) < CREATION_ROUNDING)
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
            cause.extend(self.pods.iter().find(|moved| moved.replicas.contain(pod)));
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
    surcharge_per_pod: Price,
    repetitions: u32,
    /// How many pods of the kind there were before the last such move.
    before: usize,
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
        let mut moved: Vec<(Replicas, usize)> = Vec::new();
        for pod in pods {
            match moved.iter_mut().find(|(known, _)| known.contain(pod)) {
                Some((_, count)) => *count += 1,
                None => moved.push((Replicas::of(pod), 1)),
            }
        }
        let before = counts(snapshot, moved.iter().map(|(replicas, _)| replicas));
        let pods = moved
            .into_iter()
            .zip(before)
            .map(|((replicas, count), (_, before))| MovedPods {
                destinations: plan
                    .map(|plan| MachineKind::of_destinations(snapshot, plan, &|pod| replicas.contain(pod)))
                    .unwrap_or_default(),
                replicas,
                count,
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
            // At least the smallest amount, so that a machine of unknown price counts too.
            let price = price.unwrap_or(Price::ZERO).max(Price::from_pico(1));
            self.launched.push(Launched {
                at,
                pods: displaced,
                price_per_pod: part(price, pods.len()),
            });
        }
    }

    /// Finds the moves that new machines undo, and removes moves and undone moves that have expired.
    pub fn expire(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let returned = self.returned(snapshot);
        self.launched.clear();
        let moved: Vec<usize> = returned.iter().map(|pods| self.moved(&pods.kind)).collect();
        self.end_moves(&returned, now);
        for (pods, moved) in returned.into_iter().zip(moved) {
            self.undone_again(pods, moved, now);
        }
        let longest = SignedDuration::try_from(BACK_OFF_MAX).unwrap_or(SignedDuration::MAX);
        self.undone.retain(|undone| now.duration_since(undone.until) < longest);
    }

    /// How many pods of a kind were moved lately.
    fn moved(&self, kind: &Kind) -> usize {
        self.moves.iter().map(|one| one.count(kind)).sum()
    }

    /// The moved pods that new machines were launched for. If there are more replicas than before the move, the machine is for those.
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
            let share = part(launched.price_per_pod, cause.len());
            for moved in cause {
                match returned.iter_mut().find(|known| known.kind == moved.replicas.kind) {
                    Some(known) => known.cost = known.cost + share,
                    None => returned.push(ReturnedPods {
                        kind: moved.replicas.kind.clone(),
                        cost: share,
                        destinations: moved.destinations.clone(),
                        before: moved.before.of_kind,
                    }),
                }
            }
        }
        returned
    }

    /// Ends moves of which it is known whether they last: some of their pods came back, or none did for long.
    fn end_moves(&mut self, returned: &[ReturnedPods], now: Timestamp) {
        for one in std::mem::take(&mut self.moves) {
            if returned.iter().any(|pods| one.count(&pods.kind) > 0) {
                continue;
            }
            if one.is_recent(now) {
                self.moves.push(one);
            } else {
                // It lasted.
                self.undone
                    .retain(|undone| undone.until > now || one.count(&undone.kind) == 0);
            }
        }
    }

    /// Records that some of the `moved` pods came back: this counts for longer than the last time.
    fn undone_again(&mut self, pods: ReturnedPods, moved: usize, now: Timestamp) {
        let ReturnedPods {
            kind,
            cost,
            destinations,
            before,
        } = pods;
        let known = self.undone.iter().position(|undone| undone.kind == kind);
        let mut undone = match known.map(|at| self.undone.swap_remove(at)) {
            Some(known) => known,
            None => Undone {
                kind,
                destinations: BTreeSet::new(),
                surcharge_per_pod: Price::ZERO,
                repetitions: 0,
                before,
                until: now,
            },
        };
        if undone.before != before {
            (undone.before, undone.repetitions) = (before, 0);
        }
        undone.destinations.extend(destinations);
        let cost = part(cost, moved);
        // It was repeated although it had to save this much: so that was too little, as when a launch costs more than planned.
        undone.surcharge_per_pod = match undone.until > now {
            true => undone.surcharge_per_pod + cost,
            false => undone.surcharge_per_pod.max(cost),
        };
        undone.repetitions = undone.repetitions.saturating_add(1);
        let counts_for = FIRST
            .saturating_mul(2_u32.saturating_pow(undone.repetitions - 1))
            .min(BACK_OFF_MAX);
        // Beginning anew does not cut short a time that still runs.
        let until = now.checked_add(counts_for).unwrap_or(Timestamp::MAX);
        undone.until = undone.until.max(until);
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
            surcharge_per_pod: undone.surcharge_per_pod,
            until: undone.until,
        });
        shown.collect()
    }
}
