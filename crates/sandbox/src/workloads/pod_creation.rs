//! Creates the pods of workloads, and reports on a workload that the API server refuses its pods.

use crate::context::ActorContext;
use crate::object::{event, seconds, uid};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde_json::json;

/// Creates a pod of a workload. If the API server forbids it, for example because of a ResourceQuota, the workload gets an Event
/// `FailedCreate`; `component` is the controller that the Event names. Returns the error of the API server.
pub(super) async fn create_pod<K>(
    context: &ActorContext,
    owner: &K,
    component: &str,
    pod: &Pod,
) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()>,
{
    let created = context.create(&context.pods, pod).await;
    if let Err(kube::Error::Api(status)) = &created
        && status.code == 403
    {
        // The refusal is the error to return, also if the Event cannot be written.
        let _ = report(context, owner, component, &status.message).await;
    }
    created
}

/// Writes the Event, or counts it once more: retries do not fill the API with Events.
async fn report<K>(context: &ActorContext, owner: &K, component: &str, refusal: &str) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()>,
{
    let message = format!("Error creating: {refusal}");
    let mut event = event(owner, component, "Warning", "FailedCreate", &message, context.now());
    let name = format!("{}.failed-create.{}", owner.name_any(), uid(owner));
    event.metadata.name = Some(name.clone());
    let api: Api<Event> = Api::namespaced(context.client.clone(), &owner.namespace().unwrap_or_default());
    match api.create(&PostParams::default(), &event).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => return other.map(drop),
    }
    let count = api.get(&name).await?.count.unwrap_or(0).saturating_add(1);
    let patch = json!({"count": count, "message": message, "lastTimestamp": seconds(context.now())});
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map(drop)
}
