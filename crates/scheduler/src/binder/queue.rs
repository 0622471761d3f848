//! kube-scheduler's queue: pods to try, pods in back-off after a failed attempt, and pods that wait for an event.

use crate::compile::classes::{ClassId, PodClass};
use crate::compile::queue::PodId;
use crate::dense::ids::IdVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Milliseconds: a time counted from the plan, negative before it, or how long something takes.
pub type Millis = i64;

/// The back-off after the first failed attempt, which doubles with each further one, and the longest: kube-scheduler's defaults of
/// `podInitialBackoffSeconds` and `podMaxBackoffSeconds`.
const BACKOFF_MIN: Millis = 1_000;
const BACKOFF_MAX: Millis = 10_000;
/// With so many failed attempts the back-off is at its maximum.
const DOUBLINGS_MAX: u32 = 4;

/// The number of a pod in the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Number(usize);

/// A pod that was added to the queue.
struct Entry {
    pod: PodId,
    class: ClassId,
    priority: i32,
    failures: u32,
    /// When the pod came into being or was last tried.
    since: Millis,
}

impl Entry {
    fn backoff(&self) -> Millis {
        match self.failures.checked_sub(1) {
            None => 0,
            Some(doublings) => BACKOFF_MAX.min(BACKOFF_MIN << doublings.min(DOUBLINGS_MAX)),
        }
    }
}

/// Unbound pods. Those to try are sorted by priority, then by the time of their last attempt.
pub(super) struct SchedulingQueue {
    entries: Vec<Entry>,
    to_try: BinaryHeap<Reverse<(Reverse<i32>, Millis, Number)>>,
    /// By the time at which the back-off ends. Pods that do not exist yet are here, too.
    backing_off: BinaryHeap<Reverse<(Millis, Number)>>,
    /// By class: pods that no event has concerned since they were last tried.
    waiting: IdVec<PodClass, Vec<Number>>,
}

impl SchedulingQueue {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            entries: Vec::new(),
            to_try: BinaryHeap::new(),
            backing_off: BinaryHeap::new(),
            waiting: IdVec::filled(Vec::new(), classes),
        }
    }

    /// Adds a pod that comes into being at a time. Of pods with the same priority and time, those that were added first are tried first.
    pub(super) fn add(&mut self, pod: PodId, class: ClassId, priority: i32, since: Millis) {
        let number = Number(self.entries.len());
        self.backing_off.push(Reverse((since, number)));
        self.entries.push(Entry {
            pod,
            class,
            priority,
            failures: 0,
            since,
        });
    }

    /// Takes the next pod to try.
    pub(super) fn next(&mut self, now: Millis) -> Option<(Number, PodId, ClassId)> {
        while let Some(Reverse((until, number))) = self.backing_off.peek().copied()
            && until <= now
        {
            self.backing_off.pop();
            let entry = &self.entries[number.0];
            self.to_try
                .push(Reverse((Reverse(entry.priority), entry.since, number)));
        }
        let Reverse((_, _, number)) = self.to_try.pop()?;
        let entry = &self.entries[number.0];
        Some((number, entry.pod, entry.class))
    }

    /// Returns a pod that fits no node. It waits for an event.
    pub(super) fn put_back(&mut self, number: Number, now: Millis) {
        let entry = &mut self.entries[number.0];
        entry.failures += 1;
        entry.since = now;
        self.waiting[entry.class].push(number);
    }

    /// An event concerns the pods of a class: those that wait are tried after their back-off.
    pub(super) fn wake(&mut self, class: ClassId) {
        for number in std::mem::take(&mut self.waiting[class]) {
            let entry = &self.entries[number.0];
            let until = entry.since.saturating_add(entry.backoff());
            self.backing_off.push(Reverse((until, number)));
        }
    }

    /// An event concerns all pods.
    pub(super) fn wake_all(&mut self) {
        self.waiting.ids().for_each(|class| self.wake(class));
    }

    /// When the next back-off ends.
    pub(super) fn next_end(&self) -> Option<Millis> {
        self.backing_off.peek().map(|Reverse((until, _))| *until)
    }

    /// The pods that wait, in the order in which they were added.
    pub(super) fn left_over(&self) -> Vec<PodId> {
        let mut numbers: Vec<Number> = self.waiting.iter().flatten().copied().collect();
        numbers.sort_unstable();
        numbers.iter().map(|number| self.entries[number.0].pod).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::ids::Id;

    /// The pods that are tried, as indices, until none is left to try now.
    fn tried(queue: &mut SchedulingQueue, now: Millis) -> Vec<usize> {
        let mut tried = Vec::new();
        while let Some((number, pod, _)) = queue.next(now) {
            tried.push(pod.index());
            queue.put_back(number, now);
        }
        tried
    }

    #[test]
    fn priority_comes_first_then_age() {
        let mut queue = SchedulingQueue::new(1);
        for (pod, (priority, since)) in [(0, -1000), (0, -2000), (5, -500), (0, 10)].into_iter().enumerate() {
            queue.add(Id::new(pod), Id::new(0), priority, since);
        }
        assert_eq!(tried(&mut queue, 0), [2, 1, 0]);
        assert_eq!(queue.next_end(), Some(10));
        assert_eq!(tried(&mut queue, 10), [3]);
        let left: Vec<usize> = queue.left_over().iter().map(|pod| pod.index()).collect();
        assert_eq!(left, [0, 1, 2, 3]);
    }

    #[test]
    fn a_pod_that_fits_nowhere_waits_for_an_event_and_for_its_back_off() {
        let mut queue = SchedulingQueue::new(1);
        queue.add(Id::new(0), Id::new(0), 0, 0);
        let mut now = 0;
        for backoff in [1000, 2000, 4000, 8000, 10_000, 10_000] {
            assert_eq!(tried(&mut queue, now), [0]);
            assert_eq!(tried(&mut queue, now + 60_000), [], "no event");
            queue.wake_all();
            assert_eq!(queue.next_end(), Some(now + backoff));
            assert_eq!(tried(&mut queue, now + backoff - 1), []);
            now += backoff;
        }
    }

    #[test]
    fn an_event_of_one_class_wakes_no_other() {
        let mut queue = SchedulingQueue::new(2);
        queue.add(Id::new(0), Id::new(0), 0, 0);
        queue.add(Id::new(1), Id::new(1), 0, 0);
        assert_eq!(tried(&mut queue, 0), [0, 1]);
        queue.wake(Id::new(1));
        assert_eq!(tried(&mut queue, 5000), [1]);
    }
}
