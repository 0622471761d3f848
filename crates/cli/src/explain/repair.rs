//! The findings of node auto-repair about a node.

use crate::decision::Cluster;
use jiff::Timestamp;
use kerf_api::ec2_node_class::KIND;
use kerf_api::{NodeClaim, annotations, labels};
use kerf_controllers::{carrier, fleet_node, node_conditions, read_repair_policy, unhealthy_conditions};
use kerf_lifecycle::repair::{
    Action, Block, Carrier, DrainBudget, DrainLimits, Finding, Fleet, Pause, Policy, Reason, Rule, UnhealthyCondition,
    decide, findings,
};
use kerf_model::snapshot::Snapshot;
use kerf_state::lean::LeanNode;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The objects that node auto-repair depends on, apart from the snapshot.
pub(super) struct RepairFacts {
    nodes: Vec<LeanNode>,
    /// By provider id.
    claims: BTreeMap<String, Vec<NodeClaim>>,
    policies: Vec<Arc<Policy>>,
    /// The name of a policy that cannot be read.
    unread_policy: Option<String>,
    /// The names of the NodePools that cannot be read.
    unread_pools: Vec<String>,
    has_ec2_classes: bool,
}

impl RepairFacts {
    /// Takes them from a cluster.
    pub(super) fn of(cluster: &Cluster) -> Self {
        let mut claims: BTreeMap<String, Vec<NodeClaim>> = BTreeMap::new();
        for claim in &cluster.objects.claims {
            let id = claim.status.as_ref().and_then(|status| status.provider_id.clone());
            if let Some(id) = id.filter(|id| !id.is_empty()) {
                claims.entry(id).or_default().push(claim.clone());
            }
        }
        let policies = cluster.repair_policies.iter();
        Self {
            nodes: cluster.objects.nodes.clone(),
            claims,
            policies: policies.filter_map(read_repair_policy).map(Arc::new).collect(),
            unread_policy: cluster.left_out("NodeRepairPolicy").next().map(str::to_owned),
            unread_pools: cluster.left_out("NodePool").map(str::to_owned).collect(),
            has_ec2_classes: !cluster.ec2_classes.is_empty(),
        }
    }

    /// One sentence for each condition of a Node that is unhealthy by a rule of the provider or by a NodeRepairPolicy: what is done about it,
    /// and when. `gate` is the feature gate `NodeRepair`. Empty for a healthy Node.
    pub(super) fn sentences(&self, node: &str, snapshot: &Snapshot, gate: bool, now: Timestamp) -> Vec<String> {
        let mut nodes = self.nodes.iter();
        let Some(node) = nodes.find(|one| one.metadata.name.as_deref() == Some(node)) else {
            return Vec::new();
        };
        let rules = self.provider_rules(node);
        let found = findings(&node_conditions(node), &rules, &self.policies);
        let sentence = |finding: &Finding<'_>| {
            let condition = finding.rule.condition();
            let (what, by) = match (finding.rule, self.claims_of(node)) {
                (Rule::Provider(_), _) if !gate => not_repaired("the feature gate NodeRepair is off".to_owned()),
                (_, [claim]) => {
                    let block = self.block(node, claim, finding, &rules, snapshot, now);
                    followed(finding, claim, block.as_ref(), now)
                }
                (_, []) => not_repaired("no NodeClaim has its provider id".to_owned()),
                (_, several) => not_repaired(format!("{} NodeClaims have its provider id", several.len())),
            };
            format!(
                "{} is {}: the node {what} ({by})",
                condition.condition_type, condition.status
            )
        };
        found.iter().map(sentence).collect()
    }

    fn claims_of(&self, node: &LeanNode) -> &[NodeClaim] {
        let claims = self.claims.get(&node.spec.provider_id);
        claims.map_or(&[], Vec::as_slice)
    }

    /// What the provider of a node's class calls unhealthy.
    fn provider_rules(&self, node: &LeanNode) -> Vec<UnhealthyCondition> {
        let claim = self.claims_of(node).first();
        let is_ec2 = claim.map_or(self.has_ec2_classes, |claim| claim.spec.node_class_ref.kind == KIND);
        unhealthy_conditions(&match is_ec2 {
            true => kerf_aws::repair::repair_policies(),
            false => kerf_kwok::repair_policies(),
        })
    }

    /// What keeps a finding from being followed now.
    fn block(
        &self,
        node: &LeanNode,
        claim: &NodeClaim,
        finding: &Finding<'_>,
        rules: &[UnhealthyCondition],
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> Option<Block> {
        let fleet = Fleet {
            nodes: self
                .nodes
                .iter()
                .map(|node| fleet_node(node, self.claims_of(node).len() == 1))
                .collect(),
            provider: rules,
        };
        let (pool, id) = (pool_of(claim), node.spec.provider_id.as_str());
        let is_readable = |pool: &str| !self.unread_pools.iter().any(|unread| unread == pool);
        let limits = || {
            let protected_by = carrier(Some(&node.metadata), Some(&claim.metadata));
            let budget = || DrainBudget::of(pool, id, snapshot, is_readable, now);
            DrainLimits::of(protected_by, claim.metadata.deletion_timestamp.is_some(), budget)
        };
        decide(finding, pool, &fleet, &limits, self.unread_policy.as_deref(), now).err()
    }
}

fn not_repaired(why: String) -> (String, String) {
    ("is not repaired".to_owned(), why)
}

/// What is done about a finding and when, and by which rule.
fn followed(finding: &Finding<'_>, claim: &NodeClaim, block: Option<&Block>, now: Timestamp) -> (String, String) {
    let what = match finding.rule.action() {
        Action::Report => "reported in an event",
        Action::Drain => "drained",
        Action::Replace => "replaced",
    };
    let what = match block {
        Some(_) => format!("would be {what}"),
        None if finding.at <= now => format!("is {what} now"),
        None => format!("is {what} from {} on", finding.at),
    };
    let by = match finding.rule {
        Rule::Provider(_) => "the provider's rule".to_owned(),
        Rule::Policy(policy, _) => format!("NodeRepairPolicy {}", policy.name),
    };
    let held = block.map(|block| held(block, pool_of(claim)));
    (what, by + held.as_deref().unwrap_or_default())
}

/// What a rule waits for, as the end of a sentence about it. `pool` is that of the node's claim.
fn held(block: &Block, pool: Option<&str>) -> String {
    let (policy, reason) = match block {
        Block::ProviderCap => {
            let nodes = pool.map_or("cluster's", |_| "NodePool's");
            return format!(", which waits: more than 20 % of the {nodes} nodes are unhealthy");
        }
        Block::Policy(policy, reason) => (policy, reason),
    };
    let pool = pool.unwrap_or_default();
    let waits = match reason {
        Reason::Paused(Pause::Window(None)) => return ", whose maintenance windows never open".to_owned(),
        Reason::Paused(Pause::Window(Some(open))) => return format!(", whose next maintenance window opens at {open}"),
        Reason::Paused(Pause::Cap(_)) => "more nodes are unhealthy than maxUnhealthy allows".to_owned(),
        Reason::Annotation(carrier) => {
            let carrier = match carrier {
                Carrier::Node => "the Node",
                Carrier::Claim => "its NodeClaim",
            };
            format!("{carrier} carries {}", annotations::DO_NOT_DISRUPT)
        }
        Reason::Budget => format!("disruption budgets of NodePool {pool} allow no more nodes to go"),
        Reason::NoPool { readable: true } => format!("NodePool {pool}, whose disruption budgets it needs, is missing"),
        Reason::NoPool { readable: false } => {
            format!("NodePool {pool}, whose disruption budgets it needs, cannot be read")
        }
        Reason::Unread => format!("NodeRepairPolicy {policy}, which may take its place, cannot be read"),
    };
    format!(", which waits: {waits}")
}

fn pool_of(claim: &NodeClaim) -> Option<&str> {
    let pool = claim.metadata.labels.as_ref()?.get(labels::NODE_POOL)?;
    Some(pool.as_str()).filter(|pool| !pool.is_empty())
}
