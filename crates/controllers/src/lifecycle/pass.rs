//! One pass over a claim that is not being deleted: launch, registration, initialization and liveness, in this order (LIF-018).
//!
//! A pass changes a copy of the claim. Metrics and log lines follow once the copy is stored, so that nothing is counted twice when the
//! write fails and the pass is repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kerf_api::conditions::node_claim::{
    CONSISTENT_STATE_FOUND, INITIALIZED, LAUNCHED, MULTIPLE_NODES_FOUND, MULTIPLE_NODES_FOUND_MESSAGE, NODE_NOT_FOUND,
    NODE_NOT_FOUND_MESSAGE, REGISTERED, REGISTRATION_HOOK_PENDING,
};
use kerf_api::status::Conditioned;
use kerf_api::{Condition, ConditionSet, ConditionStatus, NodeClaim, labels, taints};
use kerf_cloud::LaunchFailure;
use kerf_lifecycle::liveness::{Liveness, measure};
use kerf_lifecycle::registration_health::Registration;
use kerf_runtime::client::{name_of, uid_of};
use kerf_runtime::logging::json as logged;
use kerf_runtime::metrics::catalogue::NODES_CREATED;
use kerf_runtime::{Event, EventType, ObjectRef, Outcome, ReconcileError};
use kerf_state::lean::LeanNode;
use std::sync::Arc;

use super::controller::Lifecycle;
use super::initialization::{closed_gate, forgotten, quiet_for, shown};
use super::liveness::progress;
use super::reregistration::register_again;
use super::{hooks, launch, pool_health, registration};
use crate::claim_facts;
use crate::claim_writes::disrupt;
use crate::node_writes::{Edited, as_read, edit_node, label_node};
use crate::pod_event_time::set_pod_event_time;

/// The time between two events about one undeclared startup taint of a pool.
const FORGOTTEN_AGAIN: Duration = Duration::from_secs(3600);

/// The state of a pass.
pub(super) struct Pass<'a> {
    lifecycle: &'a Lifecycle,
    /// The claim with the changes of the pass.
    pub(super) claim: NodeClaim,
    /// Whether the claim had its provider id before the pass.
    is_launch_stored: bool,
    /// Whether the pass deleted the claim: then nothing is left to write.
    pub(super) ended: bool,
    again: Option<Duration>,
    /// Whether a hook wants to be called again after the back-off of the queue.
    backed_off: bool,
    errors: Vec<ReconcileError>,
    milestones: Vec<Milestone>,
}

/// What is logged and counted once the changes are stored.
enum Milestone {
    Launched,
    Registered { zone: String },
    Initialized { allocatable: BTreeMap<String, Quantity> },
}

impl<'a> Pass<'a> {
    pub(super) fn new(lifecycle: &'a Lifecycle, claim: &NodeClaim) -> Self {
        Self {
            lifecycle,
            claim: claim.clone(),
            is_launch_stored: claim_facts::provider_id(claim).is_some(),
            ended: false,
            again: None,
            backed_off: false,
            errors: Vec::new(),
            milestones: Vec::new(),
        }
    }

    /// Runs the four steps. An error of one does not stop the next (LIF-018); the deletion of the claim does.
    pub(super) async fn run(&mut self) {
        ConditionSet::new(&mut self.claim, self.lifecycle.context.now());
        if let [node] = self.nodes().as_slice()
            && let Err(error) = register_again(
                &self.lifecycle.context,
                &self.lifecycle.startup_taints,
                &self.claim,
                node,
            )
            .await
        {
            self.errors.push(error);
        }
        if let Err(error) = self.launch().await {
            self.errors.push(error);
        }
        if self.ended {
            return;
        }
        if let Err(error) = self.register().await {
            self.errors.push(error);
        }
        if let Err(error) = self.initialize().await {
            self.errors.push(error);
        }
        if let Err(error) = self.check_liveness().await {
            self.errors.push(error);
        }
    }

    /// The outcome of the pass: the error if there is one, else a repetition after the shortest time a step asked for (LIF-019).
    pub(super) fn outcome(self) -> Result<Outcome, ReconcileError> {
        let mut errors = self.errors.into_iter();
        match (errors.next(), self.again) {
            (Some(first), _) => match errors.map(|error| error.to_string()).reduce(|a, b| format!("{a}; {b}")) {
                Some(others) => Err(ReconcileError::message(format!("{first}; {others}"))),
                None => Err(first),
            },
            (None, _) if self.backed_off => Ok(Outcome::Requeue),
            (None, Some(delay)) => Ok(Outcome::RequeueAfter(delay)),
            (None, None) => Ok(Outcome::Done),
        }
    }

    /// Logs and counts the milestones of the stored claim.
    pub(super) fn stored(&mut self, stored: &NodeClaim) {
        let context = &self.lifecycle.context;
        let name = claim_facts::name(stored);
        let id = claim_facts::provider_id(stored);
        let node = stored.status.as_ref().and_then(|status| status.node_name.as_deref());
        for milestone in self.milestones.drain(..) {
            match milestone {
                Milestone::Launched => {
                    if let Some(uid) = claim_facts::uid(stored) {
                        self.lifecycle.launches.forget(uid);
                    }
                    let label = |key| claim_facts::label(stored.metadata.labels.as_ref(), key);
                    let allocatable = stored.status.as_ref().map(|status| logged(&status.allocatable));
                    tracing::info!(
                        NodeClaim = name,
                        "provider-id" = id,
                        "instance-type" = label(labels::INSTANCE_TYPE),
                        zone = label(labels::ZONE),
                        "capacity-type" = label(labels::CAPACITY_TYPE),
                        allocatable = allocatable.map(tracing::field::display),
                        "launched nodeclaim"
                    );
                }
                Milestone::Registered { zone } => {
                    context
                        .metrics
                        .counter(&NODES_CREATED)
                        .inc(&[claim_facts::pool_label(stored), &zone]);
                    tracing::info!(
                        NodeClaim = name,
                        "provider-id" = id,
                        Node = node,
                        "registered nodeclaim"
                    );
                }
                Milestone::Initialized { allocatable } => {
                    let allocatable = logged(&allocatable);
                    tracing::info!(
                        NodeClaim = name,
                        "provider-id" = id,
                        Node = node,
                        %allocatable,
                        "initialized nodeclaim"
                    );
                }
            }
        }
    }

    /// Launches an instance unless there is one (LIF-021 to LIF-026).
    async fn launch(&mut self) -> Result<(), ReconcileError> {
        if !launch::is_due(&self.claim) {
            self.renew(LAUNCHED);
            return Ok(());
        }
        let (name, uid) = (name_of(&self.claim)?.to_owned(), uid_of(&self.claim)?.to_owned());
        if let Some(pause) = self.lifecycle.launches.pause(&uid) {
            self.look_again_in(pause);
            return Ok(());
        }
        let answer = match self.lifecycle.launches.get(&uid) {
            Some(known) => Ok(known),
            None => self.lifecycle.context.provider.create(&self.claim).await,
        };
        let now = self.lifecycle.context.now();
        let any_capacity = match &answer {
            Ok(_) => Some(true),
            Err(kerf_cloud::CloudError::InsufficientCapacity(_)) => Some(false),
            Err(_) => None,
        };
        // The launches of a pool are limited while they find no capacity; a standalone claim has no pool.
        if let (Some(any_capacity), Some(pool)) = (any_capacity, claim_facts::pool(&self.claim)) {
            let cluster = &self.lifecycle.context.cluster;
            cluster.note_launch_result(pool, &name, any_capacity, now);
        }
        match answer {
            Ok(instance) => {
                launch::succeeded(&mut self.claim, &instance, now);
                self.lifecycle.launches.put(&uid, instance);
                self.milestones.push(Milestone::Launched);
                Ok(())
            }
            Err(error) => {
                let verdict = launch::failed(&mut self.claim, &error, now);
                let LaunchFailure::DeleteClaim { reason } = verdict else {
                    self.lifecycle.launches.failed(&uid, &error);
                    return Err(error.into());
                };
                if matches!(error, kerf_cloud::CloudError::InsufficientCapacity(_)) {
                    let message = launch::capacity_message(&name, &error);
                    self.warn("InsufficientCapacityError", message);
                }
                tracing::error!(NodeClaim = name, error = %error, "failed launching nodeclaim");
                disrupt(&self.lifecycle.context, &self.claim, reason).await?;
                self.ended = true;
                Ok(())
            }
        }
    }

    /// Registers the Node (LIF-028 to LIF-038).
    async fn register(&mut self) -> Result<(), ReconcileError> {
        if self.renew_if_known(REGISTERED) {
            return Ok(());
        }
        // A process that starts does not know an instance whose id is not stored, and ends it (AWS-325): so no pod may run there.
        if !self.is_launch_stored {
            self.set_node_not_found();
            return Ok(());
        }
        let nodes = self.nodes();
        let node = match nodes.as_slice() {
            [] => None,
            [only] if only.metadata.deletion_timestamp.is_none() => Some(only),
            [_] => None,
            _ => {
                self.set(
                    REGISTERED,
                    ConditionStatus::False,
                    MULTIPLE_NODES_FOUND,
                    MULTIPLE_NODES_FOUND_MESSAGE,
                );
                return Ok(());
            }
        };
        let Some(known) = node else {
            self.set_node_not_found();
            return Ok(());
        };
        let context = &self.lifecycle.context;
        if registration::lacks_unregistered_taint(&as_read(known)) {
            let message = "Missing karpenter.sh/unregistered taint which prevents registration related race conditions on Karpenter-managed nodes";
            self.warn("UnregisteredTaintMissing", message.to_owned());
            tracing::error!(
                taint = taints::UNREGISTERED,
                error = message,
                NodeClaim = claim_facts::name(&self.claim),
                "node claim registration error"
            );
        }
        let answers = hooks::ask(context.provider.registration_hooks(), &self.claim).await;
        if let Some(waiting) = answers.waiting() {
            tracing::debug!(
                hooks = waiting,
                NodeClaim = claim_facts::name(&self.claim),
                "awaiting registration hooks"
            );
            edit_node(context, known, |node| registration::sync(&self.claim, node)).await?;
            self.set(
                REGISTERED,
                ConditionStatus::Unknown,
                REGISTRATION_HOOK_PENDING,
                &waiting,
            );
            match answers.again() {
                Some(delay) => self.look_again_in(delay),
                None => self.backed_off = true,
            }
            return answers.errors();
        }
        answers.apply(&mut self.claim);
        let edited = edit_node(context, known, |node| {
            registration::sync(&self.claim, node);
            registration::complete(node);
        });
        let Some(Edited { node, .. }) = edited.await? else {
            self.set_node_not_found();
            return Ok(());
        };
        pool_health::record(self.lifecycle, &self.claim, Registration::Succeeded);
        self.set(REGISTERED, ConditionStatus::True, REGISTERED, "");
        // LIF-135: of a claim that is not initialized nothing is checked. Written here it costs no call of its own.
        if self.claim.condition(CONSISTENT_STATE_FOUND).is_none() {
            self.set(
                CONSISTENT_STATE_FOUND,
                ConditionStatus::True,
                CONSISTENT_STATE_FOUND,
                "",
            );
        }
        self.claim
            .status
            .get_or_insert_default()
            .node_name
            .clone_from(&node.metadata.name);
        let zone = claim_facts::label(node.metadata.labels.as_ref(), labels::ZONE).to_owned();
        self.milestones.push(Milestone::Registered { zone });
        Ok(())
    }

    /// Initializes the registered Node (LIF-039 to LIF-047).
    async fn initialize(&mut self) -> Result<(), ReconcileError> {
        if self.renew_if_known(INITIALIZED) {
            return Ok(());
        }
        if !self.claim.condition_is_true(REGISTERED) {
            return Ok(());
        }
        let nodes = self.nodes();
        let node = match nodes.as_slice() {
            [only] => Some(only),
            _ => None,
        };
        // The cached Node may be older than its registration and lack startup taints; its next change reconciles the claim again.
        let is_synced = |node: &&Arc<LeanNode>| {
            claim_facts::label(node.metadata.labels.as_ref(), labels::REGISTERED) == labels::TRUE
        };
        if node.is_some() && node.filter(is_synced).is_none() {
            return Ok(());
        }
        self.report_forgotten(node.map(|node| &**node));
        let known = &self.lifecycle.startup_taints;
        if let Some(gate) = closed_gate(&self.claim, node.map(|node| &**node), known) {
            match quiet_for(&gate, node.map(|node| &**node), self.lifecycle.context.now()) {
                Some(left) => self.look_again_in(left),
                None => self.set(INITIALIZED, ConditionStatus::Unknown, gate.reason(), &gate.message()),
            }
            return Ok(());
        }
        // Without a Node the gate is closed.
        let Some(node) = node else { return Ok(()) };
        let stored = label_node(
            &self.lifecycle.context,
            name_of(&**node)?,
            labels::INITIALIZED,
            labels::TRUE,
        )
        .await?;
        if let Some(node) = stored {
            self.set(INITIALIZED, ConditionStatus::True, INITIALIZED, "");
            // Deviation at LIF-137: pods bind about now, and a pod event in this patch needs none of its own.
            set_pod_event_time(&mut self.claim, self.lifecycle.context.now());
            let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
            self.milestones.push(Milestone::Initialized { allocatable });
        }
        Ok(())
    }

    /// Publishes an event on the pool about startup taints of its nodes that it does not declare.
    fn report_forgotten(&self, node: Option<&LeanNode>) {
        let context = &self.lifecycle.context;
        let pool = claim_facts::pool(&self.claim).and_then(|pool| context.cluster.pool(pool));
        let (Some(node), Some(object)) = (node, pool.as_deref().and_then(ObjectRef::of)) else {
            return;
        };
        for taint in forgotten(&self.claim, node, &self.lifecycle.startup_taints) {
            let taint = shown(taint);
            context.recorder.publish(Event {
                dedupe: vec![object.uid.clone(), taint.clone()],
                object: object.clone(),
                kind: EventType::Warning,
                reason: "UndeclaredStartupTaint".into(),
                message: format!(
                    "Nodes start with the taint {taint}, which goes by itself but is not declared; add it to spec.template.spec.startupTaints"
                ),
                dedupe_timeout: Some(FORGOTTEN_AGAIN),
            });
        }
    }

    /// Deletes the claim when it takes too long (LIF-051 to LIF-055).
    async fn check_liveness(&mut self) -> Result<(), ReconcileError> {
        let context = &self.lifecycle.context;
        let timeout = match measure(progress(&self.claim), &self.lifecycle.timeouts, context.now()) {
            Liveness::Settled => return Ok(()),
            Liveness::Waiting(left) => {
                self.look_again_in(left);
                return Ok(());
            }
            Liveness::TimedOut(timeout) => timeout,
        };
        if let Some(hold) = context.jump_guard.hold() {
            self.look_again_in(hold);
            return Ok(());
        }
        tracing::debug!(
            NodeClaim = claim_facts::name(&self.claim),
            timeout = ?timeout.timeout,
            reason = timeout.reason,
            "terminating due to timeout"
        );
        disrupt(context, &self.claim, timeout.reason).await?;
        let failed = Registration::Failed(pool_health::failure(&self.claim));
        pool_health::record(self.lifecycle, &self.claim, failed);
        self.ended = true;
        Ok(())
    }

    fn look_again_in(&mut self, delay: Duration) {
        self.again = Some(self.again.map_or(delay, |again| again.min(delay)));
    }

    fn nodes(&self) -> Vec<Arc<LeanNode>> {
        let id = claim_facts::provider_id(&self.claim);
        id.map(|id| self.lifecycle.context.cluster.nodes_by_provider_id(id))
            .unwrap_or_default()
    }

    /// No Node that could register is known.
    fn set_node_not_found(&mut self) {
        let (reason, message) = (NODE_NOT_FOUND, NODE_NOT_FOUND_MESSAGE);
        self.set(REGISTERED, ConditionStatus::Unknown, reason, message);
    }

    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        ConditionSet::new(&mut self.claim, self.lifecycle.context.now()).set(type_, status, reason, message);
    }

    /// Sets a condition to its current value, for the current generation (LIF-013).
    fn renew(&mut self, type_: &str) {
        if let Some(Condition {
            status,
            reason,
            message,
            ..
        }) = self.claim.condition(type_).cloned()
        {
            self.set(type_, status, &reason.unwrap_or_default(), &message.unwrap_or_default());
        }
    }

    /// Renews a condition whose status is known. Returns whether it is.
    fn renew_if_known(&mut self, type_: &str) -> bool {
        let is_known = self
            .claim
            .condition(type_)
            .is_some_and(|condition| !condition.is_unknown());
        if is_known {
            self.renew(type_);
        }
        is_known
    }

    fn warn(&self, reason: &'static str, message: String) {
        let Some(object) = ObjectRef::of(&self.claim) else {
            return;
        };
        self.lifecycle.context.recorder.publish(Event {
            dedupe: vec![object.uid.clone()],
            object,
            kind: EventType::Warning,
            reason: reason.into(),
            message,
            dedupe_timeout: None,
        });
    }
}
