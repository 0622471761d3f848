//! Claims in capacity reservations that end (AWS-276 to AWS-278).

use super::kube_objects::{Written, merge_locked};
use crate::labels::RESERVATION;
use crate::offering::CapacityType;
use crate::provider::AwsCloud;
use crate::provider_id::instance_id;
use crate::reservation::{demoted_labels, is_expiring};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kerf_api::labels::{CAPACITY_TYPE, CAPACITY_TYPE_RESERVED, REGISTERED};
use kerf_api::{EC2NodeClass, NodeClaim};
use kerf_runtime::ReconcileError;
use kerf_runtime::client::delete_exactly;
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Resource};
use serde_json::{Map, Value, json};
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

/// The labels that change, as a merge patch; those that are taken away are null.
fn label_patch(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Value {
    let mut changes: Map<String, Value> = [(CAPACITY_TYPE.to_owned(), json!(after.get(CAPACITY_TYPE)))]
        .into_iter()
        .collect();
    let gone = RESERVATION.iter().filter(|key| before.contains_key(**key));
    changes.extend(gone.map(|key| ((*key).to_owned(), Value::Null)));
    json!({"metadata": {"labels": changes}})
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
async fn correct<K>(api: &Api<K>, object: &K) -> Result<bool, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let meta = object.meta();
    let labels = meta.labels.clone().unwrap_or_default();
    let Some(corrected) = demoted_labels(&labels).filter(|_| meta.deletion_timestamp.is_none()) else {
        return Ok(false);
    };
    let written = merge_locked(api, object, label_patch(&labels, &corrected), false).await?;
    Ok(matches!(written, Written::Stale))
}
