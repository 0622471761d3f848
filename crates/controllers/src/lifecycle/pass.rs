//! One look at a claim that is to live: launch, registration, initialization and liveness, in this order (LIF-018).
//!
//! A pass changes a copy of the claim and remembers what to tell once the copy is stored, so that nothing is counted twice when
//! the write fails and the pass is repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kerf_api::conditions::node_claim::{
    INITIALIZED, LAUNCHED, MULTIPLE_NODES_FOUND, MULTIPLE_NODES_FOUND_MESSAGE, NODE_NOT_FOUND, NODE_NOT_FOUND_MESSAGE,
    REGISTERED, REGISTRATION_HOOK_PENDING,
};
use kerf_api::status::Conditioned;
use kerf_api::{Condition, ConditionSet, ConditionStatus, NodeClaim, labels};
use kerf_cloud::LaunchVerdict;
use kerf_runtime::client::found;
use kerf_runtime::logging::json as logged;
use kerf_runtime::metrics::catalogue::NODES_CREATED;
use kerf_runtime::{Event, EventType, ObjectRef, Outcome, ReconcileError};
use kerf_state::lean::LeanNode;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;

use super::controller::Lifecycle;
use super::health::Start;
use super::initialization::{closed_gate, forgotten, shown};
use super::liveness::{Liveness, measure};
use super::rejoin::rejoin;
use super::{hooks, launch, pool_health, registration};
use crate::claim_facts::{self, disrupt};
use crate::patch::{Lock, patch_object};

/// How often a pool's owner is reminded of one forgotten taint.
const FORGOTTEN_AGAIN: Duration = Duration::from_secs(3600);

/// A claim on its way through one pass.
pub(super) struct Pass<'a> {
    lifecycle: &'a Lifecycle,
    /// The claim with what the pass made of it.
    pub(super) claim: NodeClaim,
    /// The claim was deleted: nothing is left to write.
    pub(super) ended: bool,
    again: Option<Duration>,
    /// Something asked to be tried again after the claim's growing pause.
    backed_off: bool,
    errors: Vec<ReconcileError>,
    tell: Vec<Telling>,
}

/// What is told once it is stored.
enum Telling {
    Launched,
    Registered { zone: String },
    Initialized { allocatable: BTreeMap<String, Quantity> },
}

impl<'a> Pass<'a> {
    pub(super) fn new(lifecycle: &'a Lifecycle, claim: &NodeClaim) -> Self {
        Self {
            lifecycle,
            claim: claim.clone(),
            ended: false,
            again: None,
            backed_off: false,
            errors: Vec::new(),
            tell: Vec::new(),
        }
    }

    /// The four steps. The error of one does not stop the next (LIF-018); the end of the claim does.
    pub(super) async fn run(&mut self) {
        ConditionSet::new(&mut self.claim, self.lifecycle.context.now());
        if let [node] = self.nodes().as_slice()
            && let Err(error) = rejoin(
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

    /// LIF-019: errors win, else the soonest repetition.
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

    /// The pass is stored: tell of it.
    pub(super) fn stored(&mut self, stored: &NodeClaim) {
        let context = &self.lifecycle.context;
        let name = claim_facts::name(stored);
        let id = claim_facts::provider_id(stored).unwrap_or_default();
        for telling in self.tell.drain(..) {
            match telling {
                Telling::Launched => {
                    self.lifecycle.launches.forget(claim_facts::uid(stored));
                    tracing::info!(NodeClaim = name, provider_id = id, "launched nodeclaim");
                }
                Telling::Registered { zone } => {
                    context
                        .metrics
                        .counter(&NODES_CREATED)
                        .inc(&[claim_facts::pool(stored), &zone]);
                    tracing::info!(NodeClaim = name, provider_id = id, "registered nodeclaim");
                }
                Telling::Initialized { allocatable } => {
                    let allocatable = logged(&allocatable);
                    tracing::info!(NodeClaim = name, provider_id = id, %allocatable, "initialized nodeclaim");
                }
            }
        }
    }

    /// LIF-021 to LIF-026.
    async fn launch(&mut self) -> Result<(), ReconcileError> {
        if !launch::is_due(&self.claim) {
            self.renew(LAUNCHED);
            return Ok(());
        }
        let uid = claim_facts::uid(&self.claim).to_owned();
        if let Some(pause) = self.lifecycle.launches.pause(&uid) {
            self.look_again_in(pause);
            return Ok(());
        }
        let answer = match self.lifecycle.launches.get(&uid) {
            Some(known) => Ok(known),
            None => self.lifecycle.context.provider.create(&self.claim).await,
        };
        let now = self.lifecycle.context.now();
        match answer {
            Ok(instance) => {
                launch::succeeded(&mut self.claim, &instance, now);
                self.lifecycle.launches.put(&uid, instance);
                self.tell.push(Telling::Launched);
                Ok(())
            }
            Err(error) => {
                let verdict = launch::failed(&mut self.claim, &error, now);
                let LaunchVerdict::GiveUp { reason } = verdict else {
                    self.lifecycle.launches.failed(&uid, &error);
                    return Err(error.into());
                };
                if matches!(error, kerf_cloud::CloudError::InsufficientCapacity(_)) {
                    let message = launch::capacity_message(claim_facts::name(&self.claim), &error);
                    self.warn("InsufficientCapacityError", message);
                }
                tracing::error!(NodeClaim = claim_facts::name(&self.claim), error = %error, "failed launching nodeclaim");
                disrupt(&self.lifecycle.context, &self.claim, reason).await?;
                self.ended = true;
                Ok(())
            }
        }
    }

    /// LIF-028 to LIF-038.
    async fn register(&mut self) -> Result<(), ReconcileError> {
        if self
            .claim
            .condition(REGISTERED)
            .is_some_and(|registered| !registered.is_unknown())
        {
            self.renew(REGISTERED);
            return Ok(());
        }
        let nodes = self.nodes();
        let node = match nodes.as_slice() {
            [] => None,
            [only] => self.live(only).await?,
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
        let Some(before) = node else {
            self.set(
                REGISTERED,
                ConditionStatus::Unknown,
                NODE_NOT_FOUND,
                NODE_NOT_FOUND_MESSAGE,
            );
            return Ok(());
        };
        let context = &self.lifecycle.context;
        if registration::lacks_unregistered_taint(&before) {
            let message = "Missing karpenter.sh/unregistered taint which prevents registration related race conditions on Karpenter-managed nodes";
            self.warn("UnregisteredTaintMissing", message.to_owned());
            tracing::error!(NodeClaim = claim_facts::name(&self.claim), "{message}");
        }
        let answers = hooks::ask(context.provider.registration_hooks(), &self.claim).await;
        let mut after = before.clone();
        if let Some(waiting) = answers.waiting() {
            registration::sync(&self.claim, &mut after);
            patch_object(&context.client, &before, &after, Lock::Optimistic).await?;
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
        registration::sync(&self.claim, &mut after);
        registration::complete(&mut after);
        patch_object(&context.client, &before, &after, Lock::Optimistic).await?;
        pool_health::note(self.lifecycle, &self.claim, Start::Registered);
        self.set(REGISTERED, ConditionStatus::True, REGISTERED, "");
        self.claim
            .status
            .get_or_insert_default()
            .node_name
            .clone_from(&after.metadata.name);
        let zone = claim_facts::label(after.metadata.labels.as_ref(), labels::ZONE).to_owned();
        self.tell.push(Telling::Registered { zone });
        Ok(())
    }

    /// LIF-039 to LIF-047.
    async fn initialize(&mut self) -> Result<(), ReconcileError> {
        if self
            .claim
            .condition(INITIALIZED)
            .is_some_and(|initialized| !initialized.is_unknown())
        {
            self.renew(INITIALIZED);
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
        // A Node as it was before its registration may lack startup taints; its next change comes here again.
        let is_synced = |node: &&Arc<LeanNode>| {
            claim_facts::label(node.metadata.labels.as_ref(), labels::REGISTERED) == labels::TRUE
        };
        if node.is_some() && node.filter(is_synced).is_none() {
            return Ok(());
        }
        self.tell_of_forgotten(node.map(|node| &**node));
        let known = &self.lifecycle.startup_taints;
        if let Some(gate) = closed_gate(&self.claim, node.map(|node| &**node), known) {
            self.set(INITIALIZED, ConditionStatus::Unknown, gate.reason(), &gate.message());
            return Ok(());
        }
        let name = node.and_then(|node| node.metadata.name.as_deref()).unwrap_or_default();
        let patch = json!({"metadata": {"labels": {labels::INITIALIZED: labels::TRUE}}});
        let api: Api<Node> = Api::all(self.lifecycle.context.client.clone());
        let stored = found(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await)?;
        if let Some(node) = stored {
            self.set(INITIALIZED, ConditionStatus::True, INITIALIZED, "");
            let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
            self.tell.push(Telling::Initialized { allocatable });
        }
        Ok(())
    }

    /// Names taints to the pool's owner that its nodes carry while they start and that it does not declare.
    fn tell_of_forgotten(&self, node: Option<&LeanNode>) {
        let context = &self.lifecycle.context;
        let (Some(node), Some(pool)) = (node, context.cluster.pool(claim_facts::pool(&self.claim))) else {
            return;
        };
        for taint in forgotten(&self.claim, node, &self.lifecycle.startup_taints) {
            let taint = shown(taint);
            context.recorder.publish(Event {
                object: ObjectRef::of(&*pool),
                kind: EventType::Warning,
                reason: "UndeclaredStartupTaint".into(),
                message: format!(
                    "Nodes start with the taint {taint}, which goes by itself but is not declared; add it to spec.template.spec.startupTaints"
                ),
                dedupe: vec![pool.metadata.uid.clone().unwrap_or_default(), taint],
                dedupe_timeout: Some(FORGOTTEN_AGAIN),
            });
        }
    }

    /// LIF-051 to LIF-055.
    async fn check_liveness(&mut self) -> Result<(), ReconcileError> {
        let context = &self.lifecycle.context;
        let timeout = match measure(&self.claim, &self.lifecycle.timeouts, context.now()) {
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
        let failed = Start::Failed(pool_health::failure(&self.claim));
        pool_health::note(self.lifecycle, &self.claim, failed);
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

    /// The Node as the API server has it now: what is written back must not be based on an older one.
    async fn live(&self, node: &LeanNode) -> Result<Option<Node>, kube::Error> {
        let api: Api<Node> = Api::all(self.lifecycle.context.client.clone());
        let live = found(api.get(node.metadata.name.as_deref().unwrap_or_default()).await)?;
        Ok(live.filter(|live| live.metadata.uid == node.metadata.uid && live.metadata.deletion_timestamp.is_none()))
    }

    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        ConditionSet::new(&mut self.claim, self.lifecycle.context.now()).set(type_, status, reason, message);
    }

    /// Sets a condition as it is, for the current generation (LIF-013).
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

    fn warn(&self, reason: &'static str, message: String) {
        self.lifecycle.context.recorder.publish(Event {
            object: ObjectRef::of(&self.claim),
            kind: EventType::Warning,
            reason: reason.into(),
            message,
            dedupe: vec![claim_facts::uid(&self.claim).to_owned()],
            dedupe_timeout: None,
        });
    }
}
