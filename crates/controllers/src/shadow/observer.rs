//! The loops of shadow mode: passes for pods that wait, and an observation of the cluster every ten seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use kerf_api::conditions::node_claim::DISRUPTION_REASON;
use kerf_api::{Conditioned, NodeClaim};
use kerf_decide::{
    Memory, Method, Provision, ScaleUp, StandingCommands, before_answers, disrupt, provision, revalidate_candidates,
    validate,
};
use kerf_disruption::Command;
use kerf_model::plan::{Launch, Plan};
use kerf_model::snapshot::Snapshot;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::{CancellationToken, ReconcileError};
use tokio::time::Instant;

use super::machines::Machines;
use super::record_file::RecordFile;
use super::shadow_record::{Machine, ShadowRecord};
use crate::catalogue::refresh;
use crate::changes::{Change, Diff, PodChange};
use crate::context::Context;
use crate::decision_inputs::DecisionInputs;
use crate::disruption::Progress;
use crate::provisioning::Batcher;
use crate::reconciler::LeaderTask;

/// The time between two observations of the cluster: that between two rounds of disruption (DIS-006).
const OBSERVE_EVERY: Duration = Duration::from_secs(10);

/// Decides and carries nothing out.
pub(crate) struct ShadowObserver {
    context: Context,
    batcher: Batcher,
    records: RecordFile,
    state: Mutex<ObserverState>,
    provisioning: Arc<Mutex<Memory>>,
    disruption: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct ObserverState {
    scale_up: Option<ScaleUp>,
    /// What Kerf would have done in the current scale-up.
    planned: Option<Planned>,
    machines: Machines,
    standing: StandingCommands,
    /// Why the other autoscaler deletes NodeClaims, by name, until the deletion is recorded.
    reasons: BTreeMap<String, String>,
}

/// The plan of the last pass of a scale-up.
struct Planned {
    pods: usize,
    left_over: usize,
    launches: Vec<Machine>,
}

impl ShadowObserver {
    /// An observer that appends to `records`.
    pub(crate) fn new(context: &Context, records: RecordFile) -> Arc<Self> {
        let options = &context.options;
        Arc::new(Self {
            batcher: Batcher::new(options.batch_idle_duration, options.batch_max_duration),
            records,
            state: Mutex::default(),
            // A cache of its own each: passes see another cluster than rounds.
            provisioning: Arc::default(),
            disruption: Arc::default(),
            context: context.clone(),
        })
    }

    fn state(&self) -> MutexGuard<'_, ObserverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod begins to wait.
    fn note_waiting(&self, uid: &Arc<str>) {
        let (now, uptime) = (self.context.now(), self.context.cluster.uptime());
        let mut state = self.state();
        match &mut state.scale_up {
            Some(scale_up) => scale_up.note(uptime),
            None => {
                let claims = self.context.cluster.claims();
                let names = claims.iter().filter_map(|claim| claim.metadata.name.as_deref());
                let before: BTreeSet<Arc<str>> = names.map(Arc::from).collect();
                state.scale_up = Some(ScaleUp::begin(now, uptime, before));
            }
        }
        drop(state);
        self.batcher.trigger(Arc::clone(uid));
    }

    fn note_claim(&self, claim: &Diff<NodeClaim>) {
        let uptime = self.context.cluster.uptime();
        let mut state = self.state();
        if let Some(scale_up) = state.scale_up.as_mut().filter(|_| claim.is_new()) {
            scale_up.note(uptime);
        }
        let reason = claim.last().and_then(|last| last.condition(DISRUPTION_REASON));
        if let Some(reason) = reason.filter(|condition| condition.is_true()) {
            state
                .reasons
                .insert(claim.name().to_owned(), reason.reason().to_owned());
        }
    }

    /// Runs passes until `shutdown` is cancelled.
    async fn passes(&self, shutdown: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                _ = self.batcher.wait() => {}
            }
            // NodeClaims of the other autoscaler that are not launched yet do not delay a pass: it plans as if they did not exist.
            if let Err(error) = self.pass(shutdown).await {
                tracing::error!(%error, "planning beside the other autoscaler");
            }
        }
    }

    /// Plans for all pods of the scale-up from its beginning.
    async fn pass(&self, shutdown: &CancellationToken) -> Result<(), ReconcileError> {
        let context = &self.context;
        refresh(context).await;
        let Some(before) = self.state().scale_up.as_ref().map(|scale_up| scale_up.before.clone()) else {
            return Ok(());
        };
        let inputs = DecisionInputs::take(context);
        let unanswered = before_answers(&inputs.snapshot, &before);
        let inputs = inputs.with_snapshot(unanswered.snapshot);
        let snapshot = Arc::clone(&inputs.snapshot);
        let (memory, deadline, stopped) = (
            Arc::clone(&self.provisioning),
            context.tuning.deadline,
            shutdown.clone(),
        );
        let began = Instant::now();
        let decide = move || {
            let stop = || began.elapsed() >= deadline || stopped.is_cancelled();
            let memory = &mut memory.lock().unwrap_or_else(PoisonError::into_inner);
            provision(&inputs.view(), memory, &stop)
        };
        let decision = context.compute(decide).await?;
        if !shutdown.is_cancelled() {
            self.planned(&snapshot, decision);
        }
        Ok(())
    }

    fn planned(&self, snapshot: &Snapshot, decision: Provision) {
        let plan = decision.plan.unwrap_or_default();
        let machines = |launch: &Launch| Machine::of_launch(launch, &snapshot.interner);
        let planned = Planned {
            pods: decision.batch.pods.len(),
            left_over: plan.left_over() + plan.ignored.len(),
            launches: plan.launches.iter().map(machines).collect(),
        };
        log_launches(&plan);
        let mut state = self.state();
        // It may have ended meanwhile; the next pod that waits begins another one.
        if state.scale_up.is_some() {
            state.planned = Some(planned);
        }
    }

    /// Observes the cluster until `shutdown` is cancelled.
    async fn looks(&self, shutdown: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(OBSERVE_EVERY) => {}
            }
            self.context.cluster.expire(self.context.now());
            self.look_at_machines();
            self.end_scale_up();
            let is_in_doubt = self.context.jump_guard.hold().is_some();
            if is_in_doubt || !self.context.cluster.is_synced() {
                continue;
            }
            if let Err(error) = self.round(shutdown).await {
                tracing::error!(%error, "evaluating disruption beside the other autoscaler");
            }
        }
    }

    /// Records machines that are deleted, and the cost of the cluster.
    fn look_at_machines(&self) {
        let time = self.context.now();
        let snapshot = self.context.cluster.snapshot(time);
        let mut state = self.state();
        let change = state.machines.update(&snapshot);
        for (claim, machine) in change.ended {
            let reason = state.reasons.remove(&*claim);
            tracing::info!(NodeClaim = %claim, reason, "the other autoscaler ends a machine");
            self.records.append(&ShadowRecord::Ended { time, reason, machine });
            if let Some(scale_up) = &mut state.scale_up {
                scale_up.disturbed = true;
            }
        }
        // Reasons of NodeClaims that were created and deleted between two observations.
        let known: BTreeSet<&str> = snapshot
            .nodes
            .iter()
            .filter_map(|node| node.claim_name.as_deref())
            .collect();
        state.reasons.retain(|claim, _| known.contains(claim.as_str()));
        if let Some((nodes, price)) = change.cost {
            let price_per_hour = price.per_hour();
            self.records.append(&ShadowRecord::Cost {
                time,
                nodes,
                price_per_hour,
            });
        }
    }

    /// Records the scale-up that has ended.
    fn end_scale_up(&self) {
        let (time, uptime) = (self.context.now(), self.context.cluster.uptime());
        let (scale_up, planned) = {
            let mut state = self.state();
            let Some(scale_up) = state.scale_up.take_if(|scale_up| scale_up.is_over(uptime)) else {
                return;
            };
            (scale_up, state.planned.take())
        };
        // Its pods were bound before the first pass.
        let Some(planned) = planned else { return };
        let snapshot = self.context.cluster.snapshot(time);
        let answers = before_answers(&snapshot, &scale_up.before).answers;
        let other: Vec<Machine> = answers
            .iter()
            .map(|node| Machine::of_node(node, &snapshot.interner))
            .collect();
        tracing::info!(
            pods = planned.pods,
            nodeclaims = planned.launches.len(),
            "hourly-price" = sum(&planned.launches),
            "other-nodeclaims" = other.len(),
            "other-hourly-price" = sum(&other),
            "a scale-up of the other autoscaler is over"
        );
        if !planned.launches.is_empty() {
            self.count("launch", "provisioned");
        }
        self.records.append(&ShadowRecord::ScaleUp {
            time,
            began: scale_up.began,
            pods: planned.pods,
            kerf: planned.launches,
            kerf_left_over: planned.left_over,
            other,
            other_left_over: snapshot.pending.len(),
            disturbed: scale_up.disturbed,
        });
    }

    /// One round of disruption. Commands that wait are validated after their wait, as those that are carried out.
    async fn round(&self, shutdown: &CancellationToken) -> Result<(), ReconcileError> {
        refresh(&self.context).await;
        let (inputs, progress) = (
            DecisionInputs::take(&self.context),
            Progress::new(&self.context, shutdown),
        );
        let evaluations = self
            .with_memory(move |memory| disrupt(&inputs.view(), Method::Emptiness, memory, &progress).evaluations)
            .await?;
        let wait = evaluations
            .iter()
            .filter(|one| !one.commands.is_empty())
            .map(|one| one.wait)
            .max();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait.unwrap_or_default()) => {}
        }
        let mut valid: Vec<Command> = Vec::new();
        for evaluation in evaluations {
            for command in evaluation.commands {
                let found = match evaluation.wait.is_zero() {
                    true => Some(command),
                    false => self.validated(evaluation.method, command, &valid).await?,
                };
                valid.extend(found);
            }
        }
        self.decided(&valid);
        Ok(())
    }

    /// The command, if it could be started after its wait together with those `before` it.
    async fn validated(
        &self,
        method: Method,
        command: Command,
        before: &[Command],
    ) -> Result<Option<Command>, ReconcileError> {
        let (inputs, before) = (DecisionInputs::take(&self.context), before.to_vec());
        self.with_memory(move |memory| {
            let view = inputs.view();
            let valid = validate(&view, method, &command, &before, memory).result.ok()?;
            if !method.consolidates() {
                return Some(valid);
            }
            revalidate_candidates(&view, method, &valid, &before, memory)
                .result
                .ok()
        })
        .await
    }

    /// Records the commands that were not decided before, and those that are no longer right.
    fn decided(&self, commands: &[Command]) {
        let time = self.context.now();
        let interner = &self.context.interner;
        let mut state = self.state();
        let change = state.standing.update(commands);
        for (standing, command) in change.new {
            let reason = command.reason.as_str();
            let savings_per_hour = standing.savings.per_hour();
            tracing::info!(
                reason,
                savings = savings_per_hour,
                "would disrupt node(s): {}",
                command.short()
            );
            let nodes = command
                .candidates
                .iter()
                .map(|candidate| Machine::of_node(&candidate.node, interner));
            let replacements = command
                .replacements
                .iter()
                .map(|launch| Machine::of_launch(launch, interner));
            self.records.append(&ShadowRecord::Command {
                time,
                id: standing.id,
                reason: reason.to_owned(),
                nodes: nodes.collect(),
                replacements: replacements.collect(),
                savings_per_hour,
            });
            self.count("disrupt", command.reason.label());
        }
        for ended in change.ended {
            self.records.append(&ShadowRecord::CommandEnded { time, id: ended.id });
        }
        let savings = state.standing.savings().per_hour();
        self.context.metrics.gauge(&catalogue::SHADOW_SAVINGS).set(&[], savings);
    }

    /// Computes with the memory of disruption, on a thread of its own where that is allowed.
    async fn with_memory<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Memory) -> T + Send + 'static,
    ) -> Result<T, ReconcileError> {
        let memory = Arc::clone(&self.disruption);
        let work = move || work(&mut memory.lock().unwrap_or_else(PoisonError::into_inner));
        self.context.compute(work).await
    }

    fn count(&self, decision: &str, reason: &str) {
        let decisions = self.context.metrics.counter(&catalogue::SHADOW_DECISIONS);
        decisions.inc(&[decision, reason]);
    }
}

/// The price of machines per hour, as far as it is known.
fn sum(machines: &[Machine]) -> f64 {
    let prices = machines.iter().filter_map(|machine| machine.price_per_hour);
    // `sum` of no numbers is -0.0.
    prices.fold(0.0, |sum, price| sum + price)
}

fn log_launches(plan: &Plan) {
    if plan.launches.is_empty() {
        return;
    }
    tracing::info!(
        nodeclaims = plan.launches.len(),
        pods = plan.launched_pods(),
        "hourly-price" = plan.price().per_hour(),
        "would launch nodeclaim(s) to fit pod(s)"
    );
}

/// The pod that begins to wait with a change.
fn begins_to_wait(pod: &PodChange) -> Option<&Arc<str>> {
    let waits = |facts: &&crate::changes::PodFacts| facts.provisionable;
    let before = pod.before.as_ref().filter(waits).map(|facts| &facts.uid);
    let after = pod.after.as_ref().filter(waits).map(|facts| &facts.uid);
    after.filter(|uid| before != Some(uid))
}

#[async_trait]
impl LeaderTask for ShadowObserver {
    fn name(&self) -> &'static str {
        "shadow"
    }

    fn notify(&self, change: &Change) {
        match change {
            Change::Pod(pod) => {
                if let Some(uid) = begins_to_wait(pod) {
                    self.note_waiting(uid);
                }
            }
            Change::Claim(claim) => self.note_claim(claim),
            Change::Node(_) | Change::Pool(_) | Change::Overlay(_) | Change::Buffer(_) | Change::Class(_) => {}
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        self.records.append(&ShadowRecord::Start {
            time: self.context.now(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        });
        tokio::join!(self.passes(&shutdown), self.looks(&shutdown));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_machines_cost_nothing_without_a_sign() {
        assert_eq!(format!("{:?}", sum(&[])), "0.0");
    }
}
