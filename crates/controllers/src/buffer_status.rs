//! Writes the status of a CapacityBuffer.

use kerf_api::CapacityBuffer;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// Writes the status if it changed; refused if the buffer has changed since it was read. Returns the buffer as it is then, if it was written.
pub(crate) async fn write(
    client: &Client,
    before: &CapacityBuffer,
    after: &CapacityBuffer,
) -> Result<Option<CapacityBuffer>, kube::Error> {
    if before.status == after.status {
        return Ok(None);
    }
    let mut status = serde_json::to_value(&after.status).map_err(kube::Error::SerdeError)?;
    // A merge patch removes a field that is null, and keeps one that is left out.
    if let Value::Object(fields) = &mut status {
        for field in ["podTemplateRef", "podTemplateGeneration"] {
            fields.entry(field).or_insert(Value::Null);
        }
    }
    let patch = json!({"metadata": {"resourceVersion": before.metadata.resource_version}, "status": status});
    let namespace = before.namespace().unwrap_or_else(|| "default".to_owned());
    let api: Api<CapacityBuffer> = Api::namespaced(client.clone(), &namespace);
    let (name, options) = (before.name_any(), PatchParams::default());
    api.patch_status(&name, &options, &Patch::Merge(patch)).await.map(Some)
}
