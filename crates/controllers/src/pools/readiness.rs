//! Sets the condition whether a pool's node class is ready.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::conditions::node_pool as condition;
use kerf_api::{ConditionSet, NodePool};

use super::status::PoolStatus;
use crate::context::Context;
use kerf_state::NodeClass;

/// `nodepool.readiness` (LIF-157, LIF-158).
pub(crate) fn readiness(context: &Context) -> Arc<PoolStatus> {
    let rule = |context: &Context, pool: &mut NodePool, now: Timestamp| {
        let class = context.cluster.node_class(&pool.spec.template.spec.node_class_ref);
        judge(pool, class.as_deref(), now);
    };
    PoolStatus::new(
        context,
        "nodepool.readiness",
        context.workers(10, 1000),
        true,
        Box::new(rule),
    )
}

fn judge(pool: &mut NodePool, class: Option<&NodeClass>, now: Timestamp) {
    let mut conditions = ConditionSet::new(pool, now);
    let mut refuse = |reason: &str, message: &str| conditions.set_false(condition::NODE_CLASS_READY, reason, message);
    let Some(class) = class else {
        refuse(condition::NODE_CLASS_NOT_FOUND, condition::NODE_CLASS_NOT_FOUND_MESSAGE);
        return;
    };
    if class.deleting {
        refuse(
            condition::NODE_CLASS_TERMINATING,
            condition::NODE_CLASS_TERMINATING_MESSAGE,
        );
        return;
    }
    match &class.ready {
        Some(ready) if ready.is_true() => {
            conditions.set_true(condition::NODE_CLASS_READY);
        }
        Some(ready) if ready.is_false() => {
            refuse(ready.reason(), ready.message());
        }
        _ => {
            let (reason, message) = (
                condition::NODE_CLASS_READINESS_UNKNOWN,
                condition::NODE_CLASS_READINESS_UNKNOWN_MESSAGE,
            );
            refuse(reason, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use kerf_api::NodeClassKind;
    use kerf_api::{Condition, ConditionStatus, Conditioned};

    use super::*;

    fn class(ready: Option<(ConditionStatus, &str, &str)>) -> NodeClass {
        let now = Timestamp::UNIX_EPOCH;
        NodeClass {
            kind: NodeClassKind {
                group: "karpenter.kwok.sh",
                version: "v1alpha1",
                kind: "KWOKNodeClass",
                plural: "kwoknodeclasses",
            },
            name: "default".to_owned(),
            uid: String::new(),
            resource_version: String::new(),
            generation: 1,
            deleting: false,
            ready: ready.map(|(status, reason, message)| Condition::new("Ready", status, reason, message, now)),
            reported: kerf_state::ReportedClass::default(),
        }
    }

    fn verdict(class: Option<&NodeClass>) -> (ConditionStatus, String, String) {
        let spec = serde_json::json!({"metadata": {"name": "p"}, "spec": {"template": {"spec": {
            "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}});
        let mut pool: NodePool = serde_json::from_value(spec).expect("a pool");
        judge(&mut pool, class, Timestamp::UNIX_EPOCH);
        let condition = pool.condition("NodeClassReady").expect("it was set");
        (
            condition.status,
            condition.reason().to_owned(),
            condition.message().to_owned(),
        )
    }

    #[test]
    fn a_pool_is_as_ready_as_its_class() {
        use ConditionStatus::{False, True, Unknown};
        let of = |status, reason: &str, message: &str| (status, reason.to_owned(), message.to_owned());
        let going = NodeClass {
            deleting: true,
            ..class(Some((True, "Ready", "")))
        };
        // LIF-157
        assert_eq!(
            verdict(None),
            of(False, "NodeClassNotFound", "NodeClass not found on cluster")
        );
        assert_eq!(
            verdict(Some(&going)),
            of(False, "NodeClassTerminating", "NodeClass is Terminating")
        );
        // LIF-158
        let unknown = of(False, "NodeClassReadinessUnknown", "Node Class Readiness Unknown");
        assert_eq!(verdict(Some(&class(None))), unknown);
        assert_eq!(verdict(Some(&class(Some((Unknown, "x", "y"))))), unknown);
        assert_eq!(
            verdict(Some(&class(Some((False, "NoSubnets", "none left"))))),
            of(False, "NoSubnets", "none left")
        );
        assert_eq!(
            verdict(Some(&class(Some((True, "Ready", ""))))),
            of(True, "NodeClassReady", "")
        );
    }
}
