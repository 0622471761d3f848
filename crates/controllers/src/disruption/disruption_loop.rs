//! The loop that decides (the controller `disruption`; section 2 of `docs/behaviour/disruption.md`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use kerf_decide::{Evaluation, Memory, Method, Validation, disrupt, revalidate_candidates, validate};
use kerf_disruption::{Command, InvalidBudget, budget_faults};
use kerf_model::snapshot::Snapshot;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::{CancellationToken, Outcome, RateLimit, ReconcileError};
use tokio::time::Instant;

use super::apply_retirement::apply_retirement;
use super::cleanup::clean_up;
use super::destination_taints::DestinationTaints;
use super::progress::Progress;
use super::queue::CommandQueue;
use super::start::{Decided, Starter};
use super::static_replacement::StaticReplacement;
use super::taints::DisruptionTaints;
use super::{annotations, events, report};
use crate::context::Context;
use crate::decision_inputs::DecisionInputs;
use crate::decision_observer::ObservedDecision;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "disruption";
/// The pause after a pass in which nothing was done (DIS-006).
const IDLE: Duration = Duration::from_secs(10);
/// The pause while the cluster is not known completely (DIS-008).
const UNSYNCED: Duration = Duration::from_secs(1);
/// The name under which the pauses of the loop itself are recorded.
const LOOP: &str = "disruption-loop";
/// A pause between runs that is logged (DIS-021).
const ABNORMAL: Duration = Duration::from_secs(15 * 60);

/// The loop. One decision at a time (DIS-002).
pub(crate) struct Disruption {
    context: Context,
    taints: DisruptionTaints,
    destination_taints: DestinationTaints,
    starter: Starter,
    memory: Arc<Mutex<Memory>>,
    work: WorkLoop<()>,
    /// When the loop and its methods last ran, by name.
    runs: Mutex<BTreeMap<&'static str, Instant>>,
}

/// The evaluations of a round that have commands, each with the time at which it began.
struct Found {
    evaluations: Vec<(Evaluation, Instant)>,
    inputs: DecisionInputs,
}

impl Disruption {
    /// A loop that hands its commands to `queue`.
    pub(crate) fn new(context: &Context, queue: &Arc<CommandQueue>) -> Arc<Self> {
        // DIS-180: these series are there from the start.
        let timeouts = context.metrics.counter(&catalogue::DISRUPTION_CONSOLIDATION_TIMEOUTS);
        for kind in ["multi", "single"] {
            timeouts.add(&[kind], 0.0);
        }
        Arc::new(Self {
            context: context.clone(),
            taints: DisruptionTaints::new(context),
            destination_taints: DestinationTaints::new(context),
            starter: Starter::new(context, queue),
            memory: Arc::new(Mutex::new(Memory::sharing(&context.prepared))),
            work: WorkLoop::singleton(context, NAME, retries()),
            runs: Mutex::default(),
        })
    }

    /// Whether the wall clock may have jumped: ages and deadlines of consolidation, drift and protections are then not reliable.
    fn is_in_doubt(&self) -> bool {
        self.context.jump_guard.hold().is_some()
    }

    /// Computes with the memory, on a thread of its own where that is allowed.
    async fn with_memory<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Memory) -> T + Send + 'static,
    ) -> Result<T, ReconcileError> {
        let memory = Arc::clone(&self.memory);
        let work = move || work(&mut memory.lock().unwrap_or_else(PoisonError::into_inner));
        self.context.compute(work).await
    }

    /// Evaluates the methods from this one on, and reports what each found. Returns those that have commands.
    async fn evaluate(&self, from: Method, shutdown: &CancellationToken) -> Result<Found, ReconcileError> {
        let (inputs, progress) = (
            DecisionInputs::take(&self.context),
            Progress::new(&self.context, shutdown),
        );
        let observer = self.context.tuning.decision_observer.clone();
        let work = move |memory: &mut Memory| {
            let before = observer.before(memory);
            let round = disrupt(&inputs.view(), from, memory, &progress);
            observer.observe(&inputs.view(), &before, ObservedDecision::Disrupt(from, &round));
            (round, inputs, progress.into_starts(), Instant::now())
        };
        let (round, inputs, starts, ended) = self.with_memory(work).await?;
        let mut failed = None;
        let mut evaluations = Vec::new();
        let ends = starts.iter().skip(1).map(|(_, next)| *next).chain([ended]);
        for (evaluation, ((method, began), end)) in round.evaluations.into_iter().zip(starts.iter().zip(ends)) {
            self.runs().insert(method.name(), *began);
            report::evaluation(&self.context, &inputs, &evaluation, shutdown.is_cancelled());
            match &evaluation.error {
                Some(error) if *method == Method::SingleNodeConsolidation => {
                    tracing::error!(%error, "computing single-node consolidation");
                }
                Some(error) => failed = Some(ReconcileError::message(error.to_string())),
                None => {}
            }
            if evaluation.commands.is_empty() {
                self.observe_duration(*method, end - *began);
            } else {
                evaluations.push((evaluation, *began));
            }
        }
        match failed {
            // Commands found before the failure are carried out; the failed method is evaluated again in the next pass.
            Some(failed) if evaluations.is_empty() => Err(failed),
            Some(error) => {
                tracing::error!(%error, "evaluating disruption");
                Ok(Found { evaluations, inputs })
            }
            None => Ok(Found { evaluations, inputs }),
        }
    }

    fn observe_duration(&self, method: Method, took: Duration) {
        let histogram = self
            .context
            .metrics
            .histogram(&catalogue::DISRUPTION_EVALUATION_DURATION);
        let labels = [method.reason().label(), method.consolidation_type()];
        histogram.observe(&labels, took.as_secs_f64());
    }

    /// Starts the commands that need not wait; validates the others after their wait and starts those that are still valid. Returns whether
    /// anything was started.
    async fn carry_out(&self, found: Found, shutdown: &CancellationToken) -> Result<bool, ReconcileError> {
        let Found { evaluations, inputs } = found;
        let (at_once, later): (Vec<_>, Vec<_>) = evaluations
            .into_iter()
            .partition(|(evaluation, _)| evaluation.wait.is_zero());
        let mut decided = Vec::new();
        for (evaluation, began) in at_once {
            self.observe_duration(evaluation.method, began.elapsed());
            decided.extend(self.without_wait(evaluation, &inputs));
        }
        let mut any = !decided.is_empty();
        let mut errors = self.start_all(decided).await;
        if !later.is_empty() {
            let began: Vec<(Method, Instant)> = later.iter().map(|(one, began)| (one.method, *began)).collect();
            let decided = self.validated(later, &inputs, shutdown).await;
            for (method, began) in began {
                self.observe_duration(method, began.elapsed());
            }
            match decided {
                // The clock may have jumped during the wait.
                Ok(_) if self.is_in_doubt() => {}
                Ok(decided) => {
                    any |= !decided.is_empty();
                    errors.extend(self.start_all(decided).await);
                }
                Err(error) => errors.push(error),
            }
        }
        together(errors).map_or(Ok(any), Err)
    }

    /// Starts commands at the same time. One that cannot be started does not hold up the others (DIS-016).
    async fn start_all(&self, decided: Vec<Decided>) -> Vec<ReconcileError> {
        let starts = decided.into_iter().map(|decided| self.start(decided));
        join_all(starts).await.into_iter().filter_map(Result::err).collect()
    }

    /// The commands of a method that need not wait, as far as the limits of static pools leave room.
    fn without_wait(&self, evaluation: Evaluation, inputs: &DecisionInputs) -> Vec<Decided> {
        let method = evaluation.method;
        let of_static = method == Method::StaticDrift;
        let decided = evaluation.commands.into_iter().filter_map(|command| {
            let replacing = match of_static {
                true => Some(StaticReplacement::reserve(&self.context, &command)?),
                false => None,
            };
            Some(Decided {
                replacing,
                ..Decided::new(method, command, &inputs.snapshot)
            })
        });
        decided.collect()
    }

    /// The commands that are still valid after their wait (DIS-127). Each is validated as if the valid ones before it had been started.
    async fn validated(
        &self,
        evaluations: Vec<(Evaluation, Instant)>,
        inputs: &DecisionInputs,
        shutdown: &CancellationToken,
    ) -> Result<Vec<Decided>, ReconcileError> {
        for (evaluation, _) in &evaluations {
            for command in &evaluation.commands {
                report::waiting(&self.context, evaluation.method, command);
            }
        }
        let wait = evaluations.iter().map(|(evaluation, _)| evaluation.wait).max();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(Vec::new()),
            () = tokio::time::sleep(wait.unwrap_or_default()) => {}
        }
        let (mut decided, mut valid) = (Vec::new(), Vec::new());
        for (evaluation, _) in evaluations {
            for command in evaluation.commands {
                let found = self
                    .validate(evaluation.method, command, &valid, &inputs.snapshot)
                    .await?;
                valid.extend(found.iter().map(|decided| decided.command.clone()));
                decided.extend(found);
            }
        }
        Ok(decided)
    }

    /// The part of a command, decided on `decided_on`, that may be started now together with the commands `before` it (DIS-154 to DIS-156, DIS-181
    /// to DIS-189).
    async fn validate(
        &self,
        method: Method,
        command: Command,
        before: &[Command],
        decided_on: &Arc<Snapshot>,
    ) -> Result<Option<Decided>, ReconcileError> {
        type Look = fn(&kerf_decide::Inputs<'_>, Method, &Command, &[Command], &mut Memory) -> Validation;
        let again = |look: Look, command: &Command| {
            let (inputs, command, before) = (DecisionInputs::take(&self.context), command.clone(), before.to_vec());
            self.with_memory(move |memory| {
                let validation = look(&inputs.view(), method, &command, &before, memory);
                (validation, inputs)
            })
        };
        let (validation, mut inputs) = again(validate, &command).await?;
        report::validation(&self.context, &inputs, method, &command, &validation);
        let Ok(valid) = validation.result else { return Ok(None) };
        let decided_on = match validation.planned_anew {
            true => Arc::clone(&inputs.snapshot),
            false => Arc::clone(decided_on),
        };
        if method.consolidates() {
            // DIS-186: a pod may have been bound while the simulation ran.
            let validation;
            (validation, inputs) = again(revalidate_candidates, &valid).await?;
            report::validation(&self.context, &inputs, method, &valid, &validation);
            if validation.result.is_err() {
                return Ok(None);
            }
        }
        Ok(Some(Decided {
            decided_on,
            ..Decided::new(method, valid, &inputs.snapshot)
        }))
    }

    /// Starts a command, and records the moves of consolidation.
    async fn start(&self, decided: Decided) -> Result<(), ReconcileError> {
        let now = self.context.now();
        self.starter.start(&decided).await?;
        let Decided {
            method,
            command,
            snapshot,
            replacing: _held_until_now,
            ..
        } = decided;
        if method.consolidates() {
            let candidates = &command.candidates;
            let from = candidates
                .iter()
                .filter_map(|candidate| candidate.node.node_name.clone());
            let pods = candidates.iter().flat_map(|candidate| &candidate.pods);
            let (from, plan) = (from.collect(), command.plan.as_ref());
            self.context.cluster.note_moved(from, pods, plan, &snapshot, now);
        }
        Ok(())
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<&'static str, Instant>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs which of the loop and its methods have not run for long (DIS-021).
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

    /// DIS-020: one line for all pools, each named once; and an event on each for owners that do not read the log.
    fn report_budget_faults(&self) {
        let now = self.context.now();
        let snapshot = self.context.cluster.snapshot(now);
        let mut faults = budget_faults(&snapshot);
        faults.dedup_by(|one, before| one.pool == before.pool);
        for one in &faults {
            if let Some(pool) = snapshot.pools.iter().find(|known| known.name == one.pool) {
                self.context
                    .recorder
                    .publish(events::invalid_budget(pool, &one.fault.0));
            }
        }
        if !faults.is_empty() {
            let text = |one: &InvalidBudget| format!("{}: {}", one.pool, one.fault);
            let texts: Vec<String> = faults.iter().map(text).collect();
            tracing::error!(error = texts.join("; "), "detected disruption budget errors");
        }
    }
}

/// Several errors as one, `None` without any. Conflicts are reported only if there is no other error (DIS-015).
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

/// After an error the loop waits no longer than it does when there is nothing to do: the cause may be gone.
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
        clean_up(&self.context, &self.taints, self.context.now()).await?;
        self.destination_taints.remove_ended().await;
        if self.is_in_doubt() {
            return Ok(Outcome::RequeueAfter(IDLE));
        }
        apply_retirement(&self.context, &self.memory, &self.taints).await?;
        let mut from = Some(Method::Emptiness);
        while let Some(method) = from {
            let found = self.evaluate(method, shutdown).await?;
            // DIS-127: a process that stops begins nothing.
            if shutdown.is_cancelled() {
                return Ok(Outcome::Done);
            }
            let Some((last, _)) = found.evaluations.last() else {
                break;
            };
            from = last.method.next();
            if self.carry_out(found, shutdown).await? {
                return Ok(Outcome::RequeueAfter(Duration::ZERO));
            }
            if shutdown.is_cancelled() {
                return Ok(Outcome::Done);
            }
        }
        Ok(Outcome::RequeueAfter(IDLE))
    }
}
