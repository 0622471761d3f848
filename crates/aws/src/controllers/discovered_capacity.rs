//! Learns from registered nodes how much memory their instance types have (AWS-199, AWS-200, AWS-441).

use crate::ami::ami_for;
use crate::annotations::DISCOVERED_MEMORY;
use crate::discovered_memory::{images_key, node_key};
use crate::provider::AwsCloud;
use k8s_openapi::api::core::v1::Node;
use kerf_api::labels::{INSTANCE_TYPE, REGISTERED, TRUE};
use kerf_api::{EC2NodeClass, NodeClaim};
use kerf_runtime::client::{Lock, found, patch_object};
use kerf_runtime::{Outcome, ReconcileError};
use kerf_units::quantity::Quantity;
use kube::Api;

/// Takes over the memory of one node by name: the controller `providers.instancetype.capacity`. Nodes that are not registered, or not ours,
/// say nothing. Without the option `learn-memory` nothing is done.
pub async fn discover_memory(cloud: &AwsCloud, name: &str) -> Result<Outcome, ReconcileError> {
    if !cloud.options.learn_memory {
        return Ok(Outcome::Done);
    }
    let Some(node) = found(Api::<Node>::all(cloud.client.clone()).get(name).await)? else {
        return Ok(Outcome::Done);
    };
    let label = |key: &str| node.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let memory = || {
        let capacity = node.status.as_ref()?.capacity.as_ref()?;
        capacity.get("memory")?.0.parse::<Quantity>().ok()
    };
    let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
    let (Some(TRUE), Some(kind), Some(memory), Some(provider_id)) =
        (label(REGISTERED), label(INSTANCE_TYPE), memory(), provider_id)
    else {
        return Ok(Outcome::Done);
    };
    let is_of_node = |claim: &&NodeClaim| {
        let status = claim.status.as_ref();
        status.and_then(|status| status.provider_id.as_deref()) == Some(provider_id)
    };
    let claims = cloud.managed_claims().await?;
    let Some(claim) = claims.iter().find(is_of_node) else {
        return Ok(Outcome::Done);
    };
    let Some(class) = cloud.class(&claim.spec.node_class_ref.name).await? else {
        return Ok(Outcome::Done);
    };
    let (types, _) = cloud.types_of(&class).await?;
    let known = cloud
        .interner
        .get(kind)
        .and_then(|id| types.types.iter().find(|one| one.name == id));
    let current = known.and_then(|known| ami_for(known, &class.status.amis, &cloud.interner));
    let image = claim.status.as_ref().and_then(|status| status.image_id.as_deref());
    let is_current = image.is_some() && current == image;
    let (images, now) = (images_key(&class.status.amis), cloud.clock.now());
    let node = node_key(node.metadata.uid.as_deref().unwrap_or(name));
    cloud
        .market
        .change_memory(|known| known.observe(kind, images, node, memory.units_floor(), is_current, now));
    Ok(Outcome::Done)
}

/// Writes what was learned into the annotations of these classes, where it is not yet. The sweep of every minute calls it, so that many nodes
/// that register together cost one call for each class.
pub async fn keep_memory(cloud: &AwsCloud, classes: &[EC2NodeClass]) -> Result<(), ReconcileError> {
    cloud.retain_kept_memory(classes);
    let mut errors = Vec::new();
    for class in classes
        .iter()
        .filter(|class| class.metadata.deletion_timestamp.is_none())
    {
        let Some(text) = cloud.memory_to_keep(class) else {
            continue;
        };
        let mut after = class.clone();
        let annotations = after.metadata.annotations.get_or_insert_default();
        annotations.insert(DISCOVERED_MEMORY.to_owned(), text);
        if let Err(error) = patch_object(&cloud.classes(), class, &after, Lock::None).await {
            errors.push(format!("EC2NodeClass {}: {error}", class.shown_name()));
        }
    }
    ReconcileError::of_all(&errors)
}
