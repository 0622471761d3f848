//! Changes Nodes and lets the cluster know the answer at once.

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use kerf_runtime::client::{ApiErrorKind, found};
use kerf_state::lean::{LeanNode, LeanTaint};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::context::Context;
use crate::patch::{Lock, patch_object};

/// Writes what `after` changes in `before`, unless the Node has changed since it was read. Returns whether there was something to write;
/// a Node that is gone is an error.
pub(crate) async fn write_node(context: &Context, before: &Node, after: &Node) -> Result<bool, kube::Error> {
    let stored = patch_object(&context.client, before, after, Lock::Optimistic).await?;
    if let Some(stored) = &stored {
        context.cluster.wrote_node(stored);
    }
    Ok(stored.is_some())
}

/// A Node after an edit.
pub(crate) struct Edited {
    /// As it is now, as far as the cluster knows Nodes.
    pub(crate) node: Node,
    /// Whether there was something to write.
    pub(crate) changed: bool,
}

/// Changes a Node that the cluster knows. The API server is asked for it only if it has changed since, or seems to need no change. `None` if
/// the Node is gone or another one has its name.
pub(crate) async fn edit_node(
    context: &Context,
    known: &LeanNode,
    edit: impl Fn(&mut Node),
) -> Result<Option<Edited>, kube::Error> {
    let conflict = match found(edited(context, &as_read(known), &edit).await) {
        Ok(None) => return Ok(None),
        Ok(Some(edited)) if edited.changed => return Ok(Some(edited)),
        Ok(Some(_)) => None,
        Err(error) if ApiErrorKind::of(&error) == ApiErrorKind::Conflict => Some(error),
        Err(error) => return Err(error),
    };
    let api: Api<Node> = Api::all(context.client.clone());
    let live = found(api.get(known.metadata.name.as_deref().unwrap_or_default()).await)?;
    let Some(live) = live.filter(|live| live.metadata.uid == known.metadata.uid) else {
        return Ok(None);
    };
    match conflict {
        // What is known is the newest: to write it again at once would not help.
        Some(error) if live.metadata.resource_version == known.metadata.resource_version => Err(error),
        _ => found(edited(context, &live, &edit).await),
    }
}

async fn edited(context: &Context, before: &Node, edit: &impl Fn(&mut Node)) -> Result<Edited, kube::Error> {
    let mut node = before.clone();
    edit(&mut node);
    let changed = write_node(context, before, &node).await?;
    Ok(Edited { node, changed })
}

/// A Node with what the cluster knows of it: metadata, provider id and taints. Everything else is absent, so it may not be changed.
pub(crate) fn as_read(known: &LeanNode) -> Node {
    let taint = |taint: &LeanTaint| Taint {
        key: taint.key.clone(),
        value: (!taint.value.is_empty()).then(|| taint.value.clone()),
        effect: taint.effect.clone(),
        time_added: taint.time_added.clone(),
    };
    let taints: Vec<Taint> = known.spec.taints.iter().map(taint).collect();
    Node {
        metadata: known.metadata.clone(),
        spec: Some(NodeSpec {
            provider_id: Some(known.spec.provider_id.clone()).filter(|id| !id.is_empty()),
            taints: (!taints.is_empty()).then_some(taints),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

/// Sets one label of a Node, whatever else has changed. Returns the Node as it is stored, `None` if it is gone.
pub(crate) async fn label_node(
    context: &Context,
    name: &str,
    key: &str,
    value: &str,
) -> Result<Option<Node>, kube::Error> {
    let api: Api<Node> = Api::all(context.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
    let stored = found(api.patch(name, &PatchParams::default(), &patch).await)?;
    if let Some(stored) = &stored {
        context.cluster.wrote_node(stored);
    }
    Ok(stored)
}
