//! Events about unhealthy nodes that stay.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::{NodeClaim, annotations};
use kerf_runtime::{Event, EventType, ObjectRef};
use kerf_state::lean::LeanNode;

use super::policy::{Bad, Policy};
use crate::claim_facts;
use crate::context::Context;

/// How long repair pauses when too many nodes are unhealthy.
const BLOCKED: Duration = Duration::from_secs(5 * 60);
/// How long a node is not told of again.
const TOLD_FOR: Duration = Duration::from_secs(15 * 60);
/// How soon a drain is tried again that budgets did not allow.
const NO_BUDGET: Duration = Duration::from_secs(30);

/// What keeps a node from being taken away now.
pub(super) enum Hindrance {
    /// More nodes are unhealthy than the provider's rules bear.
    ProviderCap,
    /// Something about a policy; its name.
    Policy(Arc<str>, Reason),
}

/// Why a policy takes nothing away now.
pub(super) enum Reason {
    /// More nodes are unhealthy than it bears; how many may be.
    Cap(u32),
    /// No maintenance window is open; when the next opens.
    Window(Option<Timestamp>),
    /// Node or claim ask not to be disrupted; which of them.
    Annotation(&'static str),
    /// The budgets of the node's pool.
    Budget,
    /// The node's pool is not there, or cannot be read, and with it the budgets.
    NoPool { readable: bool },
    /// Nobody has ever read it, and it may take the place of the provider's rules.
    Unread,
}

/// Tells of a node that a policy only reports, and says how soon to look again.
pub(super) fn report(context: &Context, node: &LeanNode, policy: &Policy, bad: &Bad) -> Duration {
    let message = format!(
        "Condition {} is {} for longer than {:?} (NodeRepairPolicy={})",
        bad.condition_type, bad.status, bad.toleration, policy.name
    );
    let dedupe = vec![policy.name.to_string(), bad.condition_type.clone()];
    warn(context, node, "NodeUnhealthy", message, dedupe);
    TOLD_FOR
}

/// Tells what keeps an unhealthy node, and says how soon to look again.
pub(super) fn hindrance(context: &Context, node: &LeanNode, claim: &NodeClaim, hindrance: &Hindrance) -> Duration {
    let Hindrance::Policy(policy, reason) = hindrance else {
        capped(context, node, claim);
        return BLOCKED;
    };
    let message = format!("{} (NodeRepairPolicy={policy})", explain(claim, reason));
    warn(context, node, "NodeRepairBlocked", message, vec![policy.to_string()]);
    match reason {
        Reason::Window(Some(opens)) => context.clock.until(*opens).max(Duration::from_secs(1)),
        Reason::Cap(_) | Reason::Window(None) | Reason::Unread => BLOCKED,
        Reason::Annotation(_) | Reason::Budget | Reason::NoPool { .. } => NO_BUDGET,
    }
}

fn explain(claim: &NodeClaim, reason: &Reason) -> String {
    let (pool, name) = (claim_facts::pool(claim), claim_facts::name(claim));
    match reason {
        Reason::Cap(most) => format!("more than {most} of the selected nodes are unhealthy"),
        Reason::Window(Some(opens)) => format!("the next maintenance window opens at {opens}"),
        Reason::Window(None) => "no maintenance window opens".to_owned(),
        Reason::Annotation(carrier) => {
            let annotation = annotations::DO_NOT_DISRUPT;
            format!("{carrier} carries {annotation}, which keeps it from being drained")
        }
        Reason::Budget => format!("disruption budgets of NodePool {pool:?} allow no more nodes to go"),
        Reason::NoPool { readable: false } => {
            format!("NodePool {pool:?} cannot be read, and nobody knows its disruption budgets; correct it")
        }
        Reason::NoPool { readable: true } => format!(
            "NodePool {pool:?} is missing, and without its disruption budgets no node of it may go; create it, or delete NodeClaim {name:?}"
        ),
        Reason::Unread => {
            "a policy that cannot be read may take the place of the provider's rules; correct or delete it".to_owned()
        }
    }
}

/// LIF-151, LIF-152: three times about the Node, each under its own key.
fn capped(context: &Context, node: &LeanNode, claim: &NodeClaim) {
    let name = claim_facts::pool(claim);
    let pool = context.cluster.pool(name);
    let message = match (name.is_empty(), &pool) {
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
    dedupe.extend(node.metadata.uid.clone());
    context.recorder.publish(Event {
        object: ObjectRef::of(node),
        kind: EventType::Warning,
        reason: reason.into(),
        message,
        dedupe,
        dedupe_timeout: Some(TOLD_FOR),
    });
}
