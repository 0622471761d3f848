//! When a batch of pods is complete (section 3 of `docs/behaviour/scheduling.md`).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The window in which triggers are collected, as a state machine over time since some start.
#[derive(Debug)]
pub(crate) struct BatchWindow {
    idle: Duration,
    max: Duration,
    /// Keys since the last window closed.
    seen: BTreeSet<Arc<str>>,
    /// Whether a new key was added while no window was open.
    armed: bool,
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    since: Duration,
    last_new: Duration,
}

/// Why a batch is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BatchEnd {
    /// No new key came for a while.
    Idle,
    /// It has lasted as long as a batch may, and keys were still coming.
    MaxDuration,
}

impl BatchWindow {
    /// A window that closes `idle` after the last new key, and at most `max` after it opened (SCH-001).
    pub(crate) const fn new(idle: Duration, max: Duration) -> Self {
        Self {
            idle,
            max,
            seen: BTreeSet::new(),
            armed: false,
            open: None,
        }
    }

    /// Adds the key of a trigger. Returns whether it is new (SCH-039).
    pub(crate) fn trigger(&mut self, key: Arc<str>, now: Duration) -> bool {
        if !self.seen.insert(key) {
            return false;
        }
        match &mut self.open {
            Some(open) => open.last_new = now,
            None => self.armed = true,
        }
        true
    }

    /// Adds an untried pod. The pass plans it too, so an open window stays open for the pods that follow. Its key is not new any more when
    /// kube-scheduler has tried it and it triggers a batch. Returns whether the window was extended.
    pub(crate) fn arrived(&mut self, key: Arc<str>, now: Duration) -> bool {
        let Some(open) = &mut self.open else { return false };
        let is_new = self.seen.insert(key);
        if is_new {
            open.last_new = now;
        }
        is_new
    }

    /// Opens the window if a key waits for it (SCH-040).
    pub(crate) fn open(&mut self, now: Duration) -> bool {
        if self.open.is_none() && std::mem::take(&mut self.armed) {
            self.open = Some(Open {
                since: now,
                last_new: now,
            });
        }
        self.open.is_some()
    }

    /// When the open window closes (SCH-038).
    pub(crate) fn closes_at(&self) -> Option<Duration> {
        let open = self.open?;
        Some((open.last_new + self.idle).min(open.since + self.max))
    }

    /// Closes the window, because the time has come at which it closes.
    pub(crate) fn close(&mut self) -> BatchEnd {
        let cut_off = self
            .open
            .is_some_and(|open| open.last_new + self.idle > open.since + self.max);
        self.open = None;
        self.seen.clear();
        match cut_off {
            true => BatchEnd::MaxDuration,
            false => BatchEnd::Idle,
        }
    }
}

/// A window with many triggers and one waiter; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Batcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    window: Mutex<BatchWindow>,
    epoch: Instant,
    triggered: Notify,
}

impl Batcher {
    /// An empty batcher.
    pub(crate) fn new(idle: Duration, max: Duration) -> Self {
        Self(Arc::new(Inner {
            window: Mutex::new(BatchWindow::new(idle, max)),
            epoch: Instant::now(),
            triggered: Notify::new(),
        }))
    }

    /// Puts a key into this batch or the next.
    pub(crate) fn trigger(&self, key: Arc<str>) {
        let now = self.0.epoch.elapsed();
        if self.lock().trigger(key, now) {
            self.0.triggered.notify_one();
        }
    }

    /// Keeps an open batch open for the pods that follow this one.
    pub(crate) fn arrived(&self, key: Arc<str>) {
        let now = self.0.epoch.elapsed();
        if self.lock().arrived(key, now) {
            self.0.triggered.notify_one();
        }
    }

    /// Returns once a batch is complete.
    pub(crate) async fn wait(&self) -> BatchEnd {
        loop {
            let triggered = self.0.triggered.notified();
            let opened = self.lock().open(self.0.epoch.elapsed());
            if opened {
                break;
            }
            triggered.await;
        }
        loop {
            let triggered = self.0.triggered.notified();
            let Some(closes) = self.lock().closes_at() else {
                return BatchEnd::Idle;
            };
            tokio::select! {
                biased;
                () = triggered => {}
                () = tokio::time::sleep_until(self.0.epoch + closes) => return self.lock().close(),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BatchWindow> {
        self.0.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn window() -> BatchWindow {
        BatchWindow::new(at(5), at(10))
    }

    fn closes(triggers: &[(&str, u64)]) -> Option<Duration> {
        let mut window = window();
        for (key, seconds) in triggers {
            window.trigger((*key).into(), at(*seconds));
            window.open(at(*seconds));
        }
        window.closes_at()
    }

    #[test]
    fn new_keys_extend_the_window_up_to_its_maximum() {
        // SCH-041
        assert_eq!(closes(&[("a", 0), ("a", 3)]), Some(at(5)));
        assert_eq!(closes(&[("a", 0), ("b", 3)]), Some(at(8)));
        // SCH-038
        assert_eq!(closes(&[("a", 0), ("b", 4), ("c", 8)]), Some(at(10)));
        assert_eq!(closes(&[]), None);
    }

    #[test]
    fn a_window_that_was_cut_off_says_so() {
        let end_after = |triggers: &[(&str, u64)]| {
            let mut window = window();
            for (key, seconds) in triggers {
                window.trigger((*key).into(), at(*seconds));
                window.open(at(*seconds));
            }
            window.close()
        };
        assert_eq!(end_after(&[("a", 0), ("b", 5)]), BatchEnd::Idle);
        assert_eq!(end_after(&[("a", 0), ("b", 4), ("c", 6)]), BatchEnd::MaxDuration);
        assert_eq!(end_after(&[("a", 0), ("b", 4), ("a", 6)]), BatchEnd::Idle, "not new");
        assert_eq!(end_after(&[]), BatchEnd::Idle);
    }

    #[test]
    fn pods_that_arrive_keep_the_window_open_and_extend_it_once() {
        let mut window = window();
        assert!(!window.arrived("a".into(), at(0)), "no window is open");
        assert!(window.trigger("a".into(), at(0)));
        window.open(at(0));
        assert!(window.arrived("b".into(), at(3)));
        assert_eq!(window.closes_at(), Some(at(8)));
        // kube-scheduler looks at it later than the window would wait.
        assert!(!window.trigger("b".into(), at(7)));
        assert_eq!(window.closes_at(), Some(at(8)));
        assert!(window.arrived("c".into(), at(7)));
        assert_eq!(window.closes_at(), Some(at(10)));
    }

    // SCH-039 SCH-040
    #[test]
    fn keys_that_come_while_a_pass_runs_open_the_next_window() {
        let mut window = window();
        window.trigger("a".into(), at(0));
        assert!(window.open(at(0)));
        window.close();
        assert!(!window.open(at(5)), "nothing waits");
        assert!(window.trigger("a".into(), at(6)), "forgotten when the window closed");
        assert!(!window.trigger("a".into(), at(7)));
        assert!(window.open(at(8)));
        assert_eq!(window.closes_at(), Some(at(13)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_complete_when_no_new_key_comes() {
        let batcher = Batcher::new(at(1), at(10));
        let begin = Instant::now();
        let triggers = async {
            tokio::time::sleep(at(20)).await;
            for key in ["a", "a", "b"] {
                batcher.trigger(key.into());
                tokio::time::sleep(Duration::from_millis(700)).await;
            }
        };
        let (took, ()) = tokio::join!(
            async {
                assert_eq!(batcher.wait().await, BatchEnd::Idle);
                begin.elapsed()
            },
            triggers
        );
        // SCH-038: b is late for the window of a, which closed one second after it opened.
        assert_eq!(took, at(21));
        batcher.wait().await;
        assert!(begin.elapsed() > at(22));
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_ends_at_its_longest_duration_while_new_keys_come() {
        let batcher = Batcher::new(at(1), at(10));
        let triggers = async {
            for key in 0..44 {
                batcher.trigger(key.to_string().into());
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let ends = async { [batcher.wait().await, batcher.wait().await, batcher.wait().await] };
        let all = [BatchEnd::MaxDuration, BatchEnd::MaxDuration, BatchEnd::Idle];
        let (ends, ()) = tokio::join!(ends, triggers);
        assert_eq!(ends, all);
    }

    // SCH-037: without a trigger nothing is scheduled, however long; the next one is not late for it.
    #[tokio::test(start_paused = true)]
    async fn no_trigger_completes_no_batch() {
        let batcher = Batcher::new(at(1), at(10));
        let begin = Instant::now();
        let completed = tokio::time::timeout(at(3600), batcher.wait()).await;
        assert!(completed.is_err());
        batcher.trigger("a".into());
        batcher.wait().await;
        assert_eq!(begin.elapsed(), at(3601));
    }
}
