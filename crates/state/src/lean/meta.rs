//! Object metadata without its heaviest part.

use super::or_default;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    #[serde(deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    #[serde(deserialize_with = "or_default")]
    finalizers: Vec<String>,
    generation: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
    name: Option<String>,
    namespace: Option<String>,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<OwnerReference>,
    resource_version: Option<String>,
    uid: Option<String>,
}

/// Reads metadata and skips `managedFields`, which is most of its bytes and of no use here.
pub(super) fn lean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let meta = Meta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        annotations: (!meta.annotations.is_empty()).then_some(meta.annotations),
        creation_timestamp: meta.creation_timestamp,
        deletion_timestamp: meta.deletion_timestamp,
        finalizers: (!meta.finalizers.is_empty()).then_some(meta.finalizers),
        generation: meta.generation,
        labels: (!meta.labels.is_empty()).then_some(meta.labels),
        name: meta.name,
        namespace: meta.namespace,
        owner_references: (!meta.owner_references.is_empty()).then_some(meta.owner_references),
        resource_version: meta.resource_version,
        uid: meta.uid,
        ..ObjectMeta::default()
    })
}
