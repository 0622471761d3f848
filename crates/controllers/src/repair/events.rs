//! Events about unhealthy nodes.

use std::time::Duration;

use kerf_api::{NodeClaim, annotations};
use kerf_lifecycle::repair::{Action, Block, Carrier, Pause, Policy, Reason, Rule, UnhealthyCondition};
use kerf_runtime::{Event, EventType, ObjectRef};
use kerf_state::lean::LeanNode;

use crate::claim_facts;
use crate::context::Context;

/// How long repair pauses when too many nodes are unhealthy.
const BLOCKED: Duration = Duration::from_secs(5 * 60);
/// The time between two equal events about a node.
const EVENT_EVERY: Duration = Duration::from_secs(15 * 60);
/// The time until a drain is tried again that disruption budgets did not allow.
const NO_BUDGET: Duration = Duration::from_secs(30);

/// Publishes that a node is unhealthy by a policy that only reports. Returns how soon to look again.
pub(super) fn unhealthy(
    context: &Context,
    node: &LeanNode,
    policy: &Policy,
    condition: &UnhealthyCondition,
) -> Duration {
    let message = format!(
        "Condition {} is {} for longer than {:?} (NodeRepairPolicy={})",
        condition.condition_type, condition.status, condition.toleration, policy.name
    );
    let dedupe = vec![policy.name.to_string(), condition.condition_type.clone()];
    warn(context, node, "NodeUnhealthy", message, dedupe);
    EVENT_EVERY
}

/// Publishes on Node and NodeClaim that the node is repaired: the condition, whose rule it is, and what happens to the node.
pub(super) fn started(context: &Context, node: &LeanNode, claim: &NodeClaim, rule: Rule<'_>) {
    let condition = rule.condition();
    let whose = match rule {
        Rule::Provider(_) => "the provider's rule".to_owned(),
        Rule::Policy(policy, _) => format!("NodeRepairPolicy={}", policy.name),
    };
    let happens = match rule.action() {
        Action::Replace => "replaced",
        Action::Drain => "drained",
        Action::Report => "reported",
    };
    let message = format!(
        "Condition {} is {} for longer than {:?} ({whose}): the node is {happens}",
        condition.condition_type, condition.status, condition.toleration
    );
    for object in ObjectRef::of(node).into_iter().chain(ObjectRef::of(claim)) {
        context.recorder.publish(Event {
            dedupe: vec![object.uid.clone()],
            object,
            kind: EventType::Warning,
            reason: "NodeRepairStarted".into(),
            message: message.clone(),
            dedupe_timeout: Some(EVENT_EVERY),
        });
    }
}

/// Publishes what prevents an unhealthy node from being taken away. Returns how soon to look again.
pub(super) fn blocked(context: &Context, node: &LeanNode, claim: &NodeClaim, block: &Block) -> Duration {
    let Block::Policy(policy, reason) = block else {
        capped(context, node, claim);
        return BLOCKED;
    };
    let message = format!("{} (NodeRepairPolicy={policy})", explain(claim, reason));
    warn(context, node, "NodeRepairBlocked", message, vec![policy.to_string()]);
    match reason {
        Reason::Paused(Pause::Window(Some(opens))) => context.clock.until(*opens).max(Duration::from_secs(1)),
        Reason::Paused(Pause::Cap(_) | Pause::Window(None)) | Reason::Unread => BLOCKED,
        Reason::Annotation(_) | Reason::Budget | Reason::NoPool { .. } => NO_BUDGET,
    }
}

fn explain(claim: &NodeClaim, reason: &Reason) -> String {
    let pool = claim_facts::pool_label(claim);
    match reason {
        Reason::Paused(Pause::Cap(most)) => format!("more than {most} of the selected nodes are unhealthy"),
        Reason::Paused(Pause::Window(Some(opens))) => format!("the next maintenance window opens at {opens}"),
        Reason::Paused(Pause::Window(None)) => "no maintenance window opens".to_owned(),
        Reason::Annotation(carrier) => {
            let annotation = annotations::DO_NOT_DISRUPT;
            let carrier = match carrier {
                Carrier::Node => "the node",
                Carrier::Claim => "its NodeClaim",
            };
            format!("{carrier} carries {annotation}, which keeps it from being drained")
        }
        Reason::Budget => format!("disruption budgets of NodePool {pool:?} allow no more nodes to go"),
        Reason::NoPool { readable: false } => {
            format!("NodePool {pool:?} cannot be read, and nobody knows its disruption budgets; correct it")
        }
        Reason::NoPool { readable: true } => {
            let name = claim_facts::name(claim);
            let claim = name.map_or_else(|| "its NodeClaim".to_owned(), |name| format!("NodeClaim {name:?}"));
            format!(
                "NodePool {pool:?} is missing, and without its disruption budgets no node of it may go; create it, or delete {claim}"
            )
        }
        Reason::Unread => {
            "a policy that cannot be read may take the place of the provider's rules; correct or delete it".to_owned()
        }
    }
}

/// Publishes the same event about the Node three times, each under its own deduplication key (LIF-151, LIF-152).
fn capped(context: &Context, node: &LeanNode, claim: &NodeClaim) {
    let name = claim_facts::pool(claim);
    let pool = name.and_then(|name| context.cluster.pool(name));
    let message = match (name.is_none(), &pool) {
        (true, _) => "more then 20% nodes are unhealthy in the cluster",
        (false, Some(_)) => "more than 20% nodes are unhealthy in the nodepool",
        // LIF-244
        (false, None) => return,
    };
    let pool_uid = pool.and_then(|pool| pool.metadata.uid.clone());
    let uids = [node.metadata.uid.clone(), claim.metadata.uid.clone(), pool_uid];
    for uid in uids.into_iter().flatten() {
        warn(context, node, "NodeRepairBlocked", message.to_owned(), vec![uid]);
    }
}

fn warn(context: &Context, node: &LeanNode, reason: &'static str, message: String, mut dedupe: Vec<String>) {
    let Some(object) = ObjectRef::of(node) else { return };
    dedupe.push(object.uid.clone());
    context.recorder.publish(Event {
        object,
        kind: EventType::Warning,
        reason: reason.into(),
        message,
        dedupe,
        dedupe_timeout: Some(EVENT_EVERY),
    });
}
