//! Nodes that never registered and whose claim is gone: what a crash between a launch and the note of it can leave (LIF-131).

use crate::machine::PROVIDER_ID_PREFIX;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kerf_api::{labels, taints};

/// Younger nodes are left alone: their claim may be about to get its provider id.
pub(crate) const ORPHAN_AGE: SignedDuration = SignedDuration::from_mins(1);

/// Name of the Node and name of the claim it was launched for, if the Node may be an orphan.
pub(crate) fn suspect(node: &Node, now: Timestamp) -> Option<(&str, &str)> {
    let spec = node.spec.as_ref()?;
    let ours = spec
        .provider_id
        .as_deref()
        .is_some_and(|id| id.starts_with(PROVIDER_ID_PREFIX));
    let unregistered = taints::unregistered();
    let waiting = spec
        .taints
        .iter()
        .flatten()
        .any(|taint| taints::matches(taint, &unregistered));
    let created = node.metadata.creation_timestamp.as_ref()?.0;
    if !ours || !waiting || now.duration_since(created) < ORPHAN_AGE || node.metadata.deletion_timestamp.is_some() {
        return None;
    }
    // The hostname label is the claim's name (KWK-046).
    let claim = node.metadata.labels.as_ref()?.get(labels::HOSTNAME)?;
    Some((node.metadata.name.as_deref()?, claim))
}
