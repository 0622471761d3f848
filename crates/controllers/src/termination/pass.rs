//! One pass over a Node that is being deleted: taint, drain, volumes, instance, finalizer (LIF-082 to LIF-097).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod as ApiPod};
use kerf_api::conditions::node_claim::{
    AWAITING_VOLUME_DETACHMENT, DRAINED, DRAINING, INSTANCE_TERMINATING, TERMINATION_GRACE_PERIOD_ELAPSED,
    VOLUMES_DETACHED,
};
use kerf_api::status::Conditioned;
use kerf_api::{Condition, ConditionSet, NodeClaim, finalizers, labels, taints};
use kerf_cloud::CloudError;
use kerf_lifecycle::drain::{drain, is_drainable};
use kerf_lifecycle::volumes;
use kerf_model::pod::Pod;
use kerf_runtime::client::{ApiErrorKind, Part, Written, name_of, send_patch, uid_of, uid_precondition};
use kerf_runtime::metrics::catalogue::{
    NODES_DRAINED, NODES_LIFETIME_DURATION, NODES_TERMINATED, NODES_TERMINATION_DURATION,
};
use kerf_runtime::{Event, EventType, ObjectRef, Outcome, Readable, ReconcileError};
use kerf_state::lean::{LeanNode, LeanPod};
use kube::Api;
use kube::api::{ListParams, ObjectMeta, Patch};
use serde_json::json;

use super::attachments::attachment;
use super::controller::Termination;
use super::eviction::EvictionKey;
use crate::claim_facts;
use crate::claim_writes::{self, write_status};
use crate::context::Context;
use crate::deadline::{deadline, default_text, expiring_message};
use crate::lifecycle::finalize::INSTANCE_POLL;
use crate::lifecycle::initialization::is_ready;
use crate::lifecycle::taints_mut;
use crate::node_writes::edit_node;
use crate::pod_reference::pod_ref;

/// The time between two steps of a drain (LIF-086, LIF-089).
const POLL: Duration = Duration::from_secs(1);
/// The least time a drain takes: a scheduler that does not know of the taint yet may still bind a pod (LIF-087).
const DRAIN_MIN: Duration = Duration::from_secs(5);

/// Whether the instance has ended.
enum Ended {
    /// Check again after this time.
    NotYet(Duration),
    Gone,
}

/// The result of a step.
enum Step {
    Done,
    Wait(Duration),
}

pub(super) struct Pass<'a> {
    termination: &'a Termination,
    context: &'a Context,
    node: &'a LeanNode,
    name: &'a str,
    uid: &'a str,
    now: Timestamp,
    /// The time that deadlines and do-not-disrupt of pods are compared with; see [`ClockJumpGuard`](crate::ClockJumpGuard).
    judged_at: Timestamp,
}

impl<'a> Pass<'a> {
    pub(super) fn new(termination: &'a Termination, node: &'a LeanNode) -> Result<Self, kube::Error> {
        Ok(Self {
            termination,
            context: &termination.context,
            node,
            name: name_of(node)?,
            uid: uid_of(node)?,
            now: termination.context.now(),
            judged_at: termination.context.jump_guard.judged_at(),
        })
    }

    pub(super) async fn run(&self) -> Result<Outcome, ReconcileError> {
        let claim = self.claim();
        if let Some(claim) = &claim {
            // LIF-082: the claim ends with its Node.
            claim_writes::delete(self.context, claim).await?;
        }
        if self.is_instance_gone().await? {
            return self.release().await;
        }
        if !self.taint().await? {
            return Ok(Outcome::Done);
        }
        let deadline = claim.as_deref().map(deadline).transpose();
        if let (Err(illegible), Some(object)) = (&deadline, claim.as_deref().and_then(ObjectRef::of)) {
            self.context.recorder.publish(Event {
                dedupe: vec![object.uid.clone()],
                object,
                kind: EventType::Warning,
                reason: "InvalidTerminationTimestamp".into(),
                message: format!("Node cannot be drained: {illegible}"),
                dedupe_timeout: None,
            });
        }
        let deadline = deadline?.flatten();
        if let Some(deadline) = deadline {
            let message = expiring_message(deadline);
            self.publish(EventType::Warning, "TerminationGracePeriodExpiring", message);
        }
        let deadline = deadline.filter(|_| self.context.jump_guard.hold().is_none());
        // Read again: the deletion above may have added a deadline and conditions.
        let Some(before) = claim.and_then(|claim| self.context.cluster.claim(claim_facts::name(&claim)?)) else {
            return self.run_alone().await;
        };
        let mut after = NodeClaim::clone(&before);
        let step = self.drain_with(&mut after, deadline).await;
        let ended = match step {
            Ok(Step::Wait(delay)) => Ok(Ended::NotYet(delay)),
            Ok(Step::Done) => self.end_instance(&mut after, deadline).await,
            Err(error) => Err(error),
        };
        self.store(&before, &after).await?;
        match ended? {
            Ended::NotYet(delay) => Ok(Outcome::RequeueAfter(delay)),
            Ended::Gone => self.release().await,
        }
    }

    /// Whether pods run here that the cache does not have, or did not have when the drain was judged. The termination of an instance cannot
    /// be undone, so the API server is asked as well; the cache gets the pods before long.
    async fn has_unseen_pods(&self, deadline: Option<Timestamp>) -> Result<bool, kube::Error> {
        let api: Api<Readable<LeanPod>> = Api::all(self.context.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={}", self.name));
        let listed = api.list(&here).await?;
        let known = self.context.cluster.pods_on(self.name);
        if drain(&known, deadline, self.judged_at).waiting > 0 {
            return Ok(true);
        }
        let is_known = |uid: &str| known.iter().any(|pod| &*pod.uid == uid);
        let is_unseen = |meta: &ObjectMeta, phase: &str| {
            let going = meta.deletion_timestamp.is_some() || matches!(phase, "Succeeded" | "Failed");
            !going && !meta.uid.as_deref().is_some_and(is_known)
        };
        Ok(listed.items.iter().any(|pod| match &pod.0 {
            Ok(pod) => is_unseen(&pod.metadata, &pod.status.phase),
            // It may be running; an event on it says what is wrong.
            Err(unreadable) => is_unseen(&unreadable.metadata, unreadable.phase.as_deref().unwrap_or_default()),
        }))
    }

    /// Without a claim, or with several: drains the Node and removes the finalizer, but leaves the instance alone (LIF-082, LIF-087).
    async fn run_alone(&self) -> Result<Outcome, ReconcileError> {
        if let Step::Wait(delay) = self.empty(None).await? {
            return Ok(Outcome::RequeueAfter(delay));
        }
        if let (_, Step::Wait(delay)) = self.detach(None).await? {
            return Ok(Outcome::RequeueAfter(delay));
        }
        if self.has_unseen_pods(None).await? {
            return Ok(Outcome::RequeueAfter(POLL));
        }
        self.release().await
    }

    /// Drains the Node, waits for its volumes, and sets the claim's conditions for both.
    async fn drain_with(&self, claim: &mut NodeClaim, deadline: Option<Timestamp>) -> Result<Step, ReconcileError> {
        if !claim.condition_is_true(DRAINED) {
            let tainted_for = self.termination.tainted_for(self.uid);
            if let Step::Wait(delay) = self.empty(deadline).await? {
                ConditionSet::new(claim, self.now).set_unknown(DRAINED, DRAINING, DRAINING);
                return Ok(Step::Wait(delay));
            }
            // The drain of a Node that never had pods is written once, with its end.
            let is_recent = |drained: &Condition| {
                let since = drained.transitioned();
                // A start in the future was written before the clock was set back.
                since <= self.now && self.now.duration_since(since).unsigned_abs() < DRAIN_MIN
            };
            if tainted_for < DRAIN_MIN && claim.condition(DRAINED).is_none_or(is_recent) {
                return Ok(Step::Wait(POLL));
            }
            ConditionSet::new(claim, self.now).set_true(DRAINED);
        } else if let Step::Wait(delay) = self.empty(deadline).await? {
            // A pod was bound in spite of the taints.
            return Ok(Step::Wait(delay));
        }
        let (is_overdue, step) = self.detach(deadline).await?;
        let mut conditions = ConditionSet::new(claim, self.now);
        match (&step, is_overdue) {
            (Step::Wait(_), _) => {
                conditions.set_unknown(VOLUMES_DETACHED, AWAITING_VOLUME_DETACHMENT, AWAITING_VOLUME_DETACHMENT)
            }
            (Step::Done, true) => {
                let elapsed = TERMINATION_GRACE_PERIOD_ELAPSED;
                conditions.set_false(VOLUMES_DETACHED, elapsed, elapsed)
            }
            (Step::Done, false) => conditions.set_true(VOLUMES_DETACHED),
        };
        Ok(step)
    }

    /// The Node's claim, if it has exactly one.
    fn claim(&self) -> Option<Arc<NodeClaim>> {
        let id = &self.node.spec.provider_id;
        if id.is_empty() {
            return None;
        }
        match self.context.cluster.claims_by_provider_id(id).as_slice() {
            [only] => Some(Arc::clone(only)),
            _ => None,
        }
    }

    /// Whether the Node is not ready and its instance does not exist: then there is nothing to drain (LIF-083).
    async fn is_instance_gone(&self) -> Result<bool, ReconcileError> {
        let id = &self.node.spec.provider_id;
        if id.is_empty() || is_ready(self.node) {
            return Ok(false);
        }
        match self.context.provider.get(id).await {
            Ok(_) => Ok(false),
            Err(CloudError::NodeClaimNotFound(_)) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Taints the Node and excludes it from load balancers before the first eviction (LIF-084). False when the Node is gone.
    async fn taint(&self) -> Result<bool, ReconcileError> {
        let (key, value) = (
            labels::EXCLUDE_FROM_LOAD_BALANCERS,
            labels::EXCLUDE_FROM_LOAD_BALANCERS_VALUE,
        );
        let wanted = taints::disrupted();
        let tainted = self
            .node
            .spec
            .taints
            .iter()
            .any(|taint| taint.key == wanted.key && taint.effect == wanted.effect);
        if tainted && claim_facts::label(self.node.metadata.labels.as_ref(), key) == value {
            return Ok(true);
        }
        let edited = edit_node(self.context, self.node, |node| {
            let present = taints_mut(node);
            if !present.iter().any(|taint| taints::matches(taint, &wanted)) {
                present.retain(|taint| taint.key != wanted.key);
                present.push(wanted.clone());
            }
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert(key.to_owned(), value.to_owned());
        });
        let Some(edited) = edited.await? else {
            return Ok(false);
        };
        if edited.changed {
            tracing::info!(
                Node = self.name,
                "taint.Key" = wanted.key,
                "taint.Value" = wanted.value.as_deref().unwrap_or_default(),
                "taint.Effect" = wanted.effect,
                "tainted node"
            );
        }
        Ok(true)
    }

    /// Evicts and deletes pods; done when the drain waits for none (LIF-086).
    async fn empty(&self, deadline: Option<Timestamp>) -> Result<Step, ReconcileError> {
        let pods = self.context.cluster.pods_on(self.name);
        let plan = drain(&pods, deadline, self.judged_at);
        for pod in &plan.delete {
            self.delete(pod, plan.grace_seconds, deadline).await?;
        }
        for pod in &plan.evict {
            self.termination.evictions.add(EvictionKey {
                namespace: pod.namespace.to_string(),
                name: pod.name.to_string(),
                uid: pod.uid.to_string(),
                node: self.name.to_owned(),
            });
        }
        if plan.waiting == 0 {
            return Ok(Step::Done);
        }
        let message = format!("Failed to drain node, {} pods are waiting to be evicted", plan.waiting);
        self.publish(EventType::Warning, "FailedDraining", message);
        Ok(Step::Wait(POLL))
    }

    /// Deletes a pod that would not end before the node's deadline otherwise (LIF-115, LIF-119).
    async fn delete(&self, pod: &Pod, grace_seconds: i64, deadline: Option<Timestamp>) -> Result<(), kube::Error> {
        let api: Api<ApiPod> = Api::namespaced(self.context.client.clone(), &pod.namespace);
        tracing::debug!(Pod = %pod.key(), Node = self.name, "deleting pod");
        let mut params = uid_precondition(&pod.uid);
        params.grace_period_seconds = Some(u32::try_from(grace_seconds).unwrap_or(u32::MAX));
        match api
            .delete(&pod.name, &params)
            .await
            .map_err(|error| (ApiErrorKind::of(&error), error))
        {
            Ok(_) => {}
            Err((ApiErrorKind::NotFound | ApiErrorKind::Conflict, _)) => return Ok(()),
            Err((_, error)) => return Err(error),
        }
        let message = format!(
            "Deleting the pod to accommodate the terminationTime {} of the node. The pod was granted {grace_seconds} seconds of \
             grace-period of its {} terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation.",
            deadline.map(default_text).unwrap_or_default(),
            pod.grace_seconds.unwrap_or_default(),
        );
        self.context.recorder.publish(Event {
            object: pod_ref(&pod.namespace, &pod.name, &pod.uid),
            kind: EventType::Normal,
            reason: "Disrupted".into(),
            message,
            dedupe: vec![pod.name.to_string()],
            dedupe_timeout: None,
        });
        Ok(())
    }

    /// Waits for volumes. True when it stopped waiting because the deadline has passed (LIF-088 to LIF-090).
    async fn detach(&self, deadline: Option<Timestamp>) -> Result<(bool, Step), ReconcileError> {
        let attachments = self.termination.attachments.list().await?;
        if !attachments
            .iter()
            .any(|attachment| attachment.spec.node_name == self.name)
        {
            return Ok((false, Step::Done));
        }
        let pods = self.context.cluster.pods_on(self.name);
        let staying = pods.iter().filter(|pod| !is_drainable(pod, self.judged_at));
        let staying: Vec<(&str, &str)> = staying.map(|pod| (&*pod.namespace, &*pod.name)).collect();
        let kept = self.termination.attachments.volumes_of(&staying).await?;
        let blocking = volumes::blocking(attachments.iter().filter_map(attachment), self.name, &kept);
        if blocking.is_empty() {
            return Ok((false, Step::Done));
        }
        if deadline.is_some_and(|deadline| self.now > deadline) {
            return Ok((true, Step::Done));
        }
        self.publish(
            EventType::Normal,
            "AwaitingVolumeDetachment",
            volumes::message(&blocking),
        );
        Ok((false, Step::Wait(POLL)))
    }

    /// Writes the claim's conditions, once per pass (LIF-085), and counts a drain once its end is stored (LIF-087).
    async fn store(&self, before: &Arc<NodeClaim>, after: &NodeClaim) -> Result<Arc<NodeClaim>, kube::Error> {
        let Some(stored) = write_status(self.context, before, after).await?.stored() else {
            return Ok(Arc::clone(before));
        };
        if !before.condition_is_true(DRAINED) && stored.condition_is_true(DRAINED) {
            self.context.metrics.counter(&NODES_DRAINED).inc(&[self.pool()]);
        }
        Ok(Arc::new(stored))
    }

    /// Terminates the instance of a drained Node, unless pods turn up, and sets the claim's condition (LIF-092).
    async fn end_instance(&self, claim: &mut NodeClaim, deadline: Option<Timestamp>) -> Result<Ended, ReconcileError> {
        let in_time = deadline.is_none_or(|deadline| self.now < deadline);
        if in_time && !claim.condition_is_true(INSTANCE_TERMINATING) && self.has_unseen_pods(deadline).await? {
            return Ok(Ended::NotYet(POLL));
        }
        let ended = match self.context.provider.delete(claim).await {
            Ok(()) => Ended::NotYet(INSTANCE_POLL),
            Err(CloudError::NodeClaimNotFound(_)) => Ended::Gone,
            Err(error) => return Err(error.into()),
        };
        ConditionSet::new(claim, self.context.now()).set_true(INSTANCE_TERMINATING);
        Ok(ended)
    }

    /// Removes the finalizer and counts the end of the Node (LIF-092 to LIF-094). Other finalizers stay.
    async fn release(&self) -> Result<Outcome, ReconcileError> {
        let patch = json!({"metadata": {
            "$deleteFromPrimitiveList/finalizers": [finalizers::TERMINATION],
            // The patch is refused if another Node has the name now.
            "uid": self.uid,
        }});
        let api: Api<Node> = Api::all(self.context.client.clone());
        // The watch event that removes the Node may arrive before the answer.
        self.termination.note_released(self.uid);
        let patched = send_patch(&api, self.name, Part::Object, &Patch::Strategic(patch)).await;
        if !matches!(patched, Ok(Written::Stored(_))) {
            self.termination.forget_released(self.uid);
            // A conflict may be another Node's or pass by itself: the retry finds out.
            return Ok(patched.map(|_| Outcome::Done)?);
        }
        let meta = &self.node.metadata;
        let seconds_since = |time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time| {
            self.context.now().duration_since(time.0).as_secs_f64().max(0.0)
        };
        let metrics = &self.context.metrics;
        metrics
            .counter(&NODES_TERMINATED)
            .inc(&[self.pool(), claim_facts::label(meta.labels.as_ref(), labels::ZONE)]);
        if let Some(deleted) = &meta.deletion_timestamp {
            metrics
                .summary(&NODES_TERMINATION_DURATION)
                .observe(&[self.pool()], seconds_since(deleted));
        }
        if let Some(created) = &meta.creation_timestamp {
            metrics
                .histogram(&NODES_LIFETIME_DURATION)
                .observe(&[self.pool()], seconds_since(created));
        }
        tracing::info!(Node = self.name, "deleted node");
        Ok(Outcome::Done)
    }

    fn pool(&self) -> &str {
        claim_facts::label(self.node.metadata.labels.as_ref(), labels::NODE_POOL)
    }

    fn publish(&self, kind: EventType, reason: &'static str, message: String) {
        let Some(object) = ObjectRef::of(self.node) else { return };
        self.context.recorder.publish(Event {
            object,
            kind,
            reason: reason.into(),
            message,
            dedupe: vec![self.name.to_owned()],
            dedupe_timeout: None,
        });
    }
}
