//! A keyed work queue: which object to reconcile next.
//!
//! Each key waits at most once, is worked on by at most one worker at a time, and is never lost: a key that arrives
//! while it is being worked on is handed out again afterwards. Failures delay a key by its own exponential back-off
//! and, where set, by a bucket common to all keys. Normal keys go before the initial list's (OPS-101).

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::{RateLimit, TokenBucket};
use crate::metrics::{CounterSeries, GaugeSeries, HistogramSeries, Metrics, catalogue};

/// After this many normal keys in a row one key of the initial list is handed out, so that the list cannot starve.
const NORMAL_IN_A_ROW_MAX: u32 = 16;

/// What a queue holds: the identity of the object to reconcile.
pub trait Key: Clone + Eq + Hash + Ord + Debug + Send + Sync + 'static {
    /// The object's namespace; `None` for cluster-scoped objects.
    fn namespace(&self) -> Option<&str>;
    /// The object's name; `None` for singletons.
    fn name(&self) -> Option<&str>;
}

/// The key of singletons.
impl Key for () {
    fn namespace(&self) -> Option<&str> {
        None
    }
    fn name(&self) -> Option<&str> {
        None
    }
}

/// The key of cluster-scoped objects by name.
impl Key for String {
    fn namespace(&self) -> Option<&str> {
        None
    }
    fn name(&self) -> Option<&str> {
        Some(self)
    }
}

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace, "" for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of a namespaced object.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl Key for ObjectKey {
    fn namespace(&self) -> Option<&str> {
        Some(&self.namespace)
            .filter(|namespace| !namespace.is_empty())
            .map(String::as_str)
    }
    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

/// How soon a key should be handed out, relative to others that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Priority {
    /// Objects of an initial list, which may be many.
    Initial,
    /// Live events and everything else.
    #[default]
    Normal,
}

impl Priority {
    fn label(self) -> &'static str {
        match self {
            Self::Initial => "-100",
            Self::Normal => "0",
        }
    }
}

/// The queue. Cloning is cheap; all clones are one queue.
#[derive(Debug)]
pub struct Queue<K>(Arc<Inner<K>>);

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Inner<K> {
    limit: RateLimit,
    bucket: Option<TokenBucket>,
    state: Mutex<QueueState<K>>,
    changed: Notify,
    metrics: Option<QueueMetrics>,
}

#[derive(Debug)]
struct QueueState<K> {
    entries: FxHashMap<K, Entry>,
    normal: VecDeque<K>,
    initial: VecDeque<K>,
    /// Keys that wait for a time, ordered by it; the number keeps keys with the same time in order of arrival.
    delayed: BTreeMap<(Instant, u64), K>,
    arrivals: u64,
    normal_in_a_row: u32,
    closed: bool,
}

#[derive(Debug, Default)]
struct Entry {
    wait: Wait,
    priority: Priority,
    failures: u32,
    working_since: Option<Instant>,
}

/// What a key waits for. A key that is being worked on can wait as well: it was added meanwhile.
#[derive(Debug, Default)]
enum Wait {
    #[default]
    No,
    /// Queued since then (or, while being worked on, to be queued afterwards).
    Ready(Instant),
    Until(Instant, u64),
}

#[derive(Debug)]
struct QueueMetrics {
    normal: GaugeSeries,
    initial: GaugeSeries,
    adds: CounterSeries,
    retries: CounterSeries,
    waited: HistogramSeries,
    worked: HistogramSeries,
    unfinished: GaugeSeries,
    longest: GaugeSeries,
}

impl<K: Key> Queue<K> {
    /// A queue without metrics.
    pub fn new(limit: RateLimit) -> Self {
        Self::build(limit, None)
    }

    /// A queue that reports the `workqueue_*` families under `name` (OPS-177).
    pub fn with_metrics(limit: RateLimit, name: &str, metrics: &Metrics) -> Self {
        let queue = Self::build(limit, Some(QueueMetrics::new(name, metrics)));
        let inner = Arc::downgrade(&queue.0);
        metrics.before_scrape(move || {
            let queue = inner.upgrade().map(Self);
            queue.inspect(Self::report_running).is_some()
        });
        queue
    }

    fn build(limit: RateLimit, metrics: Option<QueueMetrics>) -> Self {
        Self(Arc::new(Inner {
            limit,
            bucket: limit.bucket.map(|(rate, burst)| TokenBucket::new(rate, burst)),
            state: Mutex::new(QueueState {
                entries: FxHashMap::default(),
                normal: VecDeque::new(),
                initial: VecDeque::new(),
                delayed: BTreeMap::new(),
                arrivals: 0,
                normal_in_a_row: 0,
                closed: false,
            }),
            changed: Notify::new(),
            metrics,
        }))
    }

    /// Adds a key.
    pub fn add(&self, key: K) {
        self.add_with(key, Priority::Normal);
    }

    /// Adds a key with a priority; a key that waits already keeps the higher of the two.
    pub fn add_with(&self, key: K, priority: Priority) {
        if let Some(metrics) = &self.0.metrics {
            metrics.adds.inc();
        }
        let mut state = self.lock();
        state.put_in_line(key, priority, Instant::now());
        self.wake(state);
    }

    /// Adds a key after `delay`. A key that is due earlier keeps its time.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let due = Instant::now() + delay;
        let mut state = self.lock();
        let arrival = state.arrivals;
        state.arrivals += 1;
        let entry = state.entries.entry(key.clone()).or_default();
        match entry.wait {
            Wait::Ready(_) => return,
            Wait::Until(at, _) if at <= due => return,
            Wait::Until(at, number) => {
                entry.wait = Wait::Until(due, arrival);
                state.delayed.remove(&(at, number));
            }
            Wait::No => entry.wait = Wait::Until(due, arrival),
        }
        state.delayed.insert((due, arrival), key);
        self.wake(state);
    }

    /// Adds a key after its back-off, which grows with each call until [`Queue::forget`].
    pub fn add_rate_limited(&self, key: K) {
        if let Some(metrics) = &self.0.metrics {
            metrics.retries.inc();
        }
        let own = {
            let mut state = self.lock();
            let entry = state.entries.entry(key.clone()).or_default();
            entry.failures = entry.failures.saturating_add(1);
            self.0.limit.backoff.delay(entry.failures)
        };
        let common = self.0.bucket.as_ref().map_or(Duration::ZERO, TokenBucket::reserve);
        self.add_after(key, own.max(common));
    }

    /// Forgets a key's failures.
    pub fn forget(&self, key: &K) {
        let mut state = self.lock();
        if let Some(entry) = state.entries.get_mut(key) {
            entry.failures = 0;
        }
        state.drop_if_idle(key);
    }

    /// How often in a row a key has failed.
    pub fn failures(&self, key: &K) -> u32 {
        self.lock().entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// Hands out the next key; `None` once the queue is closed. Call [`Queue::done`] with it afterwards.
    pub async fn next(&self) -> Option<K> {
        loop {
            let changed = self.0.changed.notified();
            let due = {
                let mut state = self.lock();
                if state.closed {
                    // Others may wait as well, and a permit wakes only one.
                    self.0.changed.notify_one();
                    return None;
                }
                let now = Instant::now();
                state.promote_due(now);
                let taken = state.take(now);
                self.report_depth(&state);
                if let Some((key, waited)) = taken {
                    if let Some(metrics) = &self.0.metrics {
                        metrics.waited.observe(waited.as_secs_f64());
                    }
                    if !state.normal.is_empty() || !state.initial.is_empty() {
                        self.0.changed.notify_one();
                    }
                    return Some(key);
                }
                state.delayed.first_key_value().map(|((at, _), _)| *at)
            };
            match due {
                Some(at) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Ends the work on a key. If the key was added meanwhile, it is queued again now.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(key) else {
            return;
        };
        let since = entry.working_since.take();
        let (back, priority) = (matches!(entry.wait, Wait::Ready(_)), entry.priority);
        if back {
            state.line(priority).push_back(key.clone());
        }
        state.drop_if_idle(key);
        if let (Some(metrics), Some(since)) = (&self.0.metrics, since) {
            metrics.worked.observe(since.elapsed().as_secs_f64());
        }
        self.wake(state);
    }

    /// Closes the queue: nothing more is handed out.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.wake(state);
    }

    /// The number of queued keys, without delayed ones.
    pub fn len(&self) -> usize {
        let mut state = self.lock();
        state.promote_due(Instant::now());
        state.normal.len() + state.initial.len()
    }

    /// Whether no key is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing waits (now or later) and nothing is being worked on.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state
            .entries
            .values()
            .all(|entry| matches!(entry.wait, Wait::No) && entry.working_since.is_none())
    }

    /// Brings the gauges about running work up to date.
    fn report_running(&self) {
        let Some(metrics) = &self.0.metrics else { return };
        let state = self.lock();
        let now = Instant::now();
        // Sum and maximum do not depend on the map's order beyond rounding of a gauge.
        let running = state
            .entries
            .values()
            .filter_map(|entry| entry.working_since)
            .map(|s| now.duration_since(s));
        let (sum, longest) = running.fold((Duration::ZERO, Duration::ZERO), |(sum, most), age| {
            (sum + age, most.max(age))
        });
        metrics.unfinished.set(sum.as_secs_f64());
        metrics.longest.set(longest.as_secs_f64());
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, state: MutexGuard<'_, QueueState<K>>) {
        self.report_depth(&state);
        drop(state);
        self.0.changed.notify_one();
    }

    fn report_depth(&self, state: &QueueState<K>) {
        if let Some(metrics) = &self.0.metrics {
            metrics.normal.set(state.normal.len() as f64);
            metrics.initial.set(state.initial.len() as f64);
        }
    }
}

impl QueueMetrics {
    fn new(name: &str, metrics: &Metrics) -> Self {
        let gauge = |family| metrics.gauge(family).series(&[name, name]);
        let counter = |family| metrics.counter(family).series(&[name, name]);
        let histogram = |family| metrics.histogram(family).series(&[name, name]);
        let depth = metrics.gauge(&catalogue::WORKQUEUE_DEPTH);
        let depth_of = |priority: Priority| depth.series(&[name, name, priority.label()]);
        Self {
            normal: depth_of(Priority::Normal),
            initial: depth_of(Priority::Initial),
            adds: counter(&catalogue::WORKQUEUE_ADDS),
            retries: counter(&catalogue::WORKQUEUE_RETRIES),
            waited: histogram(&catalogue::WORKQUEUE_QUEUE_DURATION),
            worked: histogram(&catalogue::WORKQUEUE_WORK_DURATION),
            unfinished: gauge(&catalogue::WORKQUEUE_UNFINISHED_WORK),
            longest: gauge(&catalogue::WORKQUEUE_LONGEST_RUNNING),
        }
    }
}

impl<K: Key> QueueState<K> {
    fn line(&mut self, priority: Priority) -> &mut VecDeque<K> {
        match priority {
            Priority::Normal => &mut self.normal,
            Priority::Initial => &mut self.initial,
        }
    }

    fn put_in_line(&mut self, key: K, priority: Priority, now: Instant) {
        let entry = self.entries.entry(key.clone()).or_default();
        let working = entry.working_since.is_some();
        match entry.wait {
            Wait::Ready(_) if entry.priority >= priority => {}
            Wait::Ready(_) => {
                entry.priority = priority;
                if !working {
                    // Rare: a live event for an object of the initial list that still waits.
                    self.initial.retain(|other| *other != key);
                    self.line(priority).push_back(key);
                }
            }
            Wait::No | Wait::Until(..) => {
                let delayed = match entry.wait {
                    Wait::Until(at, number) => Some((at, number)),
                    Wait::No | Wait::Ready(_) => None,
                };
                entry.wait = Wait::Ready(now);
                entry.priority = priority;
                if let Some(slot) = delayed {
                    self.delayed.remove(&slot);
                }
                if !working {
                    self.line(priority).push_back(key);
                }
            }
        }
    }

    fn promote_due(&mut self, now: Instant) {
        while let Some(slot) = self.delayed.first_entry() {
            if slot.key().0 > now {
                break;
            }
            let ((due, _), key) = slot.remove_entry();
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            entry.wait = Wait::Ready(due);
            let (priority, working) = (entry.priority, entry.working_since.is_some());
            if !working {
                self.line(priority).push_back(key);
            }
        }
    }

    fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        let turn_of_initial = self.normal_in_a_row >= NORMAL_IN_A_ROW_MAX && !self.initial.is_empty();
        let from_normal = if turn_of_initial { None } else { self.normal.pop_front() };
        let key = match from_normal {
            Some(key) => {
                self.normal_in_a_row = if self.initial.is_empty() {
                    0
                } else {
                    self.normal_in_a_row + 1
                };
                key
            }
            None => {
                self.normal_in_a_row = 0;
                self.initial.pop_front()?
            }
        };
        let entry = self.entries.entry(key.clone()).or_default();
        let waited = match entry.wait {
            Wait::Ready(since) => now.duration_since(since),
            Wait::No | Wait::Until(..) => Duration::ZERO,
        };
        entry.wait = Wait::No;
        entry.working_since = Some(now);
        Some((key, waited))
    }

    /// Keeps the map as small as what is going on.
    fn drop_if_idle(&mut self, key: &K) {
        let idle = self
            .entries
            .get(key)
            .is_some_and(|e| matches!(e.wait, Wait::No) && e.failures == 0 && e.working_since.is_none());
        if idle {
            self.entries.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue<String> {
        Queue::new(RateLimit::exponential(Duration::from_secs(1), Duration::from_secs(10)))
    }

    async fn take(queue: &Queue<String>) -> String {
        queue.next().await.expect("the queue is open")
    }

    /// What is handed out until nothing is in line, each key being done at once.
    async fn drain(queue: &Queue<String>) -> Vec<String> {
        let mut taken = Vec::new();
        while !queue.is_empty() {
            let key = take(queue).await;
            queue.done(&key);
            taken.push(key);
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn keys_wait_once_and_in_order_of_arrival() {
        let queue = queue();
        for key in ["a", "b", "a", "c", "b"] {
            queue.add(key.to_owned());
        }
        assert_eq!(drain(&queue).await, ["a", "b", "c"]);
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_while_worked_on_comes_again_and_never_twice_at_once() {
        let queue = queue();
        queue.add("a".to_owned());
        let key = take(&queue).await;
        queue.add("a".to_owned());
        queue.add("a".to_owned());
        assert!(queue.is_empty(), "the key is being worked on");
        queue.done(&key);
        assert_eq!(drain(&queue).await, ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_asked_for_while_worked_on_is_kept() {
        let queue = queue();
        queue.add("a".to_owned());
        let key = take(&queue).await;
        queue.add_after("a".to_owned(), Duration::from_secs(5));
        queue.done(&key);
        let began = Instant::now();
        take(&queue).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_that_ends_while_worked_on_is_kept() {
        let queue = queue();
        queue.add("a".to_owned());
        let key = take(&queue).await;
        queue.add_after("a".to_owned(), Duration::from_secs(5));
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(queue.is_empty());
        queue.done(&key);
        assert_eq!(drain(&queue).await, ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_wins() {
        let queue = queue();
        queue.add_after("a".to_owned(), Duration::from_secs(60));
        queue.add_after("a".to_owned(), Duration::from_secs(2));
        queue.add_after("a".to_owned(), Duration::from_secs(30));
        let began = Instant::now();
        let key = take(&queue).await;
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        queue.done(&key);
        assert!(queue.is_idle(), "the later times are gone");

        queue.add_after("b".to_owned(), Duration::from_secs(60));
        queue.add("b".to_owned());
        assert_eq!(drain(&queue).await, ["b"]);
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_per_key() {
        let queue = queue();
        let mut waits = Vec::new();
        for _ in 0..6 {
            queue.add_rate_limited("a".to_owned());
            let began = Instant::now();
            let key = take(&queue).await;
            waits.push(began.elapsed().as_secs());
            queue.done(&key);
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        assert_eq!(queue.failures(&"a".to_owned()), 6);
        queue.forget(&"a".to_owned());
        queue.add_rate_limited("a".to_owned());
        let began = Instant::now();
        take(&queue).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_common_bucket_slows_many_failing_keys_down() {
        // OPS-099
        let queue: Queue<String> = Queue::new(RateLimit::SHARED);
        for index in 0..120 {
            queue.add_rate_limited(format!("{index:03}"));
        }
        let began = Instant::now();
        for _ in 0..100 {
            take(&queue).await;
        }
        assert_eq!(began.elapsed(), Duration::from_millis(100));
        for _ in 0..20 {
            take(&queue).await;
        }
        let waited = began.elapsed().as_secs_f64();
        assert!((1.9..2.2).contains(&waited), "{waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn live_events_go_before_the_initial_list() {
        // OPS-101
        let queue = queue();
        for key in ["i1", "i2"] {
            queue.add_with(key.to_owned(), Priority::Initial);
        }
        queue.add("live".to_owned());
        queue.add("i2".to_owned());
        assert_eq!(drain(&queue).await, ["live", "i2", "i1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_initial_list_does_not_starve() {
        let queue = queue();
        queue.add_with("initial".to_owned(), Priority::Initial);
        for index in 0..100 {
            queue.add(format!("{index:03}"));
        }
        let order = drain(&queue).await;
        assert!(order.iter().position(|key| key == "initial").is_some_and(|at| at < 20));
    }

    #[tokio::test(start_paused = true)]
    async fn closing_wakes_everyone_who_waits() {
        let queue = queue();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                tokio::spawn({
                    let q = queue.clone();
                    async move { q.next().await }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        queue.close();
        for waiter in waiters {
            assert_eq!(waiter.await.expect("the waiter ends"), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_workqueue_families_are_reported() {
        let metrics = Metrics::default();
        let queue: Queue<String> = Queue::with_metrics(RateLimit::DEFAULT, "nodepool.counter", &metrics);
        queue.add("a".to_owned());
        queue.add_with("b".to_owned(), Priority::Initial);
        let key = take(&queue).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let running = metrics.encode();
        queue.done(&key);
        queue.add_rate_limited(key);
        let text = metrics.encode();
        let labels = "controller=\"nodepool.counter\",name=\"nodepool.counter\"";
        // OPS-177
        for line in [
            format!("workqueue_depth{{{labels},priority=\"-100\"}} 1"),
            format!("workqueue_adds_total{{{labels}}} 2"),
            format!("workqueue_retries_total{{{labels}}} 1"),
            format!("workqueue_queue_duration_seconds_count{{{labels}}} 1"),
            format!("workqueue_work_duration_seconds_sum{{{labels}}} 3"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} not in\n{text}");
        }
        // OPS-177
        assert!(
            running.contains(&format!("workqueue_unfinished_work_seconds{{{labels}}} 3")),
            "{running}"
        );
        assert!(running.contains(&format!("workqueue_longest_running_processor_seconds{{{labels}}} 3")));
    }
}
