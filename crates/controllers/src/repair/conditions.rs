//! The nodes and conditions repair looks at, in the terms of its rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_lifecycle::repair::{Condition, NodeConditions, UnhealthyCondition};
use kerf_state::lean::LeanNode;

use crate::context::Context;

/// A node's labels and conditions.
pub fn node_conditions(node: &LeanNode) -> NodeConditions<'_> {
    let labels = node.metadata.labels.iter().flatten();
    let conditions = node.status.conditions.iter().map(|one| Condition {
        condition_type: &one.kind,
        status: &one.status,
        since: one.last_transition_time.as_ref().map(|time| time.0),
    });
    NodeConditions {
        labels: labels.map(|(key, value)| (key.as_str(), value.as_str())).collect(),
        conditions: conditions.collect(),
    }
}

/// What the provider calls unhealthy; nothing with the gate off (LIF-145).
pub(super) fn provider_rules(context: &Context) -> Vec<UnhealthyCondition> {
    if !context.options.feature_gates.node_repair {
        return Vec::new();
    }
    let rules = context.provider.profile().repair_policies.iter();
    rules
        .map(|rule| UnhealthyCondition {
            condition_type: rule.condition_type.clone(),
            status: rule.status.clone(),
            toleration: rule.toleration,
        })
        .collect()
}

/// Type, status and last transition of a node's conditions: a change of these calls for repair (LIF-147).
pub(super) fn conditions_of(node: &LeanNode) -> BTreeMap<String, (String, Option<Timestamp>)> {
    let conditions = node.status.conditions.iter();
    let fact = |one: &kerf_state::lean::LeanCondition| {
        let since = one.last_transition_time.as_ref().map(|time| time.0);
        (one.kind.clone(), (one.status.clone(), since))
    };
    conditions.map(fact).collect()
}

/// The nodes policies can be about: those with exactly one claim (LIF-147).
pub(super) fn nodes_with_claims(context: &Context) -> Vec<Arc<LeanNode>> {
    let mut nodes = context.cluster.nodes();
    nodes.retain(|node| {
        let id = &node.spec.provider_id;
        !id.is_empty() && context.cluster.claims_by_provider_id(id).len() == 1
    });
    nodes
}
