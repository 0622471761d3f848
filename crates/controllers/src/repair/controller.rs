//! Acting on unhealthy nodes.
//!
//! Replacing one asks neither disruption budgets nor pods; a cap on the share of unhealthy nodes keeps an outage from taking the rest
//! as well. Draining one asks both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_api::{NodeClaim, NodePool, annotations, labels};
use kerf_cloud::RepairPolicy;
use kerf_disruption::Allowance;
use kerf_model::budget::DisruptionReason;
use kerf_runtime::client::found;
use kerf_runtime::metrics::catalogue::NODECLAIMS_UNHEALTHY_DISRUPTED;
use kerf_runtime::{CancellationToken, ObjectRef, Outcome, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde_json::json;
use tokio::sync::Mutex;

use super::findings::{Finding, Health, Rule, findings, is_unhealthy};
use super::policies::{Followed, Policies};
use super::policy::Action;
use super::telling::{self, Hindrance, Reason};
use crate::changes::Change;
use crate::claim_facts::{self, disrupt};
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};
use crate::termination::deadline::{deadline, rfc3339};

const NAME: &str = "node.health";
/// The share of nodes that may be unhealthy before the provider's rules stop, in per cent.
const SHARE: usize = 20;
/// How soon to look again while it is not known which policies there are.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Whether so many of so many nodes may be unhealthy (LIF-149, LIF-150): a fifth, rounded up.
const fn may_repair(unhealthy: usize, nodes: usize) -> bool {
    unhealthy <= (nodes * SHARE).div_ceil(100)
}

/// `KernelReady` as `kernel_ready`.
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

/// What of a node's conditions repair reacts to (LIF-147).
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

/// Takes unhealthy nodes away.
pub(crate) struct Repair {
    context: Context,
    policies: Policies,
    work: WorkLoop<String>,
    /// Held while a drain is decided on, so that two do not count on the same budget.
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
            draining: Mutex::default(),
        })
    }

    /// What the provider calls unhealthy; nothing with the gate off (LIF-145).
    fn provider_rules(&self) -> &[RepairPolicy] {
        match self.context.options.feature_gates.node_repair {
            true => &self.context.provider.profile().repair_policies,
            false => &[],
        }
    }

    /// Takes a node away as the finding's rule wants, or says what is in the way.
    async fn take_away(
        &self,
        node: &LeanNode,
        claim: &NodeClaim,
        finding: &Finding<'_>,
        unread: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Hindrance>, ReconcileError> {
        let Rule::Policy(policy, _) = finding.rule else {
            if let Some(name) = unread {
                return Ok(Some(Hindrance::Policy(name.into(), Reason::Unread)));
            }
            if !self.is_within_cap(claim) {
                return Ok(Some(Hindrance::ProviderCap));
            }
            self.replace(claim, finding).await?;
            return Ok(None);
        };
        let hindered = |reason| Hindrance::Policy(Arc::clone(&policy.name), reason);
        if !policy.is_open(now) {
            return Ok(Some(hindered(Reason::Window(policy.opens_after(now)))));
        }
        let nodes = nodes_with_claims(&self.context);
        let health = Health::of(policy, nodes.iter().map(|node| &**node), now);
        if !health.is_within(policy) {
            return Ok(Some(hindered(Reason::Cap(policy.max_unhealthy.of(health.nodes)))));
        }
        if policy.action == Action::Replace {
            self.replace(claim, finding).await?;
            return Ok(None);
        }
        Ok(self.drain(node, claim, finding, now).await?.map(hindered))
    }

    /// LIF-149: nodes of the claim's pool, or of the whole cluster.
    fn is_within_cap(&self, claim: &NodeClaim) -> bool {
        let pool = claim_facts::pool(claim);
        let of_pool =
            |node: &Arc<LeanNode>| claim_facts::label(node.metadata.labels.as_ref(), labels::NODE_POOL) == pool;
        let mut nodes = self.context.cluster.nodes();
        nodes.retain(|node| pool.is_empty() || of_pool(node));
        let rules = self.provider_rules();
        let unhealthy = nodes.iter().filter(|node| is_unhealthy(node, rules)).count();
        may_repair(unhealthy, nodes.len())
    }

    /// LIF-153: the deadline of the drain is now, whatever the claim's grace period says.
    async fn replace(&self, claim: &NodeClaim, finding: &Finding<'_>) -> Result<(), ReconcileError> {
        let (name, now) = (claim_facts::name(claim), self.context.now());
        let over = deadline(claim).is_ok_and(|deadline| deadline.is_some_and(|deadline| deadline < now));
        if !over {
            let api: Api<NodeClaim> = Api::all(self.context.client.clone());
            let patch = json!({"metadata": {"annotations": {annotations::TERMINATION_TIMESTAMP: rfc3339(now)}}});
            let written = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
            if let Some(stored) = found(written)? {
                self.context.cluster.wrote_claim(stored);
            }
        }
        self.end(claim, finding).await
    }

    /// Takes a node away as gently as any other: not while it asks to be left alone, and within the budgets its pool has for nodes that
    /// are to be replaced. The pods are evicted as in any drain.
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
        self.end(claim, finding).await?;
        Ok(None)
    }

    /// Which of Node and claim asks to be left alone, as they are now.
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

    /// What of its pool keeps a node. One that belongs to no pool has no budgets to keep to; of a pool that is not known none is left
    /// (DIS-086).
    fn outside_budgets(&self, node: &LeanNode, claim: &NodeClaim, now: Timestamp) -> Option<Reason> {
        let name = claim_facts::pool(claim);
        if name.is_empty() {
            return None;
        }
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
        // A node that is not ready uses up budget already; it must not stand in its own way.
        let own = machine.is_some_and(|machine| {
            machine.initialized
                && (!machine.lifecycle.ready || machine.marked_for_deletion || machine.lifecycle.deleting)
        });
        let others = pool.consumed.saturating_sub(u32::from(own));
        (pool.allowed <= others).then_some(Reason::Budget)
    }

    /// Deletes the claim and counts it (LIF-155).
    async fn end(&self, claim: &NodeClaim, finding: &Finding<'_>) -> Result<(), ReconcileError> {
        if !disrupt(&self.context, claim, "unhealthy").await? {
            return Ok(());
        }
        let condition = finding.rule.condition_type();
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
        let findings = findings(&node, self.provider_rules(), &policies);
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
            if let Rule::Policy(policy, bad) = finding.rule
                && policy.action == Action::Report
            {
                soonest(telling::report(&self.context, &node, policy, bad));
                continue;
            }
            match self.take_away(&node, claim, finding, unread.as_deref(), now).await? {
                None => return Ok(Outcome::Done),
                Some(hindrance) => soonest(telling::hindrance(&self.context, &node, claim, &hindrance)),
            }
        }
        Ok(again.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    /// Puts every node in line when a policy changes, which may be about any of them.
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

    // LIF-150
    #[test]
    fn a_fifth_may_be_unhealthy() {
        for (nodes, most) in [(10, 2), (3, 1), (1, 1), (11, 3)] {
            assert!(
                may_repair(most, nodes) && !may_repair(most + 1, nodes),
                "{most} of {nodes}"
            );
        }
    }

    // LIF-155
    #[test]
    fn metrics_name_conditions_in_snake_case() {
        assert_eq!(snake_case("AcceleratedHardwareReady"), "accelerated_hardware_ready");
    }
}
