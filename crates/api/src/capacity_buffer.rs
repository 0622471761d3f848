//! CapacityBuffer: spare capacity kept ready for pods still to come (section 11 of `docs/behaviour/api.md`).

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::node_spec::{ResourceList, or_default};

/// The strategy of a buffer that names none (API-211).
pub const STRATEGY_DEFAULT: &str = "buffer.x-k8s.io/active-capacity";

/// How much capacity to keep, and of which shape.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    plural = "capacitybuffers",
    singular = "capacitybuffer",
    shortname = "cb",
    category = "autoscaling",
    namespaced,
    status = "CapacityBufferStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "Spare capacity kept ready for pods that are still to come."
)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferSpec {
    /// How the capacity is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// PodTemplate that gives the shape of one virtual pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<PodTemplateRef>,
    /// Workload whose pods give the shape of one virtual pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// Number of virtual pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Size relative to the replicas of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage: Option<i32>,
    /// The most the virtual pods may request together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub limits: ResourceList,
}

/// Names a PodTemplate of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodTemplateRef {
    /// Name.
    pub name: String,
}

/// Names a workload of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// API group; empty and absent mean `apps` (API-213).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// What the controllers report about a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// PodTemplate last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<PodTemplateRef>,
    /// Generation of the PodTemplate last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// Number of virtual pods kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Strategy that is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
