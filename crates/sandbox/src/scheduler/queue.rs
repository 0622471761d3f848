//! The scheduling queue: pods by priority, then by age. An unschedulable pod is tried again after a change in the cluster that can help it, and
//! as kube-scheduler does it since version 1.33: where no other pod is to be tried, at once instead of after its back-off.

use crate::store::key_of;
use k8s_openapi::api::core::v1::Pod;
use kerf_runtime::{Backoff, ObjectKey};
use kube::ResourceExt;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// The back-off of kube-scheduler.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
/// Longest time an unschedulable pod waits when nothing changes, as in kube-scheduler.
const UNSCHEDULABLE_MAX: Duration = Duration::from_secs(300);

/// What changed in the cluster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Wake<'a> {
    All,
    /// A change that can help only pods with volumes.
    Volumes,
    /// A pod was bound, which can help only pods with affinity to it, and those that are spread with it.
    Bound(&'a Pod),
}

#[derive(Clone, Debug)]
struct Entry {
    order: Order,
    place: QueueState,
    attempts: u32,
    tried_at: Instant,
    with_volumes: bool,
    neighbours: Neighbours,
}

/// The pods on which it depends where a pod may go.
#[derive(Clone, Debug)]
enum Neighbours {
    /// Those with all labels of one of these selectors, in any namespace.
    Labelled(Vec<BTreeMap<String, String>>),
    Any,
}

impl Neighbours {
    fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let affinity = spec.and_then(|spec| spec.affinity.as_ref());
        let constraints = spec.and_then(|spec| spec.topology_spread_constraints.as_ref());
        let selectors = constraints
            .into_iter()
            .flatten()
            .filter_map(|constraint| constraint.label_selector.as_ref());
        if affinity.is_some_and(|affinity| affinity.pod_affinity.is_some())
            || selectors.clone().any(|selector| selector.match_expressions.is_some())
        {
            return Self::Any;
        }
        Self::Labelled(
            selectors
                .map(|selector| selector.match_labels.clone().unwrap_or_default())
                .collect(),
        )
    }

    fn include(&self, pod: &Pod) -> bool {
        match self {
            Self::Labelled(selectors) => selectors.iter().any(|selector| {
                let has = |(key, value): (&String, &String)| pod.labels().get(key) == Some(value);
                selector.iter().all(has)
            }),
            Self::Any => true,
        }
    }
}

impl Entry {
    fn profits(&self, wake: Wake<'_>) -> bool {
        match wake {
            Wake::All => true,
            Wake::Volumes => self.with_volumes,
            Wake::Bound(pod) => self.neighbours.include(pod),
        }
    }
}

/// Sorts by priority, highest first, then by arrival.
type Order = (Reverse<i32>, u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QueueState {
    Active,
    /// Backing off until then, or until no other pod is to be tried.
    Until(Instant),
    /// Backing off after an error, until then.
    UntilAfterError(Instant),
    /// Waiting for a change, at most until then.
    Unschedulable(Instant),
    /// In a scheduling attempt; true if the cluster changed since it began.
    Tried(bool),
}

/// A step costs time only for the pods it moves, because most changes help none of the waiting pods.
#[derive(Default)]
pub(super) struct Queue {
    entries: BTreeMap<ObjectKey, Entry>,
    active: BTreeSet<(Order, ObjectKey)>,
    /// Pods that back off or wait for a change, by when they are tried at the latest.
    timed: BTreeSet<(Instant, ObjectKey)>,
    /// Those of them that are tried earlier where no other pod is to be tried.
    woken: BTreeSet<(Instant, Order, ObjectKey)>,
    /// Pods that wait for a change.
    unschedulable: BTreeSet<ObjectKey>,
    /// The pods being tried.
    tried: BTreeSet<ObjectKey>,
    arrivals: u64,
}

pub(super) async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Queue {
    /// Adds a pod. A pod that is queued already is tried again soon only if it `changed`.
    pub(super) fn add(&mut self, pod: &Pod, changed: bool) {
        let key = key_of(pod);
        match self.entries.get(&key).map(|entry| entry.place) {
            Some(_) if !changed => {}
            Some(QueueState::Tried(_)) => self.put(&key, QueueState::Tried(true)),
            Some(_) => self.put(&key, QueueState::Active),
            None => {
                self.arrivals += 1;
                let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
                let entry = Entry {
                    order: (Reverse(priority), self.arrivals),
                    place: QueueState::Active,
                    attempts: 0,
                    tried_at: Instant::now(),
                    with_volumes: !crate::volumes::claim_names(pod).is_empty(),
                    neighbours: Neighbours::of(pod),
                };
                self.entries.insert(key.clone(), entry);
                self.put(&key, QueueState::Active);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.unlist(key, &entry);
        }
    }

    /// Moves a pod.
    fn put(&mut self, key: &ObjectKey, place: QueueState) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let before = std::mem::replace(&mut entry.place, place);
        let now = entry.clone();
        self.unlist(key, &Entry { place: before, ..now });
        let key = key.clone();
        match place {
            QueueState::Active => {
                self.active.insert((now.order, key));
            }
            QueueState::Until(due) => {
                self.timed.insert((due, key.clone()));
                self.woken.insert((due, now.order, key));
            }
            QueueState::UntilAfterError(due) => {
                self.timed.insert((due, key));
            }
            QueueState::Unschedulable(due) => {
                self.timed.insert((due, key.clone()));
                self.unschedulable.insert(key);
            }
            QueueState::Tried(_) => {
                self.tried.insert(key);
            }
        }
    }

    /// Removes a pod from the lists of its queue state.
    fn unlist(&mut self, key: &ObjectKey, entry: &Entry) {
        match entry.place {
            QueueState::Active => {
                self.active.remove(&(entry.order, key.clone()));
            }
            QueueState::Until(due) => {
                self.timed.remove(&(due, key.clone()));
                self.woken.remove(&(due, entry.order, key.clone()));
            }
            QueueState::UntilAfterError(due) => {
                self.timed.remove(&(due, key.clone()));
            }
            QueueState::Unschedulable(due) => {
                self.timed.remove(&(due, key.clone()));
                self.unschedulable.remove(key);
            }
            QueueState::Tried(_) => {
                self.tried.remove(key);
            }
        }
    }

    /// Reacts to a change: unschedulable pods that profit are tried again.
    pub(super) fn wake(&mut self, wake: Wake<'_>) {
        for key in &self.tried {
            if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.profits(wake)) {
                entry.place = QueueState::Tried(true);
            }
        }
        let profits = |key: &&ObjectKey| self.entries.get(*key).is_some_and(|entry| entry.profits(wake));
        let woken: Vec<ObjectKey> = self.unschedulable.iter().filter(profits).cloned().collect();
        for key in woken {
            if let Some(entry) = self.entries.get(&key) {
                let due = entry.tried_at + BACKOFF.delay(entry.attempts);
                self.put(&key, QueueState::Until(due));
            }
        }
    }

    /// The next pod to try.
    pub(super) fn next(&mut self) -> Option<ObjectKey> {
        let now = Instant::now();
        if self.active.is_empty() {
            while let Some((_, key)) = self.timed.first().filter(|(due, _)| *due <= now).cloned() {
                self.put(&key, QueueState::Active);
            }
        }
        let active = self.active.first().map(|(_, key)| key);
        let woken = self.woken.first().map(|(_, _, key)| key);
        let key = active.or(woken)?.clone();
        self.put(&key, QueueState::Tried(false));
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.tried_at = now;
        }
        Some(key)
    }

    /// Records that no node fits the pod.
    pub(super) fn failed(&mut self, key: &ObjectKey) {
        let now = Instant::now();
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.attempts = entry.attempts.saturating_add(1);
        let place = match entry.place {
            QueueState::Tried(true) => QueueState::Until(now + BACKOFF.delay(entry.attempts)),
            _ => QueueState::Unschedulable(now + UNSCHEDULABLE_MAX),
        };
        self.put(key, place);
    }

    /// Records that the attempt failed with an error; the pod is tried again after the back-off.
    pub(super) fn again(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.attempts = entry.attempts.saturating_add(1);
        let place = QueueState::UntilAfterError(Instant::now() + BACKOFF.delay(entry.attempts));
        self.put(key, place);
    }

    /// When the next waiting pod is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.timed.first().map(|(due, _)| *due)
    }
}
