//! NodePool: a kind of nodes that may be launched (section 2 of `docs/behaviour/api.md`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use kerf_units::duration::{GoDuration, NillableDuration, WrittenDuration};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::node_spec::{NodeClassRef, Requirement, ResourceList, or_default};

/// Age at which nodes expire unless the template says otherwise (API-033).
pub const EXPIRE_AFTER_DEFAULT: GoDuration = GoDuration::from_secs(720 * 3_600);
/// The budget of a pool that names none (API-037).
pub const BUDGET_NODES_DEFAULT: &str = "10%";

/// What a NodePool wants.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    singular = "nodepool",
    category = "karpenter",
    status = "NodePoolStatus",
    schema = "disabled",
    derive = "PartialEq",
    doc = "A kind of nodes that may be launched."
)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// The template of the nodes.
    pub template: NodeClaimTemplate,
    /// When nodes may be removed voluntarily; API servers fill in a default (API-049).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
    /// The most the nodes may add up to, per resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub limits: ResourceList,
    /// Rank among the pools, higher first; read it through [`NodePoolSpec::weight`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Number of nodes of a static pool; `None` makes the pool dynamic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

impl NodePoolSpec {
    /// Rank among the pools, 0 when unset (API-043).
    pub fn weight(&self) -> i32 {
        self.weight.unwrap_or(0)
    }

    /// Whether the pool keeps a fixed number of nodes.
    pub const fn is_static(&self) -> bool {
        self.replicas.is_some()
    }

    /// The number of nodes a static pool is to have; `None` for a dynamic pool. A negative number is 0.
    pub fn node_count(&self) -> Option<u64> {
        self.replicas.map(|replicas| u64::try_from(replicas).unwrap_or(0))
    }

    /// The most nodes the pool may have, `None` without such a limit. A limit that cannot be a count allows none.
    pub fn node_limit(&self) -> Option<u64> {
        let limit = self.limits.get("nodes")?;
        Some(u64::try_from(limit.units_floor()).unwrap_or(0))
    }

    /// When nodes may be removed voluntarily, with the defaults filled in.
    pub fn disruption(&self) -> Disruption {
        self.disruption.clone().unwrap_or_default()
    }
}

/// The template of the nodes of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeClaimTemplate {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Everything else.
    pub spec: NodeClaimTemplateSpec,
}

impl NodeClaimTemplate {
    /// The template's labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        entries(self.metadata.as_ref().and_then(|m| m.labels.as_ref()))
    }

    /// The template's annotations.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        entries(self.metadata.as_ref().and_then(|m| m.annotations.as_ref()))
    }
}

fn entries(map: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = (&str, &str)> {
    map.into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str()))
}

/// Labels and annotations of the nodes of a pool. Absent and empty are different things to the drift hash (API-194).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Properties of the nodes of a pool. Absent and empty lists are different things to the drift hash (API-194).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints the node keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// Taints something on the node removes soon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    /// What the labels of a node must be.
    pub requirements: Vec<Requirement>,
    /// The provider-specific configuration.
    pub node_class_ref: NodeClassRef,
    /// Longest time a node may take to drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<WrittenDuration>,
    /// Age at which a node is replaced; read it through [`NodeClaimTemplateSpec::expire_after`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<NillableDuration>,
}

impl NodeClaimTemplateSpec {
    /// Taints the node keeps.
    pub fn taints(&self) -> &[Taint] {
        self.taints.as_deref().unwrap_or_default()
    }

    /// Taints something on the node removes soon.
    pub fn startup_taints(&self) -> &[Taint] {
        self.startup_taints.as_deref().unwrap_or_default()
    }

    /// Age at which a node is replaced, `None` for never; the schema's default when unset.
    pub fn expire_after(&self) -> Option<GoDuration> {
        expire_after(self.expire_after.as_ref())
    }
}

/// Reads an expiry field with the schema's default.
pub(crate) fn expire_after(field: Option<&NillableDuration>) -> Option<GoDuration> {
    field.map_or(Some(EXPIRE_AFTER_DEFAULT), NillableDuration::value)
}

/// When and how fast nodes may be removed voluntarily.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long a node must have no pod events before consolidation may choose it.
    pub consolidate_after: NillableDuration,
    /// Which nodes consolidation may remove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidation_policy: Option<ConsolidationPolicy>,
    /// How many nodes may go at once. Unset is one budget of 10%, empty is no limit (API-051).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Vec<Budget>>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: GoDuration::ZERO.into(),
            consolidation_policy: None,
            budgets: None,
        }
    }
}

impl Disruption {
    /// Which nodes consolidation may remove, with the default filled in.
    pub fn consolidation_policy(&self) -> ConsolidationPolicy {
        self.consolidation_policy.unwrap_or_default()
    }

    /// The budgets, with the default filled in.
    pub fn budgets(&self) -> Vec<Budget> {
        self.budgets.clone().unwrap_or_else(|| vec![Budget::default()])
    }
}

/// Which nodes consolidation may remove (API-036).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConsolidationPolicy {
    /// Only nodes without workload.
    WhenEmpty,
    /// Also nodes whose pods fit elsewhere or on something cheaper.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Nodes where the saving outweighs the disturbance.
    Balanced,
}

/// A limit on simultaneous disruption. Schedule and count stay text: a broken one must count as "none allowed" (API-208)
/// instead of hiding the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Count or percentage of nodes.
    #[serde(default = "budget_nodes_default")]
    pub nodes: String,
    /// The kinds of disruption it limits; all when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// When its window opens, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How long its window stays open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<WrittenDuration>,
}

fn budget_nodes_default() -> String {
    BUDGET_NODES_DEFAULT.to_owned()
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            nodes: budget_nodes_default(),
            reasons: None,
            schedule: None,
            duration: None,
        }
    }
}

/// A kind of voluntary disruption (API-039).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DisruptionReason {
    /// The pods fit elsewhere or on something cheaper.
    Underutilized,
    /// The node has no workload.
    Empty,
    /// The node no longer is what its pool asks for.
    Drifted,
}

impl DisruptionReason {
    /// As written in objects, conditions, events and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Underutilized => "Underutilized",
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
        }
    }
}

/// What the controllers report about a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// Sum of the nodes' capacity.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub resources: ResourceList,
    /// Generation of the node class that registration health was last judged for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
