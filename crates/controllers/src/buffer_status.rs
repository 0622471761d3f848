//! Writes the status of a CapacityBuffer and lets the cluster know the answer at once.

use kerf_api::CapacityBuffer;
use kerf_runtime::client::{Lock, Written, patch_status};
use kube::{Api, ResourceExt};

use crate::context::Context;

/// Writes what `after` changes in the status of `before`; refused if the buffer has changed since it was read.
pub(crate) async fn write(
    context: &Context,
    before: &CapacityBuffer,
    after: &CapacityBuffer,
) -> Result<Written<CapacityBuffer>, kube::Error> {
    let namespace = before.namespace().unwrap_or_else(|| "default".to_owned());
    let api: Api<CapacityBuffer> = Api::namespaced(context.client.clone(), &namespace);
    let written = patch_status(&api, before, after, Lock::Optimistic).await?;
    if let Written::Stored(stored) = &written {
        context.cluster.wrote_buffer(CapacityBuffer::clone(stored));
    }
    Ok(written)
}
