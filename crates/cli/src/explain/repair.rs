//! What node auto-repair says about a node.

use crate::decision::Cluster;
use jiff::Timestamp;
use kerf_api::labels::NODE_POOL;
use kerf_controllers::{node_conditions, read_repair_policy};
use kerf_lifecycle::repair::{
    Action, Finding, Health, Policy, Rule, UnhealthyCondition, findings, is_unhealthy, is_within_provider_cap,
};
use kerf_state::lean::LeanNode;
use std::sync::Arc;

/// One sentence for each condition of a Node that is unhealthy by a rule of the provider or by a NodeRepairPolicy: what is done about it, and
/// when. `gate` is the feature gate `NodeRepair`. Empty for a healthy Node.
pub(super) fn repairs(cluster: &Cluster, node: &str, gate: bool, now: Timestamp) -> Vec<String> {
    let mut nodes = cluster.world.nodes.iter();
    let Some(node) = nodes.find(|one| one.metadata.name.as_deref() == Some(node)) else {
        return Vec::new();
    };
    let rules: Vec<UnhealthyCondition> = kerf_kwok::repair_policies()
        .into_iter()
        .map(|rule| UnhealthyCondition {
            condition_type: rule.condition_type,
            status: rule.status,
            toleration: rule.toleration,
        })
        .collect();
    let policies: Vec<Arc<Policy>> = cluster
        .repair_policies
        .iter()
        .map(|policy| Arc::new(read_repair_policy(policy)))
        .collect();
    let found = findings(&node_conditions(node), &rules, &policies);
    let sentence = |finding: &Finding<'_>| {
        let condition = finding.rule.condition();
        let (what, by) = match finding.rule {
            Rule::Provider(_) if !gate => (
                "is not repaired".to_owned(),
                "the feature gate NodeRepair is off".to_owned(),
            ),
            rule => {
                let what = match rule.action() {
                    Action::Report => "reported in an event",
                    Action::Drain => "drained",
                    Action::Replace => "replaced",
                };
                let held = held(cluster, node, rule, &rules, now);
                let what = match &held {
                    Some(_) => format!("would be {what}"),
                    None if finding.at <= now => format!("is {what} now"),
                    None => format!("is {what} from {} on", finding.at),
                };
                let by = match rule {
                    Rule::Provider(_) => "the provider's rule".to_owned(),
                    Rule::Policy(policy, _) => format!("NodeRepairPolicy {}", policy.name),
                };
                (what, by + held.as_deref().unwrap_or_default())
            }
        };
        format!(
            "{} is {}: the node {what} ({by})",
            condition.condition_type, condition.status
        )
    };
    found.iter().map(sentence).collect()
}

/// What keeps a rule from being followed now.
fn held(
    cluster: &Cluster,
    node: &LeanNode,
    rule: Rule<'_>,
    rules: &[UnhealthyCondition],
    now: Timestamp,
) -> Option<String> {
    let nodes = cluster.world.nodes.iter();
    match rule {
        Rule::Policy(policy, _) if !policy.is_open(now) => Some(policy.opens_after(now).map_or_else(
            || ", whose maintenance windows never open".to_owned(),
            |open| format!(", whose next maintenance window opens at {open}"),
        )),
        Rule::Policy(policy, _) => {
            let health = Health::of(policy, nodes.map(node_conditions), now);
            let many = !health.is_within(policy) && policy.action != Action::Report;
            many.then(|| ", which waits: more nodes are unhealthy than maxUnhealthy allows".to_owned())
        }
        Rule::Provider(_) => {
            let pool = pool_of(node);
            let of_pool: Vec<&LeanNode> = nodes.filter(|one| pool_of(one) == pool).collect();
            let unhealthy = of_pool.iter().filter(|one| is_unhealthy(&node_conditions(one), rules));
            let within = is_within_provider_cap(unhealthy.count(), of_pool.len());
            (!within).then(|| ", which waits: more than 20 % of the NodePool's nodes are unhealthy".to_owned())
        }
    }
}

fn pool_of(node: &LeanNode) -> Option<&str> {
    node.metadata.labels.as_ref()?.get(NODE_POOL).map(String::as_str)
}
