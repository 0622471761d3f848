//! CapacityBuffer: spare capacity kept ready for pods still to come (section 11 of `docs/behaviour/api.md`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::{Condition, ConditionStatus};
use crate::conditions::capacity_buffer::READY_FOR_PROVISIONING;
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

impl CapacityBuffer {
    /// Whether Kerf carries out its strategy (SCH-379).
    pub fn is_active(&self) -> bool {
        let strategy = self.spec.provisioning_strategy.as_deref();
        strategy.is_none_or(|strategy| strategy.is_empty() || strategy == STRATEGY_DEFAULT)
    }

    /// Whether its pods are known (SCH-382).
    pub fn is_ready(&self) -> bool {
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|condition| condition.type_ == READY_FOR_PROVISIONING && condition.is_true())
    }

    /// Sets a condition by the rules of Kubernetes: the time changes with the status only (API-221).
    pub fn set_condition(&mut self, kind: &str, holds: bool, reason: &str, message: &str, now: Timestamp) {
        let status = if holds {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        };
        let mut condition = Condition {
            observed_generation: self.metadata.generation,
            ..Condition::new(kind, status, reason, message, now)
        };
        let conditions = &mut self.status.get_or_insert_default().conditions;
        match conditions.iter_mut().find(|known| known.type_ == kind) {
            Some(known) => {
                if known.status == status {
                    condition.last_transition_time = known.last_transition_time.clone();
                }
                *known = condition;
            }
            None => conditions.push(condition),
        }
    }
}
