//! NodeOverlay: a correction of what is known about instance types (section 4 of `docs/behaviour/api.md`).

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::node_spec::{Operator, Requirement, ResourceList, or_default};

/// The correction and what it applies to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    singular = "nodeoverlay",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "A correction of what is known about instance types."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlaySpec {
    /// The instance types and offerings it applies to; all when empty.
    pub requirements: Vec<OverlayRequirement>,
    /// Price to use instead, per hour; digits with an optional fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Signed change to the price, an amount or a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// Resources to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub capacity: ResourceList,
    /// Rank among overlays, higher first; unset counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// A condition on one label of an instance type or offering; it has no minimum of values (API-121).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayRequirement {
    /// Label key.
    pub key: String,
    /// How the label relates to the values.
    pub operator: Operator,
    /// Label values; a single integer for the comparisons.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub values: Vec<String>,
}

impl From<&OverlayRequirement> for Requirement {
    fn from(overlay: &OverlayRequirement) -> Self {
        Self::new(
            overlay.key.clone(),
            overlay.operator.clone(),
            overlay.values.iter().cloned(),
        )
    }
}

impl NodeOverlay {
    /// Orders overlays by evaluation: higher weight first, then the later name first (API-133).
    pub fn compare_precedence(&self, other: &Self) -> std::cmp::Ordering {
        let rank = |overlay: &Self| overlay.spec.weight.unwrap_or(0);
        rank(other)
            .cmp(&rank(self))
            .then_with(|| other.metadata.name.cmp(&self.metadata.name))
    }
}

/// What the controllers report about a NodeOverlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeOverlayStatus {
    /// Findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
