//! Re-registers a Node whose claim is registered already: its object was deleted and its kubelet created it again, or somebody changed its
//! labels. The claim's conditions never revert (LIF-047), so without this nobody would restore what registration and initialization had
//! written, and the unregistered taint would keep all pods away for ever.

use k8s_openapi::api::core::v1::Node;
use kerf_api::conditions::node_claim::{INITIALIZED, REGISTERED};
use kerf_api::{Conditioned, NodeClaim, StartupTaints, labels};
use kerf_runtime::ReconcileError;
use kerf_runtime::client::found;
use kerf_state::lean::LeanNode;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::initialization::closed_gate;
use super::registration;
use crate::claim_facts;
use crate::context::Context;
use crate::patch::{Lock, patch_object};

/// Registers and initializes the Node of a claim again when the claim is and the Node is not. Changes no metric and publishes no event.
pub(super) async fn register_again(
    context: &Context,
    known: &StartupTaints,
    claim: &NodeClaim,
    node: &LeanNode,
) -> Result<(), ReconcileError> {
    let is_initialized = claim_facts::label(node.metadata.labels.as_ref(), labels::INITIALIZED) == labels::TRUE;
    if !claim.condition_is_true(REGISTERED) || node.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let api: Api<Node> = Api::all(context.client.clone());
    if !claim_facts::is_registered(&node.metadata) {
        // The cached Node may be older than its registration.
        let live = found(api.get(name).await)?.filter(|live| live.metadata.uid == node.metadata.uid);
        let Some(before) = live.filter(|live| !claim_facts::is_registered(&live.metadata)) else {
            return Ok(());
        };
        let mut after = before.clone();
        registration::sync(claim, &mut after);
        registration::complete(&mut after);
        patch_object(&context.client, &before, &after, Lock::Optimistic).await?;
        tracing::info!(
            NodeClaim = claim_facts::name(claim),
            Node = name,
            "registered node again"
        );
    } else if claim.condition_is_true(INITIALIZED) && !is_initialized && closed_gate(claim, Some(node), known).is_none()
    {
        let patch = json!({"metadata": {"labels": {labels::INITIALIZED: labels::TRUE}}});
        found(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await)?;
        tracing::info!(
            NodeClaim = claim_facts::name(claim),
            Node = name,
            "initialized node again"
        );
    }
    Ok(())
}
