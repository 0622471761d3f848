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
/// Ends of back-offs within the same second count as equal.
const WINDOW: Millis = 1_000;

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

/// How pods to try are sorted: by priority, then by the time of their last attempt.
type Order = (Reverse<i32>, Millis, Number);

/// Unbound pods.
pub(super) struct SchedulingQueue {
    entries: Vec<Entry>,
    to_try: BinaryHeap<Reverse<Order>>,
    /// By the second in which the back-off ends. Where nothing else is to try, kube-scheduler does not wait for that (since version 1.33).
    backing_off: BinaryHeap<Reverse<(Millis, Order)>>,
    /// Pods that do not exist yet, by when they are created.
    future: BinaryHeap<Reverse<(Millis, Number)>>,
    /// By class: pods that no event has concerned since they were last tried.
    waiting: IdVec<PodClass, Vec<Number>>,
}

impl SchedulingQueue {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            entries: Vec::new(),
            to_try: BinaryHeap::new(),
            backing_off: BinaryHeap::new(),
            future: BinaryHeap::new(),
            waiting: IdVec::filled(Vec::new(), classes),
        }
    }

    /// Adds a pod that comes into being at a time. Of pods with the same priority and time, those that were added first are tried first.
    pub(super) fn add(&mut self, pod: PodId, class: ClassId, priority: i32, since: Millis) {
        let number = Number(self.entries.len());
        self.future.push(Reverse((since, number)));
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
        while let Some((_, number)) = pop_until(&mut self.future, now) {
            self.to_try.push(Reverse(self.order(number)));
        }
        while let Some((_, order)) = pop_until(&mut self.backing_off, window(now).saturating_sub(1)) {
            self.to_try.push(Reverse(order));
        }
        let early = || self.backing_off.pop().map(|Reverse((_, order))| Reverse(order));
        let Reverse((_, _, number)) = self.to_try.pop().or_else(early)?;
        let entry = &self.entries[number.0];
        Some((number, entry.pod, entry.class))
    }

    fn order(&self, number: Number) -> Order {
        let entry = &self.entries[number.0];
        (Reverse(entry.priority), entry.since, number)
    }

    /// Returns a pod that fits no node. It waits for an event.
    pub(super) fn put_back(&mut self, number: Number, now: Millis) {
        let entry = &mut self.entries[number.0];
        entry.failures += 1;
        entry.since = now;
        self.waiting[entry.class].push(number);
    }

    /// An event concerns the pods of a class: those that wait are tried again.
    pub(super) fn wake(&mut self, class: ClassId) {
        for number in std::mem::take(&mut self.waiting[class]) {
            let entry = &self.entries[number.0];
            let until = window(entry.since.saturating_add(entry.backoff()));
            self.backing_off.push(Reverse((until, self.order(number))));
        }
    }

    /// An event concerns all pods.
    pub(super) fn wake_all(&mut self) {
        self.waiting.ids().for_each(|class| self.wake(class));
    }

    /// When the next pod is created.
    pub(super) fn next_pod(&self) -> Option<Millis> {
        self.future.peek().map(|Reverse((at, _))| *at)
    }

    /// The pods that wait, in the order in which they were added.
    pub(super) fn left_over(&self) -> Vec<PodId> {
        let mut numbers: Vec<Number> = self.waiting.iter().flatten().copied().collect();
        numbers.sort_unstable();
        numbers.iter().map(|number| self.entries[number.0].pod).collect()
    }
}

/// Takes the first element of a heap if it is due.
fn pop_until<T: Ord + Copy>(heap: &mut BinaryHeap<Reverse<(Millis, T)>>, now: Millis) -> Option<(Millis, T)> {
    let Reverse(first) = heap.peek().copied()?;
    if first.0 > now {
        return None;
    }
    heap.pop();
    Some(first)
}

/// The start of the second that contains a time.
fn window(at: Millis) -> Millis {
    at.saturating_sub(at.rem_euclid(WINDOW))
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
        assert_eq!(queue.next_pod(), Some(10));
        assert_eq!(tried(&mut queue, 10), [3]);
        let left: Vec<usize> = queue.left_over().iter().map(|pod| pod.index()).collect();
        assert_eq!(left, [0, 1, 2, 3]);
    }

    #[test]
    fn a_pod_that_fits_nowhere_waits_for_an_event_and_then_not_for_its_back_off() {
        let mut queue = SchedulingQueue::new(1);
        queue.add(Id::new(0), Id::new(0), 0, 0);
        assert_eq!(tried(&mut queue, 0), [0]);
        assert_eq!(tried(&mut queue, 60_000), [], "no event");
        for _ in 0..9 {
            queue.wake_all();
            assert_eq!(tried(&mut queue, 60_000), [0]);
        }
    }

    /// Back-offs of 1, 2, 4, 8, 10 and 10 seconds decide who is first, after pods that were never tried.
    #[test]
    fn pods_in_back_off_are_tried_in_the_order_in_which_it_ends() {
        for (failures, backoff) in (1..).zip([1_000, 2_000, 4_000, 8_000, 10_000, 10_000]) {
            for (tried_at, expected) in [(backoff - 2_000, [2, 1, 0]), (backoff, [2, 0, 1])] {
                let mut queue = SchedulingQueue::new(1);
                queue.add(Id::new(0), Id::new(0), 0, 0);
                for _ in 0..failures {
                    assert_eq!(tried(&mut queue, 0), [0]);
                    queue.wake_all();
                }
                // This one fails for the first time, so its back-off is a second.
                queue.add(Id::new(1), Id::new(0), 0, tried_at);
                let (number, pod, _) = queue.next(tried_at).expect("a pod that was never tried");
                assert_eq!(pod.index(), 1);
                queue.put_back(number, tried_at);
                queue.wake_all();
                queue.add(Id::new(2), Id::new(0), 0, tried_at);
                assert_eq!(tried(&mut queue, tried_at), expected, "{failures} {tried_at}");
            }
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
