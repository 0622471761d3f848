//! Volumes, volume claims and storage classes, as far as they are read.

use super::{LeanNodeSelector, meta, or_default};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A PersistentVolumeClaim.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::core::v1::PersistentVolumeClaim")]
pub struct LeanPvc {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Its spec.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: LeanPvcSpec,
    /// Its status.
    #[serde(default, deserialize_with = "or_default")]
    pub status: LeanPvcStatus,
}

/// A claim's spec.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanPvcSpec {
    /// The volume it is bound to, empty while it is not.
    #[serde(deserialize_with = "or_default")]
    pub volume_name: String,
    /// Its storage class.
    #[serde(deserialize_with = "or_default")]
    pub storage_class_name: String,
}

/// A claim's status.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanPvcStatus {
    /// `Pending`, `Bound` or `Lost`.
    #[serde(deserialize_with = "or_default")]
    pub phase: String,
}

/// A PersistentVolume.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::core::v1::PersistentVolume")]
pub struct LeanPv {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Its spec.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: LeanPvSpec,
}

/// A volume's spec.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanPvSpec {
    /// The CSI driver behind it.
    pub csi: Option<LeanCsiSource>,
    /// An in-tree EBS volume.
    pub aws_elastic_block_store: Option<IgnoredAny>,
    /// A disk of one node.
    pub local: Option<IgnoredAny>,
    /// A folder of one node.
    pub host_path: Option<IgnoredAny>,
    /// Where it can be reached.
    #[serde(deserialize_with = "or_default")]
    pub node_affinity: LeanVolumeAffinity,
}

/// A volume served by a CSI driver.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanCsiSource {
    /// The driver's name.
    pub driver: String,
}

/// Where a volume can be reached.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanVolumeAffinity {
    /// What must hold of the node.
    pub required: Option<LeanNodeSelector>,
}

/// A StorageClass.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::storage::v1::StorageClass")]
#[serde(rename_all = "camelCase")]
pub struct LeanStorageClass {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// The name of the provisioner.
    #[serde(default, deserialize_with = "or_default")]
    pub provisioner: String,
    /// `Immediate` (the default) or `WaitForFirstConsumer`.
    #[serde(default)]
    pub volume_binding_mode: Option<String>,
    /// Where volumes may be made.
    #[serde(default, deserialize_with = "or_default")]
    pub allowed_topologies: Vec<LeanTopologyTerm>,
}

/// One alternative of where volumes may be made.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanTopologyTerm {
    /// All of these hold.
    #[serde(deserialize_with = "or_default")]
    pub match_label_expressions: Vec<LeanTopologyExpression>,
}

/// `key In values`.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanTopologyExpression {
    /// The key.
    pub key: String,
    /// The values.
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<String>,
}

/// A CSINode: the drivers on one node.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::storage::v1::CSINode")]
pub struct LeanCsiNode {
    /// Its metadata, without managed fields; its name is the node's.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// The drivers.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: LeanCsiNodeSpec,
}

/// A CSINode's spec.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanCsiNodeSpec {
    /// The drivers.
    #[serde(deserialize_with = "or_default")]
    pub drivers: Vec<LeanCsiDriver>,
}

/// A driver on a node.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanCsiDriver {
    /// Its name.
    pub name: String,
    /// Its attach limit.
    pub allocatable: Option<LeanCsiAllocatable>,
}

/// An attach limit.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanCsiAllocatable {
    /// How many volumes; unlimited when unset.
    pub count: Option<i32>,
}
