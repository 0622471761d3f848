//! The latest registrations of all pools: the memory behind `NodeRegistrationHealthy` (LIF-057 to LIF-065).
//!
//! It is lost at a restart and filled again from the condition. [`kerf_lifecycle::registration_health`] has the rules.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kerf_api::NodePool;
use kerf_api::conditions::node_pool::NODE_REGISTRATION_HEALTHY;
use kerf_api::status::Conditioned;
use kerf_lifecycle::registration_health::{Health, Outcomes, PoolCondition, Registration};
use rustc_hash::FxHashMap;

/// The outcomes of all pools by the pools' uid, so that a new pool with an old name starts without any (LIF-063). Clones share
/// one memory. It holds four outcomes per pool, also of deleted pools; a restart empties it.
#[derive(Clone, Debug, Default)]
pub struct RegistrationHealth(Arc<Mutex<FxHashMap<String, Outcomes>>>);

impl RegistrationHealth {
    /// The health that the outcomes of a pool show.
    pub fn of(&self, pool_uid: &str) -> Health {
        self.locked().get(pool_uid).map_or(Health::Unknown, Outcomes::health)
    }

    /// Adds whether the node of a claim registered. Recording the same outcome of the same claim again changes nothing.
    pub(crate) fn record(&self, pool_uid: &str, claim_uid: &str, registration: Registration) {
        let mut pools = self.locked();
        pools
            .entry(pool_uid.to_owned())
            .or_default()
            .record(claim_uid, registration);
    }

    /// The state that the pool's condition should have; `None` to leave it as it is.
    pub(crate) fn verdict(&self, pool_uid: &str) -> Option<PoolCondition> {
        self.locked().get(pool_uid)?.verdict().cloned()
    }

    /// Forgets a pool's outcomes (LIF-065).
    pub fn reset(&self, pool_uid: &str) {
        self.locked().remove(pool_uid);
    }

    /// Fills an empty memory from the pool's condition, after a restart (LIF-064).
    pub fn restore(&self, pool: &NodePool) {
        let (Some(uid), Some(condition)) = (pool.metadata.uid.as_deref(), pool.condition(NODE_REGISTRATION_HEALTHY))
        else {
            return;
        };
        let status = match (condition.is_true(), condition.is_false()) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        self.locked().entry(uid.to_owned()).or_default().restore(status);
    }

    fn locked(&self) -> MutexGuard<'_, FxHashMap<String, Outcomes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use kerf_api::ConditionSet;
    use kerf_lifecycle::registration_health::Failure;

    #[test]
    fn a_restart_is_healed_from_the_condition_and_a_reset_forgets() {
        let mut pool: NodePool = serde_json::from_value(
            serde_json::json!({"metadata": {"name": "default", "uid": "uid"}, "spec": {"template": {"spec": {
                "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            }}}}),
        )
        .expect("a pool");
        let restored = |pool: &NodePool| {
            let health = RegistrationHealth::default();
            health.restore(pool);
            health
        };
        assert_eq!(restored(&pool).of("uid"), Health::Unknown);
        let now = Timestamp::UNIX_EPOCH;
        // LIF-064, OPS-063
        ConditionSet::new(&mut pool, now).set_true(NODE_REGISTRATION_HEALTHY);
        assert_eq!(restored(&pool).of("uid"), Health::Healthy);
        ConditionSet::new(&mut pool, now).set_false(NODE_REGISTRATION_HEALTHY, "RegistrationFailed", "");
        let health = restored(&pool);
        assert_eq!(health.of("uid"), Health::Unhealthy);
        let failure = Failure {
            reason: "Late".to_owned(),
            message: String::new(),
        };
        health.record("uid", "claim", Registration::Failed(failure.clone()));
        assert_eq!(health.verdict("uid"), Some(PoolCondition::Unhealthy(failure)));
        // LIF-065
        health.reset("uid");
        assert_eq!((health.of("uid"), health.verdict("uid")), (Health::Unknown, None));
    }
}
