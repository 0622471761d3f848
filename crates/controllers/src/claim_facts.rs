//! Facts that many controllers read from a NodeClaim or its Node.

use std::collections::BTreeMap;

use kerf_api::{NodeClaim, finalizers, labels};
use kube::api::ObjectMeta;

/// The claim's name, `None` before it is created. Log lines take it as it is; code that cannot go on without it asks
/// [`name_of`](kerf_runtime::client::name_of).
pub(crate) fn name(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.name.as_deref()
}

/// The claim's unique id, `None` before it is created.
pub(crate) fn uid(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.uid.as_deref()
}

/// The value of a label, "" where it is absent, as metrics want it.
pub(crate) fn label<'a>(labels: Option<&'a BTreeMap<String, String>>, key: &str) -> &'a str {
    labels.and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

/// The name of the claim's pool, `None` for a standalone claim.
pub(crate) fn pool(claim: &NodeClaim) -> Option<&str> {
    Some(pool_label(claim)).filter(|pool| !pool.is_empty())
}

/// The label of the claim's pool, "" for a standalone claim, as metrics want it.
pub(crate) fn pool_label(claim: &NodeClaim) -> &str {
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

/// Whether an object has the finalizer of Kerf.
pub(crate) fn is_guarded(meta: &ObjectMeta) -> bool {
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|finalizer| finalizer == finalizers::TERMINATION)
}

/// Whether a Node has the label of registered Nodes.
pub(crate) fn is_registered(meta: &ObjectMeta) -> bool {
    label(meta.labels.as_ref(), labels::REGISTERED) == labels::TRUE
}
