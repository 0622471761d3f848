//! The loop around a reconciler: takes keys from a queue, runs a bounded number of reconciliations at once, repeats
//! failed ones, logs and counts. The caller provides the reconciliation.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rustc_hash::FxHashMap;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use tracing::instrument::Instrumented;

use crate::client::{ApiErrorKind, describe};
use crate::metrics::{CounterSeries, GaugeSeries, HistogramSeries, Metrics, catalogue};
use crate::queue::{Key, Queue};
use crate::random::{Rng, Seed};
use crate::shutdown::panic_text;

/// How long running reconciliations may continue after the loop was asked to stop. Unfinished work is
/// repeated after the restart, so this only saves needless repetition.
const GRACE: Duration = Duration::from_secs(5);

/// What should happen to a key after a reconciliation without error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until something changes.
    Done,
    /// Again after the key's back-off.
    Requeue,
    /// Again after this time (zero: at once). Earlier failures are forgotten.
    RequeueAfter(Duration),
}

/// Why a reconciliation failed. Any error converts into it with `?`.
#[derive(Debug)]
pub struct ReconcileError {
    error: Box<dyn StdError + Send + Sync>,
    terminal: bool,
}

impl ReconcileError {
    /// An error that a retry cannot fix: it is logged and counted, and the key waits for the next change.
    pub fn terminal(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            error: error.into(),
            terminal: true,
        }
    }

    /// An error that is only text.
    pub fn message(text: impl Into<String>) -> Self {
        Self {
            error: text.into().into(),
            terminal: false,
        }
    }

    /// Several errors as one; `Ok` without any.
    pub fn of_all(texts: &[String]) -> Result<(), Self> {
        match texts {
            [] => Ok(()),
            texts => Err(Self::message(texts.join("; "))),
        }
    }

    /// Whether the API refused a write because the object had changed (OPS-105).
    pub fn is_conflict(&self) -> bool {
        self.chain()
            .filter_map(|error| error.downcast_ref::<kube::Error>())
            .any(|error| ApiErrorKind::of(error) == ApiErrorKind::Conflict)
    }

    /// The error and its causes.
    fn chain(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        let first: &(dyn StdError + 'static) = self.error.as_ref();
        std::iter::successors(Some(first), |error: &&(dyn StdError + 'static)| (*error).source())
    }

    /// Whether a retry cannot fix it.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for error in self.chain() {
            let part = error
                .downcast_ref::<kube::Error>()
                .map_or_else(|| error.to_string(), describe);
            // Many errors repeat their cause in their own text.
            if text.is_empty() {
                text = part;
            } else if !text.contains(&part) {
                text = format!("{text}: {part}");
            }
            if error.is::<kube::Error>() {
                // The remaining sources repeat the same in the client library's words.
                break;
            }
        }
        f.write_str(&text)
    }
}

// As with anyhow: `ReconcileError` itself is no `Error`, which lets every error convert into it.
impl<E: StdError + Send + Sync + 'static> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        Self {
            error: Box::new(error),
            terminal: false,
        }
    }
}

/// Settings of one reconcile loop.
#[derive(Clone, Debug)]
pub struct Controller {
    name: String,
    group_kind: Option<(String, String)>,
    workers: usize,
    metrics: Option<Metrics>,
    rng: Rng,
}

impl Controller {
    /// A loop called `name` (the `controller` label and log key, OPS-100) with one worker and nothing counted.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            group_kind: None,
            workers: 1,
            metrics: None,
            rng: Seed(0).rng(),
        }
    }

    /// The kind this controller reconciles, for its log lines (OPS-215). Singletons have none.
    #[must_use]
    pub fn for_kind(mut self, group: impl Into<String>, kind: impl Into<String>) -> Self {
        self.group_kind = Some((group.into(), kind.into()));
        self
    }

    /// How many reconciliations may run at once; at least one.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Where to count (OPS-176).
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Draws reconcile IDs from a generator of this seed that no other controller has.
    #[must_use]
    pub fn seed(mut self, seed: Seed) -> Self {
        self.rng = seed.derive(&self.name).rng();
        self
    }

    /// Reconciles the keys of the queue with `of`, which all reconciliations share. Runs until `shutdown` is cancelled or the queue is closed.
    /// Dropping the future ends running work at its next await, as a crash would.
    pub async fn run<T, K, F, Fut>(self, queue: Queue<K>, of: Arc<T>, reconcile: F, shutdown: CancellationToken)
    where
        T: Send + Sync,
        K: Key,
        F: Fn(Arc<T>, K) -> Fut + Send + Sync,
        Fut: Future<Output = Result<Outcome, ReconcileError>> + Send + 'static,
    {
        let reconcile = |key| -> Reconciliation { Box::pin(reconcile(Arc::clone(&of), key)) };
        self.run_boxed(queue, &reconcile, shutdown).await;
    }

    /// The same for all reconcilers with one type of key, so that it is compiled once for them.
    async fn run_boxed<K: Key>(
        self,
        queue: Queue<K>,
        reconcile: &(dyn Fn(K) -> Reconciliation + Send + Sync),
        shutdown: CancellationToken,
    ) {
        let counts = self
            .metrics
            .as_ref()
            .map(|metrics| Counts::new(metrics, &self.name, self.workers));
        let mut run = RunningTasks {
            queue,
            counts,
            tasks: JoinSet::new(),
            keys: FxHashMap::default(),
        };
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(ended) = run.tasks.join_next_with_id(), if !run.tasks.is_empty() => run.finish(ended),
                key = run.queue.next(), if run.tasks.len() < self.workers => {
                    let Some(key) = key else { break };
                    let work = reconcile(key.clone()).instrument(self.span(&key));
                    run.start(key, work);
                }
            }
        }
        let drained = async {
            while let Some(ended) = run.tasks.join_next_with_id().await {
                run.finish(ended);
            }
        };
        if tokio::time::timeout(GRACE, drained).await.is_err() {
            run.tasks.shutdown().await;
        }
    }

    fn span<K: Key>(&self, key: &K) -> tracing::Span {
        let (group, kind) = self
            .group_kind
            .as_ref()
            .map_or((None, None), |(g, k)| (Some(g), Some(k)));
        tracing::error_span!(
            "reconcile",
            controller = self.name,
            controllerGroup = group,
            controllerKind = kind,
            namespace = key.namespace().unwrap_or_default(),
            name = key.name().unwrap_or_default(),
            reconcileID = self.rng.uuid(),
        )
    }
}

type Reconciled = Result<Outcome, ReconcileError>;

/// A reconciliation that is not finished. Boxed: it is large, and starting a task moves it several times.
type Reconciliation = BoxFuture<'static, Reconciled>;

/// The `result` of a reconciliation.
#[derive(Clone, Copy)]
enum ReconcileResult {
    Success,
    Requeue,
    RequeueAfter,
    Error,
}

struct RunningTasks<K> {
    queue: Queue<K>,
    counts: Option<Counts>,
    tasks: JoinSet<Reconciled>,
    keys: FxHashMap<Id, (K, Instant, tracing::Span)>,
}

impl<K: Key> RunningTasks<K> {
    fn start(&mut self, key: K, work: Instrumented<Reconciliation>) {
        let span = work.span().clone();
        let id = self.tasks.spawn(work).id();
        self.keys.insert(id, (key, Instant::now(), span));
        self.report_active();
    }

    fn finish(&mut self, ended: Result<(Id, Reconciled), JoinError>) {
        let (id, result) = match ended {
            Ok((id, result)) => (id, result),
            Err(error) => {
                let id = error.id();
                if let (Some(counts), true) = (&self.counts, error.is_panic()) {
                    counts.panics.inc();
                }
                (
                    id,
                    Err(ReconcileError::message(format!(
                        "panic: {} [recovered]",
                        panic_text(error)
                    ))),
                )
            }
        };
        let Some((key, began, span)) = self.keys.remove(&id) else {
            return;
        };
        let result = span.in_scope(|| self.requeue(&key, result));
        self.queue.done(&key);
        if let Some(counts) = &self.counts {
            counts.total(result).inc();
            counts.time.observe(began.elapsed().as_secs_f64());
        }
        self.report_active();
    }

    /// Puts the key back as its result asks.
    fn requeue(&self, key: &K, result: Reconciled) -> ReconcileResult {
        match result {
            Ok(Outcome::Done) => {
                self.queue.forget(key);
                ReconcileResult::Success
            }
            Ok(Outcome::RequeueAfter(delay)) => {
                self.queue.forget(key);
                self.queue.add_after(key.clone(), delay);
                ReconcileResult::RequeueAfter
            }
            Ok(Outcome::Requeue) => {
                self.queue.add_rate_limited(key.clone());
                ReconcileResult::Requeue
            }
            // Another writer was first: retry without an error in the log (OPS-105).
            Err(error) if error.is_conflict() => {
                self.queue.add_rate_limited(key.clone());
                ReconcileResult::Requeue
            }
            Err(error) => {
                tracing::error!(error = %error, "Reconciler error");
                if let Some(counts) = &self.counts {
                    counts.errors.inc();
                    if error.is_terminal() {
                        counts.terminal_errors.inc();
                    }
                }
                if error.is_terminal() {
                    self.queue.forget(key);
                } else {
                    self.queue.add_rate_limited(key.clone());
                }
                ReconcileResult::Error
            }
        }
    }

    fn report_active(&self) {
        if let Some(counts) = &self.counts {
            counts.active.set(self.tasks.len() as f64);
        }
    }
}

/// The series of one controller. Each starts at 0, so that rates are right from the first event on.
struct Counts {
    success: CounterSeries,
    requeue: CounterSeries,
    requeue_after: CounterSeries,
    error: CounterSeries,
    errors: CounterSeries,
    terminal_errors: CounterSeries,
    panics: CounterSeries,
    active: GaugeSeries,
    time: HistogramSeries,
}

impl Counts {
    fn new(metrics: &Metrics, name: &str, workers: usize) -> Self {
        let counter = |family| metrics.counter(family).series(&[name]);
        let gauge = |family| metrics.gauge(family).series(&[name]);
        let total = metrics.counter(&catalogue::RECONCILE_TOTAL);
        let result = |result| total.series(&[name, result]);
        gauge(&catalogue::RECONCILE_MAX_CONCURRENT).set(workers as f64);
        counter(&catalogue::RECONCILE_TIMEOUTS).add(0.0);
        Self {
            success: result("success"),
            requeue: result("requeue"),
            requeue_after: result("requeue_after"),
            error: result("error"),
            errors: counter(&catalogue::RECONCILE_ERRORS),
            terminal_errors: counter(&catalogue::RECONCILE_TERMINAL_ERRORS),
            panics: counter(&catalogue::RECONCILE_PANICS),
            active: gauge(&catalogue::RECONCILE_ACTIVE_WORKERS),
            time: metrics.histogram(&catalogue::RECONCILE_TIME).series(&[name]),
        }
    }

    fn total(&self, result: ReconcileResult) -> &CounterSeries {
        match result {
            ReconcileResult::Success => &self.success,
            ReconcileResult::Requeue => &self.requeue,
            ReconcileResult::RequeueAfter => &self.requeue_after,
            ReconcileResult::Error => &self.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::backoff::RateLimit;

    fn queue() -> Queue<String> {
        Queue::new(RateLimit::exponential(Duration::from_secs(1), Duration::from_secs(60)))
    }

    fn api_error(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(kube::core::Status::failure("refused", reason).with_code(code).boxed())
    }

    /// Runs a reconciler over one key for `seconds` and returns the times (s) of its calls and the metrics.
    async fn calls(
        seconds: u64,
        result: impl Fn(usize) -> Result<Outcome, ReconcileError> + Send + Sync + 'static,
    ) -> (Vec<u64>, Metrics) {
        let (queue, metrics, shutdown) = (queue(), Metrics::default(), CancellationToken::new());
        let (of, began) = (Arc::new((Mutex::new(Vec::new()), result)), Instant::now());
        queue.add("a".to_owned());
        let run = Controller::new("test").metrics(&metrics).run(
            queue,
            Arc::clone(&of),
            |of, _| async move {
                let (times, result) = &*of;
                let call = times
                    .lock()
                    .map(|mut t| {
                        t.push(began.elapsed().as_secs());
                        t.len()
                    })
                    .unwrap_or(0);
                result(call)
            },
            shutdown.clone(),
        );
        let stop = async {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            shutdown.cancel();
        };
        tokio::join!(run, stop);
        let times = of.0.lock().expect("no panic holds it").clone();
        (times, metrics)
    }

    fn results(metrics: &Metrics) -> [f64; 4] {
        let total = metrics.counter(&catalogue::RECONCILE_TOTAL);
        ["error", "requeue", "requeue_after", "success"].map(|result| total.get(&["test", result]))
    }

    #[tokio::test(start_paused = true)]
    async fn outcomes_decide_when_a_key_comes_again() {
        // OPS-176
        let (times, metrics) = calls(100, |_| Ok(Outcome::Done)).await;
        assert_eq!((times, results(&metrics)), (vec![0], [0.0, 0.0, 0.0, 1.0]));
        let (times, metrics) = calls(35, |_| Ok(Outcome::RequeueAfter(Duration::from_secs(10)))).await;
        assert_eq!((times, results(&metrics)), (vec![0, 10, 20, 30], [0.0, 0.0, 4.0, 0.0]));
        let (times, metrics) = calls(10, |_| Ok(Outcome::Requeue)).await;
        assert_eq!((times, results(&metrics)), (vec![0, 1, 3, 7], [0.0, 4.0, 0.0, 0.0]));
    }

    #[tokio::test(start_paused = true)]
    async fn errors_are_counted_and_repeated_with_back_off() {
        // OPS-105
        let (times, metrics) = calls(10, |_| Err(api_error(500, "InternalError").into())).await;
        assert_eq!((times, results(&metrics)), (vec![0, 1, 3, 7], [4.0, 0.0, 0.0, 0.0]));
        assert!(metrics.counter(&catalogue::RECONCILE_ERRORS).get(&["test"]) > 3.0);
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_are_repeated_with_back_off_and_are_no_errors() {
        // OPS-105
        let (times, metrics) = calls(10, |_| Err(api_error(409, "Conflict").into())).await;
        assert_eq!((times, results(&metrics)), (vec![0, 1, 3, 7], [0.0, 4.0, 0.0, 0.0]));
        let (_, metrics) = calls(1, |_| Err(api_error(409, "AlreadyExists").into())).await;
        assert!(results(&metrics)[0] > 0.0, "an object that exists already is an error");
    }

    #[tokio::test(start_paused = true)]
    async fn terminal_errors_are_not_repeated() {
        let (times, metrics) = calls(100, |_| Err(ReconcileError::terminal("never mind"))).await;
        assert_eq!((times, results(&metrics)), (vec![0], [1.0, 0.0, 0.0, 0.0]));
    }

    #[tokio::test(start_paused = true)]
    async fn panics_are_recovered_counted_and_repeated() {
        // OPS-102
        let (times, metrics) = calls(2, |call| if call == 1 { panic!("boom") } else { Ok(Outcome::Done) }).await;
        assert_eq!((times, results(&metrics)), (vec![0, 1], [1.0, 0.0, 0.0, 1.0]));
        assert_eq!(
            metrics.counter(&catalogue::RECONCILE_PANICS).get(&["test"]).to_string(),
            "1"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_workers_run_and_one_key_never_twice() {
        let (queue, shutdown) = (queue(), CancellationToken::new());
        let (running, most, ended) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let state = Arc::new((running, most, ended));
        for index in 0..20 {
            queue.add(format!("{index}"));
        }
        let again = queue.clone();
        let reconcile = move |state: Arc<(AtomicUsize, AtomicUsize, AtomicUsize)>, key: String| {
            let again = again.clone();
            async move {
                let now = state.0.fetch_add(1, Ordering::SeqCst) + 1;
                state.1.fetch_max(now, Ordering::SeqCst);
                // A live event for the key that is being reconciled: the key must be reconciled again.
                if state.2.load(Ordering::SeqCst) < 20 {
                    again.add(key);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                state.0.fetch_sub(1, Ordering::SeqCst);
                state.2.fetch_add(1, Ordering::SeqCst);
                Ok(Outcome::Done)
            }
        };
        let run =
            Controller::new("test")
                .workers(4)
                .run(queue.clone(), Arc::clone(&state), reconcile, shutdown.clone());
        let stop = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            shutdown.cancel();
        };
        tokio::join!(run, stop);
        assert_eq!(state.1.load(Ordering::SeqCst), 4);
        assert_eq!(
            state.2.load(Ordering::SeqCst),
            40,
            "each key once for the add and once for the event"
        );
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_a_while_for_running_work() {
        let (queue, shutdown) = (queue(), CancellationToken::new());
        queue.add("a".to_owned());
        let began = Instant::now();
        let reconcile = |_, _| async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(Outcome::Done)
        };
        let run = Controller::new("test").run(queue, Arc::new(()), reconcile, shutdown.clone());
        let stop = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            shutdown.cancel();
        };
        tokio::join!(run, stop);
        assert_eq!(began.elapsed(), Duration::from_secs(1) + GRACE);
    }

    #[test]
    fn an_error_shows_its_causes_once() {
        assert_eq!(
            ReconcileError::from(api_error(500, "InternalError")).to_string(),
            "refused"
        );
        #[derive(Debug, thiserror::Error)]
        #[error("pool web cannot be listed")]
        struct Wrapped(#[source] kube::Error);
        let error = ReconcileError::from(Wrapped(api_error(409, "Conflict")));
        assert_eq!(error.to_string(), "pool web cannot be listed: refused");
        assert!(error.is_conflict());
    }
}
