//! The events of the loop and the queue about nodes, claims and pools (section 12 of `docs/behaviour/disruption.md`).

use std::time::Duration;

use kerf_api::NodePool;
use kerf_disruption::PoolAllowance;
use kerf_model::budget::DisruptionReason;
use kerf_model::node::Node;
use kerf_runtime::{Event, EventType, ObjectRef};
use kube::Resource;

use crate::context::Context;

/// The Node object, if there is one, and the claim of a machine.
pub(super) fn objects(context: &Context, node: &Node) -> Vec<ObjectRef> {
    let name = node.node_name.as_deref();
    let node_object = name
        .and_then(|name| context.cluster.node(name))
        .and_then(|node| ObjectRef::of(&*node));
    let claim = node.claim_name.as_deref().and_then(|name| context.cluster.claim(name));
    node_object
        .into_iter()
        .chain(claim.and_then(|claim| ObjectRef::of(&*claim)))
        .collect()
}

fn normal(object: ObjectRef, reason: &'static str, message: String, dedupe: Vec<String>) -> Event {
    Event {
        object,
        kind: EventType::Normal,
        reason: reason.into(),
        message,
        dedupe,
        dedupe_timeout: None,
    }
}

/// Something keeps a node (DIS-031, DIS-040, DIS-241).
pub(super) fn blocked(object: ObjectRef, message: String) -> Event {
    let dedupe = vec![object.uid.clone()];
    normal(object, "DisruptionBlocked", message, dedupe)
}

/// A pool's budgets allow nothing (DIS-085).
pub(super) fn budget_closed(pool: &PoolAllowance, reason: DisruptionReason) -> Event {
    let object = ObjectRef {
        api_version: NodePool::api_version(&()).into_owned(),
        kind: NodePool::kind(&()).into_owned(),
        namespace: None,
        name: pool.pool.to_string(),
        uid: pool.uid.to_string(),
    };
    let reason = reason.as_str();
    let message = format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
    let dedupe = vec![pool.uid.to_string(), reason.to_owned()];
    Event {
        dedupe_timeout: Some(Duration::from_secs(60)),
        ..normal(object, "DisruptionBlocked", message, dedupe)
    }
}

/// A budget of the pool cannot be read, which closes the pool (DIS-079).
pub(super) fn invalid_budget(of: &kerf_model::nodepool::NodePool, fault: &str) -> Event {
    let message = format!("No disruptions are allowed while a disruption budget is invalid: {fault}");
    let dedupe = vec![of.uid.to_string(), fault.to_owned()];
    Event {
        kind: EventType::Warning,
        dedupe_timeout: Some(Duration::from_secs(15 * 60)),
        ..normal(pool(of), "InvalidDisruptionBudget", message, dedupe)
    }
}

/// Consolidation leaves a node alone (DIS-116, DIS-150).
pub(super) fn unconsolidatable(object: ObjectRef, message: String) -> Event {
    let dedupe = vec![object.uid.clone()];
    Event {
        dedupe_timeout: Some(Duration::from_secs(15 * 60)),
        ..normal(object, "Unconsolidatable", message, dedupe)
    }
}

/// A pool.
pub(super) fn pool(pool: &kerf_model::nodepool::NodePool) -> ObjectRef {
    ObjectRef {
        api_version: NodePool::api_version(&()).into_owned(),
        kind: NodePool::kind(&()).into_owned(),
        namespace: None,
        name: pool.name.to_string(),
        uid: pool.uid.to_string(),
    }
}

/// A blocked node takes no more pods, or takes them again.
pub(super) fn retiring(object: ObjectRef, retires: bool) -> Event {
    let (reason, message) = match retires {
        true => (
            "Retiring",
            "Takes no more pods and goes when those that must not be disrupted have finished",
        ),
        false => ("RetirementEnded", "Takes pods again: it is no longer one that would go"),
    };
    let dedupe = vec![object.uid.clone()];
    normal(object, reason, message.to_owned(), dedupe)
}

/// Consolidation would replace a node (DIS-142, DIS-295); `command` is the text of the node's part.
pub(super) fn consolidation_candidate(object: ObjectRef, message: String, command: &str) -> Event {
    let dedupe = vec![object.uid.clone(), command.to_owned()];
    normal(object, "ConsolidationCandidate", message, dedupe)
}

/// A command is no longer valid after its wait (DIS-179, DIS-295).
pub(super) fn consolidation_rejected(object: ObjectRef, message: String, command: &str, reason: &str) -> Event {
    let dedupe = vec![object.uid.clone(), command.to_owned(), reason.to_owned()];
    normal(object, "ConsolidationRejected", message, dedupe)
}

/// A move passed the scoring (DIS-211, DIS-212).
pub(super) fn consolidation_approved(object: ObjectRef, message: String) -> Event {
    let dedupe = vec![object.uid.clone()];
    normal(object, "ConsolidationApproved", message, dedupe)
}

/// The event on a replacement that is being launched (DIS-271).
pub(super) fn launching(object: ObjectRef, reason: DisruptionReason) -> Event {
    let dedupe = vec![object.uid.clone(), reason.as_str().to_owned()];
    normal(
        object,
        "DisruptionLaunching",
        format!("Launching NodeClaim: {}", reason.as_str()),
        dedupe,
    )
}

/// The event on a replacement that is not initialized yet (DIS-272).
pub(super) fn waiting_readiness(object: ObjectRef) -> Event {
    let dedupe = vec![object.uid.clone()];
    let message = "Waiting on readiness to continue disruption".to_owned();
    normal(object, "DisruptionWaitingReadiness", message, dedupe)
}

/// DIS-277, of a Node or a claim.
pub(super) fn terminating(object: ObjectRef, reason: DisruptionReason) -> Event {
    let dedupe = vec![object.uid.clone(), reason.as_str().to_owned()];
    let message = format!("Disrupting {}: {}", object.kind, reason.as_str());
    normal(object, "DisruptionTerminating", message, dedupe)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use kerf_disruption::Allowance;
    use kerf_model::intern::Interner;
    use kerf_runtime::Recorder;
    use kerf_state::{Conventions, Mirror, MirrorOptions};
    use serde_json::{from_value, json};

    use super::*;

    fn allowance(name: &str, uid: &str) -> PoolAllowance {
        let options = MirrorOptions {
            conventions: Conventions::default(),
            offline: false,
        };
        let mut mirror = Mirror::new(Arc::new(Interner::default()), &options);
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let template = json!({"spec": {"requirements": [], "nodeClassRef": class}});
        let pool = json!({"metadata": {"name": name, "uid": uid}, "spec": {"template": template}});
        mirror.apply::<NodePool>(from_value(pool).expect("a pool"));
        let now = Timestamp::UNIX_EPOCH;
        let allowance = Allowance::new(&mirror.snapshot(now), DisruptionReason::Empty, now);
        allowance.pools().next().cloned().expect("a pool")
    }

    // DIS-085, OPS-259
    #[tokio::test(start_paused = true)]
    async fn a_closed_budget_is_reported_once_a_minute_for_each_pool_and_reason() {
        let (web, db) = (allowance("web", "1"), allowance("db", "2"));
        // Created anew under the old name.
        let again = allowance("web", "3");
        let (recorder, mut events) = Recorder::new();
        let mut told = || {
            for pool in [&web, &db, &again] {
                for reason in [DisruptionReason::Empty, DisruptionReason::Drifted] {
                    recorder.publish(budget_closed(pool, reason));
                }
            }
            let events = std::iter::from_fn(|| events.try_recv().ok());
            let told = events.map(|event| (event.object.name, event.object.uid, event.message));
            told.collect::<Vec<_>>()
        };
        let text = |reason| format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
        let of = |name: &str, uid: &str| ["Empty", "Drifted"].map(|reason| (name.into(), uid.into(), text(reason)));
        let all = [of("web", "1"), of("db", "2"), of("web", "3")].concat();
        assert_eq!(told(), all);
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert!(told().is_empty());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(told(), all);
    }
}
