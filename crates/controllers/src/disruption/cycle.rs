//! The loop that decides (the controller `disruption`; section 2 of the disruption contract).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use kerf_disruption::budget_faults;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::{CancellationToken, Outcome, RateLimit, ReconcileError};
use tokio::time::Instant;

use super::cleanup::clean_up;
use super::marking::Marker;
use super::memory::Memory;
use super::methods::{Decided, Method, Turn};
use super::orchestration::Orchestration;
use super::registry::Registry;
use super::retirement::retire;
use super::start::Starter;
use super::{annotations, events};
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "disruption";
/// The pause after a pass in which nothing was done (DIS-006).
const IDLE: Duration = Duration::from_secs(10);
/// The pause while the cluster is not known completely (DIS-008).
const UNSYNCED: Duration = Duration::from_secs(1);
/// What the pauses of the loop itself are noted under.
const LOOP: &str = "disruption-loop";
/// A pause between runs that somebody should know of (DIS-021).
const ABNORMAL: Duration = Duration::from_secs(15 * 60);

/// The loop. One decision at a time (DIS-002).
pub(crate) struct Disruption {
    context: Context,
    registry: Registry,
    marker: Marker,
    starter: Starter,
    memory: Memory,
    work: WorkLoop<()>,
    /// When the loop and its methods last ran, by name.
    runs: Mutex<BTreeMap<&'static str, Instant>>,
}

impl Disruption {
    /// A loop that hands its commands to `orchestration`.
    pub(crate) fn new(context: &Context, orchestration: &Arc<Orchestration>) -> Arc<Self> {
        // DIS-180: these series are there from the start.
        let timeouts = context.metrics.counter(&catalogue::DISRUPTION_CONSOLIDATION_TIMEOUTS);
        for kind in ["multi", "single"] {
            timeouts.add(&[kind], 0.0);
        }
        Arc::new(Self {
            context: context.clone(),
            registry: orchestration.registry().clone(),
            marker: Marker::new(context),
            starter: Starter::new(context, orchestration),
            memory: Memory::default(),
            work: WorkLoop::new(context, NAME, retries()),
            runs: Mutex::default(),
        })
    }

    /// Whether the clock may not be gone by: what consolidates, drifts or is protected for a time is judged by it.
    fn is_in_doubt(&self) -> bool {
        self.context.jump_guard.hold().is_some()
    }

    /// Lets a method decide and starts what it decided. Says whether it did anything.
    async fn take_turn(&self, method: Method, shutdown: &CancellationToken) -> Result<bool, ReconcileError> {
        let began = Instant::now();
        self.runs().insert(method.name(), began);
        let turn = Turn {
            context: &self.context,
            registry: &self.registry,
            memory: &self.memory,
            shutdown,
        };
        let decided = turn.decide(method).await;
        let histogram = self
            .context
            .metrics
            .histogram(&catalogue::DISRUPTION_EVALUATION_DURATION);
        let labels = [method.reason().label(), method.consolidation_type()];
        histogram.observe(&labels, began.elapsed().as_secs_f64());
        let decided = decided?;
        // It waited, and may have gone by a clock that jumped meanwhile.
        if self.is_in_doubt() {
            return Ok(false);
        }
        let any = !decided.is_empty();
        // DIS-016: one that cannot be started does not hold up the others.
        let starts = decided.into_iter().map(|decided| self.start(method, decided));
        let errors: Vec<ReconcileError> = join_all(starts).await.into_iter().filter_map(Result::err).collect();
        together(errors).map_or(Ok(any), Err)
    }

    /// Starts a command; what consolidation moves is remembered.
    async fn start(&self, method: Method, decided: Decided) -> Result<(), ReconcileError> {
        let now = self.context.now();
        self.starter.start(&decided, method.consolidation_type()).await?;
        let Decided {
            command,
            snapshot,
            replacing: _held_until_now,
            ..
        } = decided;
        if matches!(method, Method::Multi | Method::Single) {
            self.context.relapses().begun(&command, &snapshot, now);
        }
        Ok(())
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<&'static str, Instant>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which of the loop and its methods have not run for long (DIS-021).
    fn note_pauses(&self) {
        let (now, mut runs) = (Instant::now(), self.runs());
        for name in std::iter::once(LOOP).chain(Method::ORDER.map(Method::name)) {
            let pause = now - *runs.entry(name).or_insert(now);
            if pause > ABNORMAL {
                tracing::debug!(of = name, time = ?pause, "abnormal time between runs");
            }
        }
        runs.insert(LOOP, now);
    }

    /// DIS-020: one line for all pools, each named once; and an event on each, whose owner need not read our log.
    fn report_budget_faults(&self) {
        let now = self.context.now();
        let snapshot = self.context.cluster.snapshot(now);
        let faults = budget_faults(&snapshot, now);
        for (pool, fault) in &faults {
            if let Some(pool) = snapshot.pools.iter().find(|known| known.name == *pool) {
                self.context.recorder.publish(events::invalid_budget(pool, fault));
            }
        }
        if !faults.is_empty() {
            let texts: Vec<String> = faults.iter().map(|(pool, fault)| format!("{pool}: {fault}")).collect();
            tracing::error!(error = texts.join("; "), "detected disruption budget errors");
        }
    }
}

/// Several errors as one, `None` without any. Conflicts are told only where there is nothing else (DIS-015).
fn together(mut errors: Vec<ReconcileError>) -> Option<ReconcileError> {
    if errors.iter().any(|error| !error.is_conflict()) {
        errors.retain(|error| !error.is_conflict());
    } else {
        errors.truncate(1);
    }
    if errors.len() < 2 {
        return errors.pop();
    }
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Some(ReconcileError::message(texts.join("; ")))
}

/// After an error the loop waits no longer than it does when there is nothing to do: what stood in the way may be gone.
fn retries() -> RateLimit {
    RateLimit {
        bucket: RateLimit::SINGLETON.bucket,
        ..RateLimit::exponential(Duration::from_millis(5), IDLE)
    }
}

impl Reconciler for Disruption {
    type Key = ();

    fn work(&self) -> &WorkLoop<()> {
        &self.work
    }

    fn first_keys(&self) -> Vec<()> {
        vec![()]
    }

    async fn reconcile(&self, _key: &()) -> Result<Outcome, ReconcileError> {
        let shutdown = self.work.stopping();
        self.note_pauses();
        self.report_budget_faults();
        annotations::report(&self.context);
        self.context.cluster.expire(self.context.now());
        if !self.context.cluster.is_synced() {
            tracing::debug!(missing = ?self.context.cluster.sync_report(), "waiting on cluster sync");
            return Ok(Outcome::RequeueAfter(UNSYNCED));
        }
        clean_up(&self.context, &self.registry, &self.marker, self.context.now()).await?;
        if self.is_in_doubt() {
            return Ok(Outcome::RequeueAfter(IDLE));
        }
        retire(&self.context, &self.registry, &self.marker).await?;
        for method in Method::ORDER {
            if self.is_in_doubt() {
                break;
            }
            if self.take_turn(method, shutdown).await? {
                return Ok(Outcome::RequeueAfter(Duration::ZERO));
            }
            // DIS-127: a wait that was cut off ends the pass; a process that stops begins nothing.
            if shutdown.is_cancelled() {
                return Ok(Outcome::Done);
            }
        }
        Ok(Outcome::RequeueAfter(IDLE))
    }
}
