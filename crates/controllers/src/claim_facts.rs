//! What many controllers ask a NodeClaim, and how they delete one.

use std::collections::BTreeMap;

use kerf_api::{NodeClaim, finalizers, labels};
use kerf_runtime::client::ApiErrorKind;
use kerf_runtime::metrics::catalogue::NODECLAIMS_DISRUPTED;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};

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
pub(crate) fn is_guarded(meta: &kube::api::ObjectMeta) -> bool {
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|finalizer| finalizer == finalizers::TERMINATION)
}

/// Whether a Node says that it is registered.
pub(crate) fn is_registered(meta: &kube::api::ObjectMeta) -> bool {
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

/// Deletes a claim unless it is on its way out. Says whether this call did it; one that is gone is no error (OPS-105).
pub(crate) async fn delete(context: &Context, claim: &NodeClaim) -> Result<bool, kube::Error> {
    if is_deleting(claim) {
        return Ok(false);
    }
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    match api.delete(name(claim), &exactly(claim.metadata.uid.as_deref())).await {
        Ok(answer) => {
            if let Some(marked) = answer.left() {
                context.cluster.wrote_claim(marked);
            }
            Ok(true)
        }
        Err(error) => match ApiErrorKind::of(&error) {
            ApiErrorKind::NotFound => Ok(false),
            // The precondition's, if another claim has the name by now; of anything else it has to be said again.
            ApiErrorKind::Conflict => match api.get_opt(name(claim)).await? {
                Some(there) if there.metadata.uid == claim.metadata.uid => Err(error),
                Some(_) | None => Ok(false),
            },
            _ => Err(error),
        },
    }
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
