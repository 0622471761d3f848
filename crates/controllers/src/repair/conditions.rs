//! The nodes and conditions repair looks at, in the terms of its rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_api::{annotations, labels};
use kerf_cloud::RepairPolicy;
use kerf_lifecycle::repair::{Carrier, Condition, Fleet, FleetNode, NodeConditions, UnhealthyCondition};
use kerf_state::lean::LeanNode;

use crate::claim_facts;
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

/// What a provider calls unhealthy, in the terms of repair.
pub fn unhealthy_conditions(rules: &[RepairPolicy]) -> Vec<UnhealthyCondition> {
    let condition = |rule: &RepairPolicy| UnhealthyCondition {
        condition_type: rule.condition_type.clone(),
        status: rule.status.clone(),
        toleration: rule.toleration,
    };
    rules.iter().map(condition).collect()
}

/// Which of a Node and its NodeClaim carries do-not-disrupt, the Node first.
pub fn carrier(node: Option<&ObjectMeta>, claim: Option<&ObjectMeta>) -> Option<Carrier> {
    let asks =
        |meta: &&ObjectMeta| claim_facts::label(meta.annotations.as_ref(), annotations::DO_NOT_DISRUPT) == labels::TRUE;
    let of_node = node.filter(asks).map(|_| Carrier::Node);
    of_node.or_else(|| claim.filter(asks).map(|_| Carrier::Claim))
}

/// A node as repair counts it.
pub fn fleet_node(node: &LeanNode, has_claim: bool) -> FleetNode<'_> {
    let pool = claim_facts::label(node.metadata.labels.as_ref(), labels::NODE_POOL);
    FleetNode {
        conditions: node_conditions(node),
        pool: Some(pool).filter(|pool| !pool.is_empty()),
        has_claim,
    }
}

/// What the provider calls unhealthy; nothing with the gate off (LIF-145).
pub(super) fn provider_rules(context: &Context) -> Vec<UnhealthyCondition> {
    match context.options.feature_gates.node_repair {
        true => unhealthy_conditions(&context.provider.profile().repair_policies),
        false => Vec::new(),
    }
}

/// The nodes of the cluster as repair counts them.
pub(super) fn fleet<'a>(
    context: &Context,
    nodes: &'a [Arc<LeanNode>],
    provider: &'a [UnhealthyCondition],
) -> Fleet<'a> {
    let node = |node: &'a Arc<LeanNode>| {
        let id = &node.spec.provider_id;
        let has_claim = !id.is_empty() && context.cluster.claims_by_provider_id(id).len() == 1;
        fleet_node(node, has_claim)
    };
    Fleet {
        nodes: nodes.iter().map(node).collect(),
        provider,
    }
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
