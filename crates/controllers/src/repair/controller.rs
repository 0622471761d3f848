//! Replaces or drains unhealthy nodes.
//!
//! Replacing a node heeds neither disruption budgets nor do-not-disrupt. It stops when too large a share of the nodes is unhealthy, so that
//! an outage does not take the healthy ones as well. Draining a node heeds both.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_api::{NodeClaim, NodePool, annotations, labels};
use kerf_disruption::Allowance;
use kerf_lifecycle::repair::{
    Action, Finding, Health, Rule, UnhealthyCondition, findings, is_unhealthy, is_within_provider_cap,
};
use kerf_model::budget::DisruptionReason;
use kerf_runtime::metrics::catalogue::NODECLAIMS_UNHEALTHY_DISRUPTED;
use kerf_runtime::{CancellationToken, ObjectRef, Outcome, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;
use kube::Resource;
use tokio::sync::Mutex;

use super::conditions::{conditions_of, node_conditions, nodes_with_claims, provider_rules};
use super::events::{self, Block, Reason};
use super::policies::{Followed, Policies};
use crate::changes::Change;
use crate::claim_facts;
use crate::claim_writes::{disrupt, set_annotation};
use crate::context::Context;
use crate::deadline::{deadline, rfc3339};
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "node.health";
/// The time until a node is looked at again while the policies are not listed yet.
const UNKNOWN: Duration = Duration::from_secs(1);

/// `KernelReady` becomes `kernel_ready`.
fn snake_case(text: &str) -> String {
    let mut snake = String::new();
    for letter in text.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Replaces, drains or reports unhealthy nodes.
pub(crate) struct Repair {
    context: Context,
    policies: Policies,
    work: WorkLoop<String>,
    /// What the provider calls unhealthy; nothing with the gate off (LIF-145).
    provider_rules: Vec<UnhealthyCondition>,
    /// Held while a drain is decided, so that two drains do not use the same disruption budget.
    draining: Mutex<()>,
}

impl Repair {
    pub(crate) fn new(context: &Context, policies: &Policies) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            policies: policies.clone(),
            work: WorkLoop::new(context, NAME, RateLimit::SHARED)
                .for_kind::<LeanNode>()
                .workers(context.workers(10, 1000)),
            provider_rules: provider_rules(context),
            draining: Mutex::default(),
        })
    }

    /// Takes a node away as the finding's rule wants, or returns what prevents it.
    async fn take_away(
        &self,
        node: &LeanNode,
        claim: &NodeClaim,
        finding: &Finding<'_>,
        unread: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Block>, ReconcileError> {
        let Rule::Policy(policy, _) = finding.rule else {
            if let Some(name) = unread {
                return Ok(Some(Block::Policy(name.into(), Reason::Unread)));
            }
            if !self.is_within_cap(claim) {
                return Ok(Some(Block::ProviderCap));
            }
            self.replace(node, claim, finding).await?;
            return Ok(None);
        };
        let blocked = |reason| Block::Policy(Arc::clone(&policy.name), reason);
        if !policy.is_open(now) {
            return Ok(Some(blocked(Reason::Window(policy.opens_after(now)))));
        }
        let nodes = nodes_with_claims(&self.context);
        let health = Health::of(policy, nodes.iter().map(|node| node_conditions(node)), now);
        if !health.is_within(policy) {
            return Ok(Some(blocked(Reason::Cap(policy.max_unhealthy.of(health.nodes)))));
        }
        if policy.action == Action::Replace {
            self.replace(node, claim, finding).await?;
            return Ok(None);
        }
        Ok(self.drain(node, claim, finding, now).await?.map(blocked))
    }

    /// Whether few enough nodes of the claim's pool, or of the cluster for a claim without pool, are unhealthy (LIF-149).
    fn is_within_cap(&self, claim: &NodeClaim) -> bool {
        let pool = claim_facts::pool(claim);
        let of_pool =
            |node: &Arc<LeanNode>| claim_facts::label(node.metadata.labels.as_ref(), labels::NODE_POOL) == pool;
        let mut nodes = self.context.cluster.nodes();
        nodes.retain(|node| pool.is_empty() || of_pool(node));
        let is_unhealthy = |node: &&Arc<LeanNode>| is_unhealthy(&node_conditions(node), &self.provider_rules);
        let unhealthy = nodes.iter().filter(is_unhealthy).count();
        is_within_provider_cap(unhealthy, nodes.len())
    }

    /// Deletes the claim with a drain deadline of now, whatever its termination grace period (LIF-153).
    async fn replace(&self, node: &LeanNode, claim: &NodeClaim, finding: &Finding<'_>) -> Result<(), ReconcileError> {
        let now = self.context.now();
        let over = deadline(claim).is_ok_and(|deadline| deadline.is_some_and(|deadline| deadline < now));
        if !over {
            set_annotation(&self.context, claim, annotations::TERMINATION_TIMESTAMP, &rfc3339(now)).await?;
        }
        self.end(node, claim, finding).await
    }

    /// Deletes the claim unless Node or claim carry do-not-disrupt or the pool's disruption budgets for drift are used up. The pods are
    /// evicted as in any drain. Returns what prevents it.
    async fn drain(
        &self,
        node: &LeanNode,
        claim: &NodeClaim,
        finding: &Finding<'_>,
        now: Timestamp,
    ) -> Result<Option<Reason>, ReconcileError> {
        let _one_at_a_time = self.draining.lock().await;
        if let Some(carrier) = self.protected(node, claim) {
            return Ok(Some(Reason::Annotation(carrier)));
        }
        if !claim_facts::is_deleting(claim)
            && let Some(reason) = self.outside_budgets(node, claim, now)
        {
            return Ok(Some(reason));
        }
        self.end(node, claim, finding).await?;
        Ok(None)
    }

    /// Which of Node and claim carries do-not-disrupt now.
    fn protected(&self, node: &LeanNode, claim: &NodeClaim) -> Option<&'static str> {
        let cluster = &self.context.cluster;
        let asks = |meta: &ObjectMeta| {
            claim_facts::label(meta.annotations.as_ref(), annotations::DO_NOT_DISRUPT) == labels::TRUE
        };
        let name = node.metadata.name.as_deref().unwrap_or_default();
        if cluster.node(name).is_some_and(|node| asks(&node.metadata)) {
            return Some("the node");
        }
        let claim = cluster.claim(claim_facts::name(claim));
        claim
            .is_some_and(|claim| asks(&claim.metadata))
            .then_some("its NodeClaim")
    }

    /// What of the node's pool prevents a drain. A node without pool has no budgets; for a pool that is missing or unreadable, the budgets
    /// count as used up (DIS-086).
    fn outside_budgets(&self, node: &LeanNode, claim: &NodeClaim, now: Timestamp) -> Option<Reason> {
        let name = claim_facts::pool(claim);
        if name.is_empty() {
            return None;
        }
        self.context.cluster.expire(now);
        let snapshot = self.context.cluster.snapshot(now);
        let allowance = Allowance::new(&snapshot, DisruptionReason::Drifted, now);
        let Some(pool) = allowance.pools().find(|pool| *pool.pool == *name) else {
            let unreadable = self.context.cluster.unreadable();
            let is_it = |object: &ObjectRef| object.kind == NodePool::kind(&()) && object.name == name;
            let readable = !unreadable.iter().any(|one| is_it(&one.object));
            return Some(Reason::NoPool { readable });
        };
        let id = node.spec.provider_id.as_str();
        let machine = snapshot
            .nodes
            .iter()
            .find(|node| node.provider_id.as_deref() == Some(id));
        // A node that is not ready uses up budget itself; that must not prevent its own drain.
        let own = machine.is_some_and(|machine| {
            machine.initialized
                && (!machine.lifecycle.ready || machine.marked_for_deletion || machine.lifecycle.deleting)
        });
        let others = pool.consumed.saturating_sub(u32::from(own));
        (pool.allowed <= others).then_some(Reason::Budget)
    }

    /// Deletes the claim, counts it and publishes why (LIF-155).
    async fn end(&self, node: &LeanNode, claim: &NodeClaim, finding: &Finding<'_>) -> Result<(), ReconcileError> {
        if !disrupt(&self.context, claim, "unhealthy").await? {
            return Ok(());
        }
        events::started(&self.context, node, claim, finding.rule);
        let condition = finding.rule.condition().condition_type.as_str();
        tracing::info!(
            NodeClaim = claim_facts::name(claim),
            condition,
            "deleting unhealthy node"
        );
        let capacity_type = claim_facts::label(claim.metadata.labels.as_ref(), labels::CAPACITY_TYPE);
        let image = claim.status.as_ref().and_then(|status| status.image_id.as_deref());
        let counter = self.context.metrics.counter(&NODECLAIMS_UNHEALTHY_DISRUPTED);
        counter.inc(&[
            &snake_case(condition),
            claim_facts::pool(claim),
            capacity_type,
            image.unwrap_or_default(),
        ]);
        Ok(())
    }
}

impl Reconciler for Repair {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Node(node) if !node.is_gone() && (node.listed || node.differs(conditions_of)) => {
                vec![node.name().to_owned()]
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        let Some(node) = cluster.node(name).filter(|node| !node.spec.provider_id.is_empty()) else {
            return Ok(Outcome::Done);
        };
        let claims = cluster.claims_by_provider_id(&node.spec.provider_id);
        let [claim] = claims.as_slice() else {
            return Ok(Outcome::Done);
        };
        let Some(Followed { policies, unread }) = self.policies.all() else {
            return Ok(Outcome::RequeueAfter(UNKNOWN));
        };
        let findings = findings(&node_conditions(&node), &self.provider_rules, &policies);
        if findings.is_empty() {
            return Ok(Outcome::Done);
        }
        if let Some(hold) = self.context.jump_guard.hold() {
            return Ok(Outcome::RequeueAfter(hold));
        }
        let now = self.context.now();
        let mut again: Option<Duration> = None;
        let mut soonest = |delay: Duration| again = Some(again.map_or(delay, |known| known.min(delay)));
        for finding in &findings {
            if now < finding.at {
                soonest(self.context.clock.until(finding.at));
                continue;
            }
            if let Rule::Policy(policy, condition) = finding.rule
                && policy.action == Action::Report
            {
                soonest(events::unhealthy(&self.context, &node, policy, condition));
                continue;
            }
            match self.take_away(&node, claim, finding, unread.as_deref(), now).await? {
                None => return Ok(Outcome::Done),
                Some(block) => soonest(events::blocked(&self.context, &node, claim, &block)),
            }
        }
        Ok(again.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    /// Reconciles all nodes when a policy changes, since it may be about any of them.
    async fn beside(&self, shutdown: CancellationToken) {
        let follow = async {
            loop {
                self.policies.changed().await;
                for node in self.context.cluster.nodes() {
                    self.work.add(node.metadata.name.clone().unwrap_or_default());
                }
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = follow => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // LIF-155
    #[test]
    fn metrics_name_conditions_in_snake_case() {
        assert_eq!(snake_case("AcceleratedHardwareReady"), "accelerated_hardware_ready");
    }
}
