//! What many controllers ask a NodeClaim or its Node, and how they delete one.

use std::collections::BTreeMap;
use std::fmt::Debug;

use kerf_api::{NodeClaim, finalizers, labels};
use kerf_runtime::client::ApiErrorKind;
use kerf_runtime::metrics::catalogue::NODECLAIMS_DISRUPTED;
use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::context::Context;

/// An object's name.
pub(crate) fn name(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

/// An object's unique id.
pub(crate) fn uid(claim: &NodeClaim) -> &str {
    claim.metadata.uid.as_deref().unwrap_or_default()
}

/// The value of a label, "" where it is absent, as metrics want it.
pub(crate) fn label<'a>(labels: Option<&'a BTreeMap<String, String>>, key: &str) -> &'a str {
    labels.and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

/// The claim's pool, "" for standalone claims.
pub(crate) fn pool(claim: &NodeClaim) -> &str {
    label(claim.metadata.labels.as_ref(), labels::NODE_POOL)
}

/// The instance's identity, once launched.
pub(crate) fn provider_id(claim: &NodeClaim) -> Option<&str> {
    let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
    id.filter(|id| !id.is_empty())
}

/// Whether the claim is being deleted.
pub(crate) fn is_deleting(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_some()
}

/// Whether an object still waits for Kerf before it may go.
pub(crate) fn is_guarded(meta: &ObjectMeta) -> bool {
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|finalizer| finalizer == finalizers::TERMINATION)
}

/// Whether a Node says that it is registered.
pub(crate) fn is_registered(meta: &ObjectMeta) -> bool {
    label(meta.labels.as_ref(), labels::REGISTERED) == labels::TRUE
}

/// The controllers of pods and claims delete exactly the object they looked at.
pub(crate) fn exactly(uid: Option<&str>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

/// An object whose deletion was accepted.
pub(crate) struct Deleted<K> {
    /// As it is now, if it waits for somebody.
    pub(crate) left: Option<K>,
}

/// Deletes exactly the object that was looked at, `None` when it is gone, which is no error (OPS-105).
pub(crate) async fn delete_exactly<K>(api: &Api<K>, meta: &ObjectMeta) -> Result<Option<Deleted<K>>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let name = meta.name.as_deref().unwrap_or_default();
    match api.delete(name, &exactly(meta.uid.as_deref())).await {
        Ok(answer) => Ok(Some(Deleted { left: answer.left() })),
        Err(error) => match ApiErrorKind::of(&error) {
            ApiErrorKind::NotFound => Ok(None),
            // The precondition's, if another object has the name by now; of anything else it has to be said again.
            ApiErrorKind::Conflict => match api.get_opt(name).await? {
                Some(there) if there.meta().uid == meta.uid => Err(error),
                Some(_) | None => Ok(None),
            },
            _ => Err(error),
        },
    }
}

/// Deletes a claim unless it is on its way out. Says whether this call did it.
pub(crate) async fn delete(context: &Context, claim: &NodeClaim) -> Result<bool, kube::Error> {
    if is_deleting(claim) {
        return Ok(false);
    }
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    let Some(deleted) = delete_exactly(&api, &claim.metadata).await? else {
        return Ok(false);
    };
    if let Some(marked) = deleted.left {
        context.cluster.wrote_claim(marked);
    }
    Ok(true)
}

/// Deletes a claim and counts why (OPS-117). Says whether this call did it.
pub(crate) async fn disrupt(context: &Context, claim: &NodeClaim, reason: &str) -> Result<bool, kube::Error> {
    let deleted = delete(context, claim).await?;
    if deleted {
        let capacity_type = label(claim.metadata.labels.as_ref(), labels::CAPACITY_TYPE);
        let counter = context.metrics.counter(&NODECLAIMS_DISRUPTED);
        counter.inc(&[reason, pool(claim), capacity_type]);
    }
    Ok(deleted)
}
