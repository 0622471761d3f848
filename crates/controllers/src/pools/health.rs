//! A pool's registration health: changes of pool and class reset it, and the outcomes of registrations set its condition. The lifecycle of
//! claims records the outcomes.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::conditions::{
    AWAITING_RECONCILIATION, AWAITING_RECONCILIATION_MESSAGE, node_pool::NODE_REGISTRATION_HEALTHY,
};
use kerf_api::{Condition, ConditionSet, Conditioned, NodePool};
use kerf_lifecycle::registration_health::PoolCondition;

use super::registration_health::RegistrationHealth;
use super::status::PoolStatus;
use crate::context::Context;

/// `nodepool.registrationhealth` (LIF-059, LIF-061, LIF-064 to LIF-066).
pub(crate) fn health(context: &Context, memory: &RegistrationHealth) -> Arc<PoolStatus> {
    let memory = memory.clone();
    let rule = move |context: &Context, pool: &mut NodePool, now: Timestamp| {
        let Some(uid) = pool.metadata.uid.clone() else { return };
        if let Some(class) = context.cluster.node_class(&pool.spec.template.spec.node_class_ref) {
            memory.restore(pool);
            if reset_after_change(pool, class.generation, now) {
                memory.reset(&uid);
            }
        }
        if let Some(verdict) = memory.verdict(&uid) {
            set_condition(pool, &verdict, now);
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

/// Sets the condition to Unknown after a change of pool or class. Returns whether there was one.
fn reset_after_change(pool: &mut NodePool, class_generation: i64, now: Timestamp) -> bool {
    let observed = pool
        .status
        .as_ref()
        .and_then(|status| status.node_class_observed_generation);
    let current = |condition: &Condition| condition.observed_generation == pool.metadata.generation;
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

/// Sets the condition as the outcomes want it; one that is False already keeps its reason.
fn set_condition(pool: &mut NodePool, verdict: &PoolCondition, now: Timestamp) {
    let is_false = pool
        .condition(NODE_REGISTRATION_HEALTHY)
        .is_some_and(Condition::is_false);
    let mut conditions = ConditionSet::new(pool, now);
    match verdict {
        PoolCondition::Healthy => {
            conditions.set_true(NODE_REGISTRATION_HEALTHY);
        }
        PoolCondition::Unhealthy(failure) if !is_false => {
            conditions.set_false(NODE_REGISTRATION_HEALTHY, &failure.reason, &failure.message);
        }
        PoolCondition::Unhealthy(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use kerf_lifecycle::registration_health::Failure;

    fn pool() -> NodePool {
        let spec = json!({"template": {
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}});
        serde_json::from_value(json!({"metadata": {"name": "p", "generation": 1}, "spec": spec})).expect("a pool")
    }

    #[test]
    fn the_condition_says_what_came_of_the_machines() {
        let (mut pool, now) = (pool(), Timestamp::UNIX_EPOCH);
        let mut shown = |verdict: &PoolCondition| {
            set_condition(&mut pool, verdict, now);
            let condition = pool.condition(NODE_REGISTRATION_HEALTHY).expect("a condition");
            format!("{} {} {}", condition.status, condition.reason(), condition.message())
        };
        let unhealthy = |reason: &str| {
            let (reason, message) = (reason.to_owned(), "no route".to_owned());
            PoolCondition::Unhealthy(Failure { reason, message })
        };
        // LIF-061
        assert_eq!(shown(&unhealthy("LaunchFailed")), "False LaunchFailed no route");
        assert_eq!(shown(&unhealthy("RegistrationFailed")), "False LaunchFailed no route");
        // LIF-059
        assert_eq!(shown(&PoolCondition::Healthy), "True NodeRegistrationHealthy ");
        assert_eq!(shown(&unhealthy("LaunchFailed")), "False LaunchFailed no route");
    }

    // LIF-065, LIF-066, API-088
    #[test]
    fn a_change_of_pool_or_class_starts_over() {
        let (mut pool, now) = (pool(), Timestamp::UNIX_EPOCH);
        let observed = |pool: &NodePool| pool.status.as_ref()?.node_class_observed_generation;
        assert!(reset_after_change(&mut pool, 1, now), "no condition yet");
        assert_eq!(observed(&pool), Some(1));
        ConditionSet::new(&mut pool, now).set_true(NODE_REGISTRATION_HEALTHY);
        assert!(!reset_after_change(&mut pool, 1, now));
        assert!(pool.condition_is_true(NODE_REGISTRATION_HEALTHY));
        assert!(reset_after_change(&mut pool, 2, now), "the class changed");
        assert_eq!(observed(&pool), Some(2));
        assert!(!pool.condition_is_true(NODE_REGISTRATION_HEALTHY));
        ConditionSet::new(&mut pool, now).set_true(NODE_REGISTRATION_HEALTHY);
        pool.metadata.generation = Some(2);
        assert!(reset_after_change(&mut pool, 2, now), "the pool changed");
    }
}
