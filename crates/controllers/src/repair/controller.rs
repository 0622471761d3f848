//! Replaces or drains unhealthy nodes.
//!
//! Replacing a node heeds neither disruption budgets nor do-not-disrupt. It stops when too large a share of the nodes is unhealthy, so that
//! an outage does not take the healthy ones as well. Draining a node heeds both.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::{NodeClaim, NodePool, annotations, labels};
use kerf_lifecycle::repair::{
    Action, Block, DrainBudget, DrainLimits, Finding, Rule, UnhealthyCondition, decide, findings,
};
use kerf_runtime::metrics::catalogue::NODECLAIMS_UNHEALTHY_DISRUPTED;
use kerf_runtime::{CancellationToken, Outcome, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;
use kube::Resource;
use tokio::sync::Mutex;

use super::conditions::{carrier, conditions_of, fleet, node_conditions, provider_rules};
use super::events;
use super::policies::{Followed, Policies};
use crate::changes::Change;
use crate::claim_facts;
use crate::claim_writes::{disrupt, set_annotation};
use crate::cluster::Unreadable;
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
        let _one_at_a_time = match finding.rule.action() {
            Action::Drain => Some(self.draining.lock().await),
            Action::Replace | Action::Report => None,
        };
        let nodes = self.context.cluster.nodes();
        let fleet = fleet(&self.context, &nodes, &self.provider_rules);
        let pool = claim_facts::pool(claim);
        let limits = || self.drain_limits(node, claim, pool, now);
        if let Err(block) = decide(finding, pool, &fleet, &limits, unread, now) {
            return Ok(Some(block));
        }
        if finding.rule.action() == Action::Replace {
            self.set_drain_deadline(claim).await?;
        }
        self.end(node, claim, finding).await?;
        Ok(None)
    }

    /// What a drain heeds, as it is now.
    fn drain_limits(&self, node: &LeanNode, claim: &NodeClaim, pool: Option<&str>, now: Timestamp) -> DrainLimits {
        let cluster = &self.context.cluster;
        let name = node.metadata.name.as_deref();
        let known = name.and_then(|name| cluster.node(name));
        let known_claim = claim_facts::name(claim).and_then(|name| cluster.claim(name));
        let budget = || {
            cluster.expire(now);
            let is_readable = |pool: &str| {
                let may_be_it =
                    |one: &Unreadable| one.kind() == NodePool::kind(&()) && one.name().is_none_or(|name| name == pool);
                !cluster.unreadable().iter().any(may_be_it)
            };
            DrainBudget::of(pool, &node.spec.provider_id, &cluster.snapshot(now), is_readable, now)
        };
        let protected_by = carrier(
            known.as_ref().map(|node| &node.metadata),
            known_claim.as_ref().map(|claim| &claim.metadata),
        );
        DrainLimits::of(protected_by, claim_facts::is_deleting(claim), budget)
    }

    /// Sets a drain deadline of now, whatever the termination grace period of the claim (LIF-153).
    async fn set_drain_deadline(&self, claim: &NodeClaim) -> Result<(), ReconcileError> {
        let now = self.context.now();
        let over = deadline(claim).is_ok_and(|deadline| deadline.is_some_and(|deadline| deadline < now));
        if !over {
            set_annotation(&self.context, claim, annotations::TERMINATION_TIMESTAMP, &rfc3339(now)).await?;
        }
        Ok(())
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
            claim_facts::pool_label(claim),
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
                let nodes = self.context.cluster.nodes();
                for name in nodes.iter().filter_map(|node| node.metadata.name.clone()) {
                    self.work.add(name);
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
