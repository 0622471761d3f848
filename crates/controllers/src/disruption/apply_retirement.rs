//! Carrying out retirement: the taint of blocked nodes that take no more pods (`kerf.sh/retire-blocked` on their pool).
//!
//! The taint is the only state: every pass computes anew which nodes should carry it, so a restart between any two writes loses nothing.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Node;
use kerf_api::taints;
use kerf_decide::{Memory, retire};
use kerf_disruption::is_retiring;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::ReconcileError;
use kerf_runtime::client::describe;

use super::events;
use super::taints::{DisruptionTaints, add_taint, remove_taint};
use crate::context::Context;
use crate::decision_inputs::DecisionInputs;

/// Taints the nodes that retire, at most one more per pass, and removes the taint from those that no longer do. Returns at once where no pool
/// asks for retirement.
pub(super) async fn apply_retirement(
    context: &Context,
    memory: &Arc<Mutex<Memory>>,
    taints: &DisruptionTaints,
) -> Result<(), ReconcileError> {
    let (inputs, memory) = (DecisionInputs::take(context), Arc::clone(memory));
    let work = move || {
        let wanted = retire(
            &inputs.view(),
            &mut memory.lock().unwrap_or_else(PoisonError::into_inner),
        );
        (wanted, inputs)
    };
    let (wanted, inputs) = context.compute(work).await?;
    match wanted {
        Ok(Some(wanted)) => apply(context, &inputs.snapshot, &wanted, taints).await,
        Ok(None) => {}
        // Without a pool that may get nodes it is unknown which nodes are needed: no taint changes.
        Err(error) => tracing::debug!(%error, "retirement of blocked nodes is not evaluated"),
    }
    Ok(())
}

async fn apply(context: &Context, snapshot: &Snapshot, wanted: &[usize], taints: &DisruptionTaints) {
    for (index, node) in snapshot.nodes.iter().enumerate().filter(|(_, node)| node.managed) {
        let (has, should) = (is_retiring(node), wanted.binary_search(&index).is_ok());
        if has == should {
            continue;
        }
        let edit = |node: &mut Node| match should {
            true => add_taint(node, taints::retiring()),
            false => remove_taint(node, &taints::retiring()),
        };
        // The next pass repeats a write that fails.
        if let Err(error) = taints.edit_node(node.node_name.as_deref(), edit).await {
            tracing::debug!(
                node = &*node.name,
                error = describe(&error),
                "the taint of a retiring node was not written"
            );
            continue;
        }
        tracing::info!(
            node = &*node.name,
            retiring = should,
            "changed whether a blocked node takes pods"
        );
        for object in events::objects(context, node) {
            context.recorder.publish(events::retiring(object, should));
        }
    }
}
