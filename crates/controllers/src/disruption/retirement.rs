//! Carrying out retirement: the taint of blocked nodes that take no more pods (`kerf.sh/retire-blocked` on their pool).
//!
//! The taint is all there is: every pass works out anew who should carry it, so that a restart between any two writes loses nothing.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kerf_api::taints;
use kerf_disruption::{Class, candidates, consolidation_options, is_retiring, retiring};
use kerf_model::snapshot::Snapshot;
use kerf_runtime::ReconcileError;
use kerf_runtime::client::describe;

use super::consolidation::destinations;
use super::events;
use super::marking::Marker;
use super::registry::{Member, Registry};
use crate::context::Context;
use crate::provisioning::pass::solver_options;

/// Taints the nodes that retire, at most one more per pass, and frees those that no longer do. Costs nothing where no pool asks for it.
pub(super) async fn retire(context: &Context, registry: &Registry, marker: &Marker) -> Result<(), ReconcileError> {
    let now = context.now();
    let snapshot = context.cluster.snapshot(now);
    let asked_for = snapshot.pools.iter().any(|pool| pool.disruption.retire_blocked);
    if !asked_for && !snapshot.nodes.iter().any(|node| is_retiring(node)) {
        return Ok(());
    }
    let sorted = candidates(&snapshot, now, Class::Graceful, &|node| registry.holds(node));
    let closed = destinations(context).closed(&snapshot, now);
    let options = consolidation_options(&solver_options(&context.options, &context.tuning));
    let shared = Arc::clone(&snapshot);
    let work = move || retiring(&shared, &sorted, &closed, now, &options);
    match context.compute(work).await? {
        Ok(wanted) => apply(context, &snapshot, &wanted, marker).await,
        // Without a pool that may get nodes nobody can say who is needed: all stays as it is.
        Err(error) => tracing::debug!(%error, "retirement of blocked nodes is not evaluated"),
    }
    Ok(())
}

async fn apply(context: &Context, snapshot: &Snapshot, wanted: &[usize], marker: &Marker) {
    for (index, node) in snapshot.nodes.iter().enumerate().filter(|(_, node)| node.managed) {
        let (has, should) = (is_retiring(node), wanted.binary_search(&index).is_ok());
        if has == should {
            continue;
        }
        let edit = if should { add_taint } else { remove_taint };
        // What fails is found again by the next pass.
        if let Err(error) = marker.edit_node(&Member::of(node), edit).await {
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

fn add_taint(node: &mut Node) {
    let retiring = taints::retiring();
    let present = node.spec.get_or_insert_default().taints.get_or_insert_default();
    if !present.iter().any(|taint| taints::matches(taint, &retiring)) {
        present.push(retiring);
    }
}

fn remove_taint(node: &mut Node) {
    let retiring = taints::retiring();
    if let Some(present) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        present.retain(|taint| !taints::matches(taint, &retiring));
    }
}
