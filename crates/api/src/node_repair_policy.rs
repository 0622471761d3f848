//! NodeRepairPolicy: which nodes are unhealthy and what is done about them. Kerf's own; upstream knows only what the provider lists.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::node_spec::or_default;

/// How many of the selected nodes may be unhealthy unless a policy says otherwise: as many as upstream tolerates.
pub const MAX_UNHEALTHY_DEFAULT: &str = "20%";

/// The nodes, the findings that make one unhealthy, and what follows.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kerf.sh",
    version = "v1alpha1",
    kind = "NodeRepairPolicy",
    plural = "noderepairpolicies",
    singular = "noderepairpolicy",
    shortname = "nrp",
    category = "karpenter",
    status = "NodeRepairPolicyStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "Which nodes are unhealthy and what is done about them."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeRepairPolicySpec {
    /// The nodes it is about; all nodes with a NodeClaim when unset or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Node conditions, any of which makes a node unhealthy.
    #[serde(default, deserialize_with = "or_default")]
    pub unhealthy_conditions: Vec<UnhealthyCondition>,
    /// What is done with an unhealthy node; read it through [`NodeRepairPolicySpec::action`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<RepairAction>,
    /// How many of the selected nodes may be unhealthy before nothing is done any more, as `3` or `20%`; read it through
    /// [`NodeRepairPolicySpec::max_unhealthy`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unhealthy: Option<String>,
    /// When nodes may be replaced or drained, in UTC; at any time when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub maintenance_windows: Vec<MaintenanceWindow>,
}

impl NodeRepairPolicySpec {
    /// What is done with an unhealthy node; the schema's default when unset.
    pub fn action(&self) -> RepairAction {
        self.action.clone().unwrap_or_default()
    }

    /// How many of the selected nodes may be unhealthy; the schema's default when unset.
    pub fn max_unhealthy(&self) -> &str {
        self.max_unhealthy.as_deref().unwrap_or(MAX_UNHEALTHY_DEFAULT)
    }
}

/// A node condition that is bad.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnhealthyCondition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status that is bad: `True`, `False` or `Unknown`.
    pub status: String,
    /// How long it may last before something is done, as written; whether it can be read is judged with the rest of the policy.
    pub toleration: String,
}

/// What is done with an unhealthy node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RepairAction {
    /// It is ended at once, as upstream does it.
    #[default]
    Replace,
    /// It is taken away as gently as any other node, within its pool's budgets.
    Drain,
    /// It is reported.
    Report,
    /// Something this version does not know; nothing is done.
    #[serde(untagged)]
    Unknown(String),
}

/// A recurring period of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaintenanceWindow {
    /// When it opens, in the syntax of cron, UTC.
    pub schedule: String,
    /// How long it stays open, as written.
    pub duration: String,
}

/// What the controllers report about a NodeRepairPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRepairPolicyStatus {
    /// How many nodes are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i32>,
    /// How many of them are unhealthy, tolerated or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy_nodes: Option<i32>,
    /// How many of them have been unhealthy for longer than is tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue_nodes: Option<i32>,
    /// Findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
