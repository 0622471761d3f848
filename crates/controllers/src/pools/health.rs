//! The part of a pool's registration health that follows from changes of pool and class; outcomes come from the lifecycle of claims.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::conditions::{
    AWAITING_RECONCILIATION, AWAITING_RECONCILIATION_MESSAGE, node_pool::NODE_REGISTRATION_HEALTHY,
};
use kerf_api::{ConditionSet, Conditioned, NodePool};

use super::status::PoolStatus;
use crate::context::Context;
use crate::lifecycle::RegistrationHealth;

/// `nodepool.registrationhealth` (LIF-064 to LIF-066).
pub(crate) fn health(context: &Context, memory: &RegistrationHealth) -> Arc<PoolStatus> {
    let memory = memory.clone();
    let rule = move |context: &Context, pool: &mut NodePool, now: Timestamp| {
        let Some(class) = context.cluster.node_class(&pool.spec.template.spec.node_class_ref) else {
            return;
        };
        memory.restore(pool);
        if judge(pool, class.generation, now) {
            memory.reset(pool.metadata.uid.as_deref().unwrap_or_default());
        }
    };
    PoolStatus::new(
        context,
        "nodepool.registrationhealth",
        context.workers(10, 1000),
        true,
        Box::new(rule),
    )
}

/// Starts over after a change of pool or class; says whether it did.
fn judge(pool: &mut NodePool, class_generation: i64, now: Timestamp) -> bool {
    let observed = pool
        .status
        .as_ref()
        .and_then(|status| status.node_class_observed_generation);
    let current = |condition: &kerf_api::Condition| condition.observed_generation == pool.metadata.generation;
    let kept = pool.condition(NODE_REGISTRATION_HEALTHY).is_some_and(current) && observed == Some(class_generation);
    if !kept {
        ConditionSet::new(pool, now).set_unknown(
            NODE_REGISTRATION_HEALTHY,
            AWAITING_RECONCILIATION,
            AWAITING_RECONCILIATION_MESSAGE,
        );
    }
    pool.status.get_or_insert_default().node_class_observed_generation = Some(class_generation);
    !kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // LIF-065 LIF-066
    #[test]
    fn a_change_of_pool_or_class_starts_over() {
        let mut pool: NodePool = serde_json::from_value(
            json!({"metadata": {"name": "p", "generation": 1}, "spec": {"template": {
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}}),
        )
        .expect("a pool");
        let now = Timestamp::UNIX_EPOCH;
        assert!(judge(&mut pool, 1, now), "no condition yet");
        assert_eq!(
            pool.status
                .as_ref()
                .and_then(|status| status.node_class_observed_generation),
            Some(1)
        );
        ConditionSet::new(&mut pool, now).set_true(NODE_REGISTRATION_HEALTHY);
        assert!(!judge(&mut pool, 1, now));
        assert!(pool.condition_is_true(NODE_REGISTRATION_HEALTHY));
        assert!(judge(&mut pool, 2, now), "the class changed");
        assert!(!pool.condition_is_true(NODE_REGISTRATION_HEALTHY));
        ConditionSet::new(&mut pool, now).set_true(NODE_REGISTRATION_HEALTHY);
        pool.metadata.generation = Some(2);
        assert!(judge(&mut pool, 2, now), "the pool changed");
    }
}
