//! How these controllers change or delete a NodeClaim.
//!
//! The patches are those of [`patch_object`] and [`patch_status`]. What is added concerns claims only. The stored claim enters the
//! [`Cluster`](crate::Cluster) at once, so readers see it before the watch delivers it. A conflict is an error: the reconciliation
//! fails and is repeated with the newest state. Writes of one claim follow one another, and a write that would conflict with one of this
//! process's own is not sent: [`WriteLocks`] makes the second wait for the first.

use std::sync::Arc;

use kerf_api::{NodeClaim, labels};
use kerf_runtime::client::{
    Lock, Part, Written, delete_exactly, name_of, patch_object, patch_status, send_patch, uid_of,
};
use kerf_runtime::metrics::catalogue::NODECLAIMS_DISRUPTED;
use kube::Api;
use kube::api::Patch;
use kube::core::Status;
use serde_json::{Value, json};

use crate::claim_facts;
use crate::context::Context;

/// Writes what `after` changes in `before`, except the status. `lock` has to be [`Lock::Optimistic`] when a list changes, such as the
/// finalizers.
pub(crate) async fn write_object(
    context: &Context,
    before: &NodeClaim,
    after: &NodeClaim,
    lock: Lock,
) -> Result<Written<NodeClaim>, kube::Error> {
    let _lock = context.write_locks.lock(uid_of(before)?).await;
    if lock == Lock::Optimistic && before != after {
        refuse_outdated(context, before)?;
    }
    let written = patch_object(&api(context), before, after, lock).await?;
    Ok(take_over(context, written))
}

/// Writes what `after` changes in the status of `before`. Always with the lock, since conditions are a list that others write as well.
pub(crate) async fn write_status(
    context: &Context,
    before: &NodeClaim,
    after: &NodeClaim,
) -> Result<Written<NodeClaim>, kube::Error> {
    let _lock = context.write_locks.lock(uid_of(before)?).await;
    if before != after {
        refuse_outdated(context, before)?;
    }
    let written = patch_status(&api(context), before, after, Lock::Optimistic).await?;
    Ok(take_over(context, written))
}

/// Sets one annotation, whatever else has changed meanwhile.
pub(crate) async fn set_annotation(
    context: &Context,
    claim: &NodeClaim,
    key: &str,
    value: &str,
) -> Result<Written<NodeClaim>, kube::Error> {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    merge(context, claim, Part::Object, patch).await
}

/// Sets one label, whatever else has changed meanwhile.
pub(crate) async fn set_label(
    context: &Context,
    claim: &NodeClaim,
    key: &str,
    value: &str,
) -> Result<Written<NodeClaim>, kube::Error> {
    let patch = json!({"metadata": {"labels": {key: value}}});
    merge(context, claim, Part::Object, patch).await
}

/// Sets one field of the status, whatever else has changed meanwhile.
pub(crate) async fn set_status_field(
    context: &Context,
    claim: &NodeClaim,
    field: &str,
    value: &Value,
) -> Result<Written<NodeClaim>, kube::Error> {
    merge(context, claim, Part::Status, json!({"status": {field: value}})).await
}

/// Deletes a claim unless it is being deleted. Returns whether this call did it.
pub(crate) async fn delete(context: &Context, claim: &NodeClaim) -> Result<bool, kube::Error> {
    if claim_facts::is_deleting(claim) {
        return Ok(false);
    }
    let _lock = context.write_locks.lock(uid_of(claim)?).await;
    if is_known_to_go(context, claim) {
        return Ok(false);
    }
    let Some(deleted) = delete_exactly(&api(context), &claim.metadata).await? else {
        return Ok(false);
    };
    if let Some(marked) = deleted.left {
        context.cluster.wrote_claim(marked);
    }
    Ok(true)
}

/// Deletes a claim and counts the reason (OPS-117). Returns whether this call did it.
pub(crate) async fn disrupt(context: &Context, claim: &NodeClaim, reason: &str) -> Result<bool, kube::Error> {
    let deleted = delete(context, claim).await?;
    if deleted {
        let capacity_type = claim_facts::label(claim.metadata.labels.as_ref(), labels::CAPACITY_TYPE);
        let counter = context.metrics.counter(&NODECLAIMS_DISRUPTED);
        counter.inc(&[reason, claim_facts::pool_label(claim), capacity_type]);
    }
    Ok(deleted)
}

async fn merge(
    context: &Context,
    claim: &NodeClaim,
    part: Part,
    patch: Value,
) -> Result<Written<NodeClaim>, kube::Error> {
    let _lock = context.write_locks.lock(uid_of(claim)?).await;
    let (api, patch) = (api(context), Patch::Merge(patch));
    let written = send_patch(&api, name_of(claim)?, part, &patch).await?;
    Ok(take_over(context, written))
}

/// The claim as it is known now, if it is still the same one.
fn known(context: &Context, claim: &NodeClaim) -> Option<Arc<NodeClaim>> {
    let known = context.cluster.claim(claim_facts::name(claim)?)?;
    (known.metadata.uid == claim.metadata.uid).then_some(known)
}

/// Whether another write of this process has deleted the claim meanwhile.
fn is_known_to_go(context: &Context, claim: &NodeClaim) -> bool {
    known(context, claim).is_some_and(|known| claim_facts::is_deleting(&known))
}

/// Fails like the API server does when the claim was read before its last write (OPS-106).
fn refuse_outdated(context: &Context, read: &NodeClaim) -> Result<(), kube::Error> {
    let version = |claim: &NodeClaim| claim.metadata.resource_version.as_deref()?.parse::<u64>().ok();
    let newest = known(context, read).and_then(|known| version(&known));
    if version(read) >= newest || newest.is_none() {
        return Ok(());
    }
    let message = format!("nodeclaim {} was written since it was read", name_of(read)?);
    let status = Status::failure(&message, "Conflict").with_code(409);
    Err(kube::Error::Api(status.boxed()))
}

fn api(context: &Context) -> Api<NodeClaim> {
    Api::all(context.client.clone())
}

/// Lets the cluster know the stored claim.
fn take_over(context: &Context, written: Written<NodeClaim>) -> Written<NodeClaim> {
    if let Written::Stored(stored) = &written {
        // A deleted claim without finalizers ended with this write: the cluster must not keep it.
        let ended =
            claim_facts::is_deleting(stored) && stored.metadata.finalizers.as_deref().unwrap_or_default().is_empty();
        if !ended {
            context.cluster.wrote_claim(NodeClaim::clone(stored));
        }
    }
    written
}
