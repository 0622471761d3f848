//! NodeClaim: one node, from the decision to launch it until its instance is gone (section 3 of `docs/behaviour/api.md`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_units::duration::{GoDuration, NillableDuration, WrittenDuration};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::node_pool::expire_after;
use crate::node_spec::{NodeClassRef, Requirement, ResourceList, or_default};

/// What a NodeClaim wants; immutable (API-091).
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    singular = "nodeclaim",
    category = "karpenter",
    status = "NodeClaimStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "One node, from the decision to launch it until its instance is gone."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    /// Taints the node keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// Taints something on the node removes soon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    /// What the labels of the node must be.
    pub requirements: Vec<Requirement>,
    /// What the node has to have room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequests>,
    /// The provider-specific configuration.
    pub node_class_ref: NodeClassRef,
    /// Longest time the node may take to drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<WrittenDuration>,
    /// Age at which the node is replaced; read it through [`NodeClaimSpec::expire_after`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<NillableDuration>,
}

impl NodeClaimSpec {
    /// Taints the node keeps.
    pub fn taints(&self) -> &[Taint] {
        self.taints.as_deref().unwrap_or_default()
    }

    /// Taints something on the node removes soon.
    pub fn startup_taints(&self) -> &[Taint] {
        self.startup_taints.as_deref().unwrap_or_default()
    }

    /// Age at which the node is replaced, `None` for never; the schema's default when unset.
    pub fn expire_after(&self) -> Option<GoDuration> {
        expire_after(self.expire_after.as_ref())
    }
}

/// What a node has to have room for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceRequests {
    /// Least allocatable amount per resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub requests: ResourceList,
}

/// What the controllers report about a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Identity of the instance at the provider.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Image the instance was started from.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// What the node has in full, as expected before it registers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub capacity: ResourceList,
    /// What pods can use of it, as expected before it registers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub allocatable: ResourceList,
    /// When a pod was last scheduled to the node, finished or was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
    /// Findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
