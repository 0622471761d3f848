//! Back-off of consolidation after moves that did not last (deviation at DIS-119).
//!
//! Consolidation plans where evicted pods go, but kube-scheduler decides: it may fill the place meant for a large pod with small ones. Then
//! provisioning launches a machine like the one that was removed, and the same move would be tried again. So a move of such pods onto such
//! machines has to save more than that machine costs, for a time that doubles after each repetition. Moves that save more than that, such as
//! those of many nodes together, stay possible. Machines launched for another reason do not count: replacements of other commands, machines
//! for pods of nodes that go by themselves, and machines for more pods than there were before the move.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::in_flight::{MachineKind, UndoneMove};
use crate::plan::Plan;
use crate::pod::{Pod, PodShape};
use crate::price::Price;
use crate::snapshot::Snapshot;
use jiff::{SignedDuration, Timestamp};

/// How long after a command began a new machine for its pods may be due to it.
const WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// How long the first undone move counts.
const FIRST: Duration = Duration::from_secs(15 * 60);
/// The longest an undone move counts.
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
    /// What was moved.
    pods: Vec<MovedPods>,
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

impl Move {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) < WITHIN
    }

    /// Whether the move is why this pod needs a machine: it came back, or has not even left.
    fn displaced(&self, pod: &Pod) -> bool {
        let from_here = pod.node_name.as_ref().is_none_or(|node| self.from.contains(node));
        from_here && self.pods.iter().any(|moved| is_of(pod, &moved.kind))
    }
}

/// A machine provisioning launched.
#[derive(Debug)]
struct Launched {
    at: Timestamp,
    /// The pods it is for that were moved.
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
    /// Not looked at yet.
    launched: Vec<Launched>,
    undone: Vec<Undone>,
}

impl ConsolidationBackOff {
    /// Notes that a command moves the pods of the Nodes `from`, given its plan, the snapshot it was decided on and the time at which its start
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
        self.moves.push(Move { at, from, pods });
    }

    /// Whether nothing is remembered, so that nothing can expire.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.launched.is_empty() && self.undone.is_empty()
    }

    /// Notes that provisioning launched a machine for these pods, and its price per hour if it is known.
    pub fn launched(&mut self, pods: &[Arc<Pod>], price: Option<Price>, at: Timestamp) {
        let recent = self.moves.iter().filter(|one| one.is_recent(at));
        let moved: Vec<&Move> = recent.collect();
        let displaced = pods.iter().filter(|pod| moved.iter().any(|one| one.displaced(pod)));
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

    /// Finds the pods that came back onto new machines, and ends moves and undone moves whose time has come. If there are more pods of a kind than before the move, the machine is for those.
    pub fn expire(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let mut back: Vec<(Kind, Price, BTreeSet<MachineKind>)> = Vec::new();
        for launched in std::mem::take(&mut self.launched) {
            for pod in &launched.pods {
                if let Some((_, cost, _)) = back.iter_mut().find(|(known, _, _)| is_of(pod, known)) {
                    *cost = *cost + launched.price_per_pod;
                    continue;
                }
                let mut moves = self.moves.iter();
                if let Some(moved) = moves.find_map(|one| came_back(pod, launched.at, one, snapshot)) {
                    back.push((kind(pod), launched.price_per_pod, moved.destinations.clone()));
                }
            }
        }
        // Whether a move lasts is known once any of its pods came back, or none did for long.
        for one in std::mem::take(&mut self.moves) {
            let moved = |kind: &Kind| one.pods.iter().any(|moved| moved.kind == *kind);
            if back.iter().any(|(kind, _, _)| moved(kind)) {
                continue;
            }
            if one.is_recent(now) {
                self.moves.push(one);
            } else {
                // It lasted.
                self.undone.retain(|undone| undone.until > now || !moved(&undone.kind));
            }
        }
        for (kind, cost, destinations) in back {
            self.undone_again(kind, cost, destinations, now);
        }
        let longest = SignedDuration::try_from(LONGEST).unwrap_or(SignedDuration::MAX);
        self.undone.retain(|undone| now.duration_since(undone.until) < longest);
    }

    /// Notes an undone move: it counts for longer, and for more, than the one before.
    fn undone_again(&mut self, kind: Kind, cost: Price, destinations: BTreeSet<MachineKind>, now: Timestamp) {
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
            .min(LONGEST);
        undone.until = now.checked_add(counts_for).unwrap_or(Timestamp::MAX);
        self.undone.push(undone);
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

/// The pods that were moved, if a machine launched for this pod undoes the move.
fn came_back<'a>(pod: &Pod, launched: Timestamp, one: &'a Move, snapshot: &Snapshot) -> Option<&'a MovedPods> {
    let moved = one.pods.iter().find(|moved| is_of(pod, &moved.kind))?;
    let grown = || {
        counts(snapshot, [&moved.kind])
            .iter()
            .any(|(_, now)| *now > moved.before)
    };
    let due_to_it = one.at <= launched && one.is_recent(launched) && one.displaced(pod) && !grown();
    due_to_it.then_some(moved)
}
