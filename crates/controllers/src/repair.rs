//! Nodes that have been unhealthy for too long are replaced (the controller `node.health`, behind the gate `NodeRepair`; LIF-145 to
//! LIF-156).
//!
//! What unhealthy means is the provider's to say. Budgets and disruption budgets are not asked; a cap on the share of unhealthy nodes
//! keeps an outage from taking the rest as well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kerf_api::{NodeClaim, annotations, labels};
use kerf_cloud::RepairPolicy;
use kerf_runtime::client::found;
use kerf_runtime::metrics::catalogue::NODECLAIMS_UNHEALTHY_DISRUPTED;
use kerf_runtime::{CancellationToken, Event, EventType, ObjectRef, Outcome, Queue, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde_json::json;

use crate::changes::Change;
use crate::claim_facts::{self, disrupt};
use crate::context::Context;
use crate::reconciler::Reconciler;
use crate::termination::deadline::{deadline, rfc3339};

const NAME: &str = "node.health";
/// The share of nodes that may be unhealthy before repair stops, in per cent.
const SHARE: usize = 20;
/// How long repair pauses when more are.
const BLOCKED: Duration = Duration::from_secs(5 * 60);
/// How long a blocked node is not told of again.
const TOLD_FOR: Duration = Duration::from_secs(15 * 60);

/// The policy whose toleration ends first among those a node's conditions match, with when that is (LIF-148).
fn due<'a>(node: &LeanNode, policies: &'a [RepairPolicy]) -> Option<(Timestamp, &'a RepairPolicy)> {
    let matching = policies.iter().flat_map(|policy| {
        let conditions = node.status.conditions.iter();
        let bad = conditions.filter(|one| one.kind == policy.condition_type && one.status == policy.status);
        bad.filter_map(move |one| {
            let tolerated = SignedDuration::try_from(policy.toleration).ok()?;
            let since = one.last_transition_time.as_ref()?.0;
            Some((since.checked_add(tolerated).ok()?, policy))
        })
    });
    matching.min_by_key(|(at, _)| *at)
}

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
fn facts(node: &LeanNode) -> BTreeMap<String, (String, Option<Timestamp>)> {
    let conditions = node.status.conditions.iter();
    let fact = |one: &kerf_state::lean::LeanCondition| {
        let since = one.last_transition_time.as_ref().map(|time| time.0);
        (one.kind.clone(), (one.status.clone(), since))
    };
    conditions.map(fact).collect()
}

/// Replaces unhealthy nodes.
pub(crate) struct Repair {
    context: Context,
    queue: Queue<String>,
}

impl Repair {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            queue: context.queue(NAME, RateLimit::SHARED),
        })
    }

    fn policies(&self) -> &[RepairPolicy] {
        &self.context.provider.profile().repair_policies
    }

    async fn reconcile(&self, name: String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        let node = cluster.node(&name).filter(|node| !node.spec.provider_id.is_empty());
        let Some((node, (at, policy))) = node.as_ref().and_then(|node| Some((node, due(node, self.policies())?)))
        else {
            return Ok(Outcome::Done);
        };
        let claims = cluster.claims_by_provider_id(&node.spec.provider_id);
        let [claim] = claims.as_slice() else {
            return Ok(Outcome::Done);
        };
        let left = self.context.clock.until(at);
        if !left.is_zero() {
            return Ok(Outcome::RequeueAfter(left));
        }
        if !self.is_within_cap(claim) {
            self.tell_blocked(node, claim);
            return Ok(Outcome::RequeueAfter(BLOCKED));
        }
        self.act(claim, policy).await?;
        Ok(Outcome::Done)
    }

    /// LIF-149: nodes of the claim's pool, or of the whole cluster.
    fn is_within_cap(&self, claim: &NodeClaim) -> bool {
        let pool = claim_facts::pool(claim);
        let of_pool =
            |node: &Arc<LeanNode>| claim_facts::label(node.metadata.labels.as_ref(), labels::NODE_POOL) == pool;
        let mut nodes = self.context.cluster.nodes();
        nodes.retain(|node| pool.is_empty() || of_pool(node));
        let unhealthy = nodes.iter().filter(|node| due(node, self.policies()).is_some()).count();
        may_repair(unhealthy, nodes.len())
    }

    /// LIF-151, LIF-152: three times about the Node, each under its own key.
    fn tell_blocked(&self, node: &LeanNode, claim: &NodeClaim) {
        let name = claim_facts::pool(claim);
        let pool = self.context.cluster.pool(name);
        let message = match (name.is_empty(), &pool) {
            (true, _) => "more then 20% nodes are unhealthy in the cluster",
            (false, Some(_)) => "more than 20% nodes are unhealthy in the nodepool",
            // LIF-244
            (false, None) => return,
        };
        let pool_uid = pool.and_then(|pool| pool.metadata.uid.clone());
        for uid in [node.metadata.uid.clone(), claim.metadata.uid.clone(), pool_uid]
            .into_iter()
            .flatten()
        {
            self.context.recorder.publish(Event {
                object: ObjectRef::of(node),
                kind: EventType::Warning,
                reason: "NodeRepairBlocked".into(),
                message: message.to_owned(),
                dedupe: vec![uid],
                dedupe_timeout: Some(TOLD_FOR),
            });
        }
    }

    /// LIF-153: the deadline of the drain is now, whatever the claim's grace period says.
    async fn act(&self, claim: &NodeClaim, policy: &RepairPolicy) -> Result<(), ReconcileError> {
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
        if disrupt(&self.context, claim, "unhealthy").await? {
            tracing::info!(
                NodeClaim = name,
                condition = policy.condition_type,
                "deleting unhealthy node"
            );
            let capacity_type = claim_facts::label(claim.metadata.labels.as_ref(), labels::CAPACITY_TYPE);
            let image = claim
                .status
                .as_ref()
                .and_then(|status| status.image_id.as_deref())
                .unwrap_or_default();
            let condition = snake_case(&policy.condition_type);
            let counter = self.context.metrics.counter(&NODECLAIMS_UNHEALTHY_DISRUPTED);
            counter.inc(&[&condition, claim_facts::pool(claim), capacity_type, image]);
        }
        Ok(())
    }
}

#[async_trait]
impl Reconciler for Repair {
    fn name(&self) -> &'static str {
        NAME
    }

    fn notify(&self, change: &Change) {
        if let Change::Node(node) = change
            && !node.is_gone()
            && (node.listed || node.differs(facts))
        {
            self.queue.add_with(node.name().to_owned(), node.priority());
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let controller = self
            .context
            .controller(NAME)
            .for_kind(LeanNode::group(&()), LeanNode::kind(&()));
        let controller = controller.workers(self.context.workers(10, 1000));
        let queue = self.queue.clone();
        let reconcile = move |name| {
            let this = Arc::clone(&self);
            async move { this.reconcile(name).await }
        };
        controller.run(queue, reconcile, shutdown).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(conditions: &[(&str, &str, &str)]) -> LeanNode {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status, since)| json!({"type": kind, "status": status, "lastTransitionTime": format!("2026-01-01T{since}Z")}))
            .collect();
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}}))
            .expect("a node")
    }

    // LIF-148
    #[test]
    fn the_toleration_that_ends_first_decides() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let policies = [
            RepairPolicy::new("Ready", "False", minutes(30)),
            RepairPolicy::new("Ready", "Unknown", minutes(30)),
            RepairPolicy::new("KernelReady", "False", minutes(10)),
        ];
        let end = |conditions: &[(&str, &str, &str)]| {
            due(&node(conditions), &policies).map(|(at, policy)| (at.to_string(), policy.condition_type.clone()))
        };
        let at = |time: &str, kind: &str| Some((format!("2026-01-01T{time}Z"), kind.to_owned()));
        assert_eq!(
            end(&[("Ready", "True", "12:00:00"), ("KernelReady", "Unknown", "12:00:00")]),
            None
        );
        assert_eq!(end(&[("Ready", "Unknown", "12:00:00")]), at("12:30:00", "Ready"));
        assert_eq!(
            end(&[("Ready", "False", "12:00:00"), ("KernelReady", "False", "12:15:00")]),
            at("12:25:00", "KernelReady")
        );
        assert_eq!(
            end(&[("Ready", "False", "12:00:00"), ("KernelReady", "False", "12:21:00")]),
            at("12:30:00", "Ready")
        );
    }

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
