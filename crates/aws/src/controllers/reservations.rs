//! Claims in capacity reservations that end (AWS-276 to AWS-278).

use crate::offering::CapacityType;
use crate::provider::AwsCloud;
use crate::provider_id::instance_id;
use crate::reservation::{demoted_labels, is_expiring};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kerf_api::labels::{CAPACITY_TYPE, CAPACITY_TYPE_RESERVED, REGISTERED};
use kerf_api::{EC2NodeClass, NodeClaim};
use kerf_runtime::ReconcileError;
use kerf_runtime::client::{Lock, Patchable, delete_exactly, patch_object, unless_conflict};
use kube::Api;
use kube::api::{ListParams, ObjectMeta};
use std::collections::{BTreeMap, BTreeSet};

/// Claims that are deleted at once.
const AT_ONCE: usize = 10;

/// Deletes the claims in capacity blocks that end soon: the controller `capacityreservation.expiration`.
pub async fn expire_reservations(cloud: &AwsCloud) -> Result<(), ReconcileError> {
    let classes: Vec<EC2NodeClass> = cloud.classes().list(&ListParams::default()).await?.items;
    let reservations: Vec<_> = classes
        .into_iter()
        .flat_map(|class| class.status.capacity_reservations)
        .collect();
    let no_labels = BTreeMap::new();
    let now = cloud.clock.now();
    let claims = cloud.managed_claims().await?;
    let ends = |claim: &&NodeClaim| {
        let labels = claim.metadata.labels.as_ref().unwrap_or(&no_labels);
        claim.metadata.deletion_timestamp.is_none() && is_expiring(labels, &reservations, now)
    };
    let ending: Vec<ObjectMeta> = claims.iter().filter(ends).map(|claim| claim.metadata.clone()).collect();
    let api = cloud.claims();
    let deletions = ending.into_iter().map(|read| {
        let api = api.clone();
        async move { delete_exactly(&api, &read).await.map(drop) }
    });
    let done: Vec<Result<(), kube::Error>> = futures::stream::iter(deletions)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    Ok(done.into_iter().collect::<Result<(), _>>()?)
}

/// Corrects the labels of claims and Nodes whose reservation has ended while their instance runs on: the controller
/// `capacityreservation.capacitytype`. Returns whether a write met a newer object, so that another pass is due at once. All are tried; the error is
/// that of the first object that could not be written. EC2 is only asked if there are objects of reservations.
pub async fn correct_capacity_types(cloud: &AwsCloud) -> Result<bool, ReconcileError> {
    let reserved = ListParams::default().labels(&format!("{CAPACITY_TYPE}={CAPACITY_TYPE_RESERVED}"));
    let claims = cloud.managed_claims_of(&reserved).await?;
    let node_api = Api::<Node>::all(cloud.client.clone());
    let nodes = node_api.list(&reserved).await?.items;
    if claims.is_empty() && nodes.is_empty() {
        return Ok(false);
    }
    let instances = cloud.instances.list().await?;
    let on_demand = instances
        .iter()
        .filter(|one| one.capacity_type == CapacityType::OnDemand);
    let on_demand: BTreeSet<&str> = on_demand.map(|one| one.described.id.as_str()).collect();
    let is_demoted = |provider_id: Option<&str>| {
        let id = provider_id.and_then(|id| instance_id(id).ok());
        id.is_some_and(|id| on_demand.contains(id))
    };
    let (mut stale, mut errors) = (false, Vec::new());
    let mut note = |corrected: Result<bool, kube::Error>| match corrected {
        Ok(is_stale) => stale |= is_stale,
        Err(error) => errors.push(error),
    };
    for claim in claims {
        let status = claim.status.as_ref();
        if is_demoted(status.and_then(|status| status.provider_id.as_deref())) {
            note(correct(&cloud.claims(), &claim).await);
        }
    }
    for node in nodes {
        let labels = node.metadata.labels.as_ref();
        let is_registered = labels
            .and_then(|labels| labels.get(REGISTERED))
            .is_some_and(|value| value == "true");
        let spec = node.spec.as_ref();
        if is_registered && is_demoted(spec.and_then(|spec| spec.provider_id.as_deref())) {
            note(correct(&node_api, &node).await);
        }
    }
    match errors.into_iter().next() {
        None => Ok(stale),
        Some(first) => Err(first.into()),
    }
}

/// Corrects one object. Returns whether it had changed meanwhile.
async fn correct<K: Patchable>(api: &Api<K>, object: &K) -> Result<bool, kube::Error> {
    let meta = object.meta();
    let labels = meta.labels.as_ref().filter(|_| meta.deletion_timestamp.is_none());
    let Some(corrected) = labels.and_then(demoted_labels) else {
        return Ok(false);
    };
    let mut after = object.clone();
    after.meta_mut().labels = Some(corrected);
    let written = unless_conflict(patch_object(api, object, &after, Lock::Optimistic).await)?;
    Ok(written.is_none())
}
