//! Ends a claim that is being deleted: its Nodes first, then its instance, then the finalizer (LIF-068 to LIF-080).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::conditions::node_claim::{INSTANCE_TERMINATING, REGISTERED};
use kerf_api::status::Conditioned;
use kerf_api::{ConditionSet, NodeClaim, annotations, finalizers, labels};
use kerf_cloud::CloudError;
use kerf_runtime::client::{Lock, delete_exactly, found, name_of, uid_of};
use kerf_runtime::metrics::catalogue::{
    NODECLAIMS_INSTANCE_TERMINATION_DURATION, NODECLAIMS_TERMINATED, NODECLAIMS_TERMINATION_DURATION,
};
use kerf_runtime::{Event, EventType, ObjectRef, Outcome, ReconcileError};
use kerf_state::lean::LeanNode;
use kube::Api;
use kube::api::{ListParams, ObjectMeta};

use super::controller::Lifecycle;
use crate::claim_facts;
use crate::claim_writes::{write_object, write_status};
use crate::context::Context;
use crate::deadline;

/// How often the provider is asked whether an instance has ended (LIF-074).
pub(crate) const INSTANCE_POLL: Duration = Duration::from_secs(5);

/// Takes the next step for a claim that is being deleted.
pub(super) async fn finalize(lifecycle: &Lifecycle, claim: &Arc<NodeClaim>) -> Result<Outcome, ReconcileError> {
    if !claim_facts::is_guarded(&claim.metadata) {
        return Ok(Outcome::Done);
    }
    let context = &lifecycle.context;
    let Some(claim) = set_deadline(context, claim).await? else {
        return Ok(Outcome::Done);
    };
    match nodes_left(context, &claim).await? {
        // Changes of the Nodes reconcile the claim again (LIF-072).
        Left::Known => return Ok(Outcome::Done),
        Left::Unseen => return Ok(Outcome::RequeueAfter(INSTANCE_POLL)),
        Left::None => {}
    }
    let Some(launched) = launched(lifecycle, &claim) else {
        return release(lifecycle, &claim).await;
    };
    match context.provider.delete(&launched).await {
        Ok(()) => {
            set_instance_terminating(context, &claim).await?;
            Ok(Outcome::RequeueAfter(INSTANCE_POLL))
        }
        Err(CloudError::NodeClaimNotFound(_)) => {
            let claim = set_instance_terminating(context, &claim).await?;
            if let Some(since) = claim
                .condition(INSTANCE_TERMINATING)
                .filter(|condition| condition.is_true())
            {
                let took = context.now().duration_since(since.transitioned()).as_secs_f64();
                let durations = context.metrics.histogram(&NODECLAIMS_INSTANCE_TERMINATION_DURATION);
                durations.observe(&[claim_facts::pool_label(&claim)], took.max(0.0));
            }
            release(lifecycle, &claim).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes the time by which the node has to be empty (LIF-068 to LIF-070). `None` when the claim is gone.
async fn set_deadline(context: &Context, claim: &Arc<NodeClaim>) -> Result<Option<Arc<NodeClaim>>, kube::Error> {
    let Some(due) = deadline::first_deadline(claim) else {
        return Ok(Some(Arc::clone(claim)));
    };
    let mut after = NodeClaim::clone(claim);
    let annotations = after.metadata.annotations.get_or_insert_default();
    annotations.insert(annotations::TERMINATION_TIMESTAMP.to_owned(), deadline::rfc3339(due));
    let Some(stored) = write_object(context, claim, &after, Lock::Optimistic).await?.stored() else {
        return Ok(None);
    };
    if let Some(object) = ObjectRef::of(&stored) {
        context.recorder.publish(Event {
            dedupe: vec![object.name.clone()],
            object,
            kind: EventType::Warning,
            reason: "TerminationGracePeriodExpiring".into(),
            message: deadline::expiring_message(due),
            dedupe_timeout: None,
        });
    }
    Ok(Some(Arc::new(stored)))
}

/// Which Nodes of a claim are still there.
enum Left {
    None,
    /// The cache has them.
    Known,
    /// The API server has one the cache does not show.
    Unseen,
}

/// Deletes the Nodes of a registered claim. Those of other claims are left alone (LIF-073, LIF-241).
///
/// The termination of an instance cannot be undone, and the cache may lack its Node: so the API server is asked as well.
async fn nodes_left(context: &Context, claim: &NodeClaim) -> Result<Left, kube::Error> {
    let Some(id) = claim_facts::provider_id(claim) else {
        return Ok(Left::None);
    };
    let registered = claim.condition(REGISTERED).filter(|condition| !condition.is_unknown());
    if registered.is_some_and(|condition| !condition.is_true()) {
        return Ok(Left::None);
    }
    let known = context.cluster.nodes_by_provider_id(id);
    let api: Api<Node> = Api::all(context.client.clone());
    // The Node is registered before the claim is, and may run pods already.
    if known.is_empty() {
        let unseen = match registered {
            Some(_) => node_by_name(&api, claim, id).await?.into_iter().collect(),
            None => registered_nodes(&api, claim).await?,
        };
        for node in unseen.iter().filter(|node| node.deletion_timestamp.is_none()) {
            delete_exactly(&api, node).await?;
        }
        return Ok(match unseen.is_empty() {
            true => Left::None,
            false => Left::Unseen,
        });
    }
    if registered.is_none() && !is_any_registered(&api, &known).await? {
        return Ok(Left::None);
    }
    for node in known.iter().filter(|node| node.metadata.deletion_timestamp.is_none()) {
        delete_exactly(&api, &node.metadata).await?;
    }
    Ok(Left::Known)
}

/// The Node that the claim's status names, if it exists and has the claim's provider id.
async fn node_by_name(api: &Api<Node>, claim: &NodeClaim, id: &str) -> Result<Option<ObjectMeta>, kube::Error> {
    let name = claim.status.as_ref().and_then(|status| status.node_name.as_deref());
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let is_its = |node: &Node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id);
    Ok(found(api.get(name).await)?.filter(is_its).map(|node| node.metadata))
}

/// The registered Nodes a claim owns. Their names are not known; selecting the claim's instance type keeps the list short.
async fn registered_nodes(api: &Api<Node>, claim: &NodeClaim) -> Result<Vec<ObjectMeta>, kube::Error> {
    let mut selector = format!("{}={}", labels::REGISTERED, labels::TRUE);
    let instance_type = claim_facts::label(claim.metadata.labels.as_ref(), labels::INSTANCE_TYPE);
    if !instance_type.is_empty() {
        selector = format!("{selector},{}={instance_type}", labels::INSTANCE_TYPE);
    }
    let listed = api.list_metadata(&ListParams::default().labels(&selector)).await?;
    let uid = uid_of(claim)?;
    let is_owned = |node: &ObjectMeta| {
        let owners = node.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| owner.uid == uid)
    };
    let nodes = listed.items.into_iter().map(|node| node.metadata);
    Ok(nodes.filter(is_owned).collect())
}

/// Whether one of these Nodes is registered by the cache or by the API server.
async fn is_any_registered(api: &Api<Node>, known: &[Arc<LeanNode>]) -> Result<bool, kube::Error> {
    if known.iter().any(|node| claim_facts::is_registered(&node.metadata)) {
        return Ok(true);
    }
    for node in known {
        let now = found(api.get(name_of(&**node)?).await)?;
        if now.is_some_and(|now| now.metadata.uid == node.metadata.uid && claim_facts::is_registered(&now.metadata)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The claim with its provider id; `None` when it was never launched (LIF-078). A launch that could not be stored counts.
fn launched(lifecycle: &Lifecycle, claim: &Arc<NodeClaim>) -> Option<Arc<NodeClaim>> {
    if claim_facts::provider_id(claim).is_some() {
        return Some(Arc::clone(claim));
    }
    let instance = lifecycle.launches.get(claim_facts::uid(claim)?)?;
    let mut launched = NodeClaim::clone(claim);
    launched.status.get_or_insert_default().provider_id = Some(instance.provider_id);
    Some(Arc::new(launched))
}

/// Sets the condition that the instance is terminating (LIF-074). Returns the claim as stored, or unchanged when it is gone.
async fn set_instance_terminating(context: &Context, claim: &Arc<NodeClaim>) -> Result<Arc<NodeClaim>, kube::Error> {
    let mut after = NodeClaim::clone(claim);
    ConditionSet::new(&mut after, context.now()).set_true(INSTANCE_TERMINATING);
    let stored = write_status(context, claim, &after).await?.stored();
    Ok(stored.map_or_else(|| Arc::clone(claim), Arc::new))
}

/// Removes the finalizer and counts the end of the claim (LIF-079).
async fn release(lifecycle: &Lifecycle, claim: &NodeClaim) -> Result<Outcome, ReconcileError> {
    let context = &lifecycle.context;
    let mut after = claim.clone();
    let finalizers = after.metadata.finalizers.get_or_insert_default();
    finalizers.retain(|finalizer| finalizer != finalizers::TERMINATION);
    let written = write_object(context, claim, &after, Lock::Optimistic).await?;
    if written.stored().is_none() {
        return Ok(Outcome::Done);
    }
    lifecycle.launches.forget(uid_of(claim)?);
    let labels = claim.metadata.labels.as_ref();
    let (pool, zone) = (claim_facts::pool_label(claim), claim_facts::label(labels, labels::ZONE));
    let capacity_type = claim_facts::label(labels, labels::CAPACITY_TYPE);
    if let Some(deleted) = &claim.metadata.deletion_timestamp {
        let took = context.now().duration_since(deleted.0).as_secs_f64();
        context
            .metrics
            .histogram(&NODECLAIMS_TERMINATION_DURATION)
            .observe(&[pool], took.max(0.0));
    }
    context
        .metrics
        .counter(&NODECLAIMS_TERMINATED)
        .inc(&[pool, capacity_type, zone]);
    tracing::info!(NodeClaim = claim_facts::name(claim), "deleted nodeclaim");
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use kerf_cloud::FAKE_NODE_CLASS;
    use kerf_sandbox::CapturedLog;
    use serde_json::json;

    use super::*;
    use crate::cluster::Watched;
    use crate::pools::{self, RegistrationHealth};

    fn going(version: &str) -> NodeClaim {
        let labels = json!({"karpenter.sh/nodepool": "web", "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "a"});
        serde_json::from_value(json!({
            "metadata": {"name": "web-1", "uid": "web-1", "resourceVersion": version, "labels": labels,
                "deletionTimestamp": "1970-01-01T00:00:00Z", "finalizers": ["karpenter.sh/termination", "example.com/other"]},
            "spec": {"requirements": [], "nodeClassRef": {"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"}},
        }))
        .expect("a claim")
    }

    fn lifecycle(context: &Context) -> Arc<Lifecycle> {
        let health = RegistrationHealth::default();
        let status = pools::health(context, &health);
        Lifecycle::new(context, health, status, Default::default())
    }

    /// What is counted and logged about ends of claims.
    fn told(context: &Context, log: &CapturedLog) -> (f64, u64, usize) {
        let counter = context.metrics.counter(&NODECLAIMS_TERMINATED);
        let histogram = context.metrics.histogram(&NODECLAIMS_TERMINATION_DURATION);
        let lines = log.lines("deleted nodeclaim");
        (
            counter.get(&["web", "spot", "a"]),
            histogram.count(&["web"]),
            lines.len(),
        )
    }

    // LIF-079
    #[tokio::test]
    async fn the_finalizer_goes_only_from_the_claim_as_it_is_now() {
        let log = CapturedLog::start();
        let written = serde_json::to_value(going("3")).expect("serialises");
        let context = Context::answering(&written, |_| {});
        let apply = |claim: NodeClaim| context.cluster.notify(Watched::apply(&context.cluster, claim));
        apply(going("2"));
        let lifecycle = lifecycle(&context);
        // Another controller may have added a finalizer since.
        let outdated = release(&lifecycle, &going("1")).await;
        assert!(outdated.is_err(), "{outdated:?}");
        assert_eq!(told(&context, &log), (0.0, 0, 0));
        let current = release(&lifecycle, &going("2")).await;
        assert!(current.is_ok(), "{current:?}");
        assert_eq!(told(&context, &log), (1.0, 1, 1));
    }
}
