//! Re-registers a Node whose claim is registered already: its object was deleted and its kubelet created it again, or its labels were changed.
//! The claim's conditions never revert (LIF-047), so without this the labels and
//! taints that registration and initialization wrote would stay lost, and the unregistered taint would keep all pods away for ever.

use k8s_openapi::api::core::v1::Node;
use kerf_api::conditions::node_claim::{INITIALIZED, REGISTERED};
use kerf_api::{Conditioned, NodeClaim, StartupTaints, labels};
use kerf_runtime::ReconcileError;
use kerf_runtime::client::{Written, found, name_of};
use kerf_state::lean::LeanNode;
use kube::Api;

use super::initialization::closed_gate;
use super::registration;
use crate::claim_facts;
use crate::context::Context;
use crate::node_writes::{label_node, write_node};

/// Registers and initializes the Node of a claim again if the claim is registered and the Node is not. Changes no metric and publishes no event.
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
    let name = name_of(node)?;
    if !claim_facts::is_registered(&node.metadata) {
        let api: Api<Node> = Api::all(context.client.clone());
        // The cached Node may be older than its registration.
        let live = found(api.get(name).await)?.filter(|live| live.metadata.uid == node.metadata.uid);
        let Some(before) = live.filter(|live| !claim_facts::is_registered(&live.metadata)) else {
            return Ok(());
        };
        let mut after = before.clone();
        registration::sync(claim, &mut after);
        registration::complete(&mut after);
        if let Written::Gone = write_node(context, &before, &after).await? {
            return Ok(());
        }
        tracing::info!(
            NodeClaim = claim_facts::name(claim),
            Node = name,
            "registered node again"
        );
    } else if claim.condition_is_true(INITIALIZED) && !is_initialized && closed_gate(claim, Some(node), known).is_none()
    {
        label_node(context, name, labels::INITIALIZED, labels::TRUE).await?;
        tracing::info!(
            NodeClaim = claim_facts::name(claim),
            Node = name,
            "initialized node again"
        );
    }
    Ok(())
}
