//! Which pod is tried next: the most important, then the longest waiting; those that failed come back when something changed.

use crate::store::key_of;
use k8s_openapi::api::core::v1::Pod;
use kerf_runtime::{Backoff, ObjectKey};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// As kube-scheduler has it.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
/// How long a pod that cannot be placed waits though nothing changed.
const UNSCHEDULABLE_MAX: Duration = Duration::from_secs(300);

/// What changed in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wake {
    All,
    /// Only pods with volumes can profit.
    Volumes,
}

#[derive(Clone, Debug)]
struct Entry {
    order: (Reverse<i32>, u64),
    place: Place,
    attempts: u32,
    tried_at: Instant,
    with_volumes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Active,
    /// Backing off until then.
    Until(Instant),
    /// Waiting for a change, at most until then.
    Unschedulable(Instant),
    /// Being tried; true if something changed meanwhile.
    Tried(bool),
}

#[derive(Default)]
pub(super) struct Queue {
    entries: BTreeMap<ObjectKey, Entry>,
    active: BTreeSet<((Reverse<i32>, u64), ObjectKey)>,
    arrivals: u64,
}

pub(super) async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Queue {
    /// A pod that waits; one known already is tried again soon only if it `changed`.
    pub(super) fn add(&mut self, pod: &Pod, changed: bool) {
        let key = key_of(pod);
        let known = self.entries.contains_key(&key);
        if known && !changed {
            return;
        }
        if known {
            self.activate(&key);
            return;
        }
        self.arrivals += 1;
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        let entry = Entry {
            order: (Reverse(priority), self.arrivals),
            place: Place::Active,
            attempts: 0,
            tried_at: Instant::now(),
            with_volumes: !crate::volumes::claim_names(pod).is_empty(),
        };
        self.active.insert((entry.order, key.clone()));
        self.entries.insert(key, entry);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.active.remove(&(entry.order, key.clone()));
        }
    }

    fn activate(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        match entry.place {
            Place::Active => {}
            Place::Tried(_) => entry.place = Place::Tried(true),
            Place::Until(_) | Place::Unschedulable(_) => {
                entry.place = Place::Active;
                self.active.insert((entry.order, key.clone()));
            }
        }
    }

    /// Something changed: pods that could not be placed are tried again once their back-off is over.
    pub(super) fn wake(&mut self, wake: Wake) {
        for entry in self
            .entries
            .values_mut()
            .filter(|entry| wake == Wake::All || entry.with_volumes)
        {
            match entry.place {
                Place::Unschedulable(_) => entry.place = Place::Until(entry.tried_at + BACKOFF.delay(entry.attempts)),
                Place::Tried(_) => entry.place = Place::Tried(true),
                Place::Active | Place::Until(_) => {}
            }
        }
    }

    fn promote(&mut self) {
        let now = Instant::now();
        for (key, entry) in &mut self.entries {
            if let Place::Until(due) | Place::Unschedulable(due) = entry.place
                && due <= now
            {
                entry.place = Place::Active;
                self.active.insert((entry.order, key.clone()));
            }
        }
    }

    /// The next pod to try.
    pub(super) fn next(&mut self) -> Option<ObjectKey> {
        if self.active.is_empty() {
            self.promote();
        }
        let (_, key) = self.active.pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        entry.place = Place::Tried(false);
        entry.tried_at = Instant::now();
        Some(key)
    }

    /// The pod could not be placed.
    pub(super) fn failed(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.attempts = entry.attempts.saturating_add(1);
        let backoff = Instant::now() + BACKOFF.delay(entry.attempts);
        entry.place = match entry.place {
            Place::Tried(true) => Place::Until(backoff),
            _ => Place::Unschedulable(Instant::now() + UNSCHEDULABLE_MAX),
        };
    }

    /// The attempt could not be finished; try again after the back-off.
    pub(super) fn again(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.attempts = entry.attempts.saturating_add(1);
        entry.place = Place::Until(Instant::now() + BACKOFF.delay(entry.attempts));
    }

    /// When the next waiting pod is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = |entry: &Entry| match entry.place {
            Place::Until(due) | Place::Unschedulable(due) => Some(due),
            Place::Active | Place::Tried(_) => None,
        };
        self.entries.values().filter_map(due).min()
    }
}
