//! Reports the result of a pass of provisioning for CapacityBuffers.

use kerf_api::CapacityBuffer;
use kerf_api::conditions::capacity_buffer as conditions;
use kerf_decide::{BufferOutcome, buffer_finding};
use kerf_model::plan::Plan;
use kerf_runtime::ObjectKey;
use kerf_runtime::client::describe;

use crate::buffer_status;
use crate::cluster::buffer_key;
use crate::context::Context;

/// Records which nodes keep room, and writes the condition `Provisioning` of each buffer. A write that fails is logged; the next pass writes it
/// (SCH-392 to SCH-394).
pub(crate) async fn after_pass(context: &Context, plan: &Plan) {
    let by_node = BufferOutcome::by_node(plan);
    let figures = by_node.iter().map(|(node, count)| (&**node, *count));
    context.cluster.set_buffer_pods(figures);
    let outcomes = BufferOutcome::of(plan);
    for before in context.cluster.capacity_buffers() {
        if !before.is_active() {
            continue;
        }
        let Some(ObjectKey { namespace, name }) = buffer_key(&before) else {
            continue;
        };
        let key = format!("{namespace}/{name}");
        let replicas = before.status.as_ref().and_then(|status| status.replicas);
        let Some(finding) = buffer_finding(before.is_ready(), replicas, outcomes.get(&*key)) else {
            continue;
        };
        let (mut after, now) = (CapacityBuffer::clone(&before), context.now());
        after.set_condition(
            conditions::PROVISIONING,
            finding.holds,
            finding.reason,
            &finding.message,
            now,
        );
        if let Err(error) = buffer_status::write(context, &before, &after).await {
            tracing::error!(
                CapacityBuffer = key,
                error = describe(&error),
                "updating CapacityBuffer provisioning status"
            );
        }
    }
}
