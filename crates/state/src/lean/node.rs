//! Nodes, as far as they are read.

use super::{Amounts, LeanCondition, meta, or_default};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::Deserialize;

/// A Node.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::core::v1::Node")]
pub struct LeanNode {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Its spec.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: LeanNodeSpec,
    /// Its status.
    #[serde(default, deserialize_with = "or_default")]
    pub status: LeanNodeStatus,
}

/// A Node's spec. `unschedulable` is not read: a cordon counts through its taint alone (SCH-499).
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanNodeSpec {
    /// The provider's id of the machine.
    #[serde(rename = "providerID", deserialize_with = "or_default")]
    pub provider_id: String,
    /// Its taints.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<LeanTaint>,
}

/// A taint as written.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanTaint {
    /// The key.
    pub key: String,
    /// The value, empty when unset.
    #[serde(deserialize_with = "or_default")]
    pub value: String,
    /// The effect.
    pub effect: String,
    /// Since when pods are evicted because of it. A write of the taints has to keep it.
    pub time_added: Option<Time>,
}

/// A Node's status.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanNodeStatus {
    /// What it has.
    pub capacity: Amounts,
    /// What pods may have of it.
    pub allocatable: Amounts,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<LeanCondition>,
}
