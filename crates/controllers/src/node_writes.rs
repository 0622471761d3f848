//! Changes Nodes and lets the cluster know the answer at once.

use k8s_openapi::api::core::v1::Node;
use kerf_runtime::client::found;
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
