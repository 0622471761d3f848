//! Whether the latest nodes of a pool have registered (LIF-057 to LIF-065): the memory behind `NodeRegistrationHealthy`.
//!
//! The memory is lost at a restart and filled again from the condition; it must not know the API.

use kerf_api::NodePool;
use kerf_api::conditions::node_pool::NODE_REGISTRATION_HEALTHY;
use kerf_api::status::Conditioned;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Outcomes remembered per pool (LIF-057).
const REMEMBERED: usize = 4;
/// That many failures among them make a pool unhealthy: half (LIF-058).
const FAILURES_UNHEALTHY: usize = 2;

/// What the remembered outcomes say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// Nothing has happened yet.
    Unknown,
    /// At most one of the last four failed.
    Healthy,
    /// Two or more of the last four failed.
    Unhealthy,
}

/// The last outcomes of one pool, oldest first; true is a registration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Outcomes(VecDeque<bool>);

impl Outcomes {
    fn record(&mut self, registered: bool) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(registered);
    }

    fn health(&self) -> Health {
        match self.0.iter().filter(|registered| !**registered).count() {
            _ if self.0.is_empty() => Health::Unknown,
            failures if failures >= FAILURES_UNHEALTHY => Health::Unhealthy,
            _ => Health::Healthy,
        }
    }
}

/// The outcomes of all pools by the pools' uid, so that a pool made anew under an old name starts afresh (LIF-063).
/// Clones share one memory. It holds four flags per pool that ever was; a restart empties it.
#[derive(Clone, Debug, Default)]
pub struct RegistrationHealth(Arc<Mutex<FxHashMap<String, Outcomes>>>);

impl RegistrationHealth {
    /// What the outcomes of a pool say.
    pub fn of(&self, pool_uid: &str) -> Health {
        self.locked().get(pool_uid).map_or(Health::Unknown, Outcomes::health)
    }

    /// What they would say with one more: the oldest is the one it replaces (LIF-240).
    pub fn preview(&self, pool_uid: &str, registered: bool) -> Health {
        let mut outcomes = self.locked().get(pool_uid).cloned().unwrap_or_default();
        outcomes.record(registered);
        outcomes.health()
    }

    /// Adds an outcome.
    pub fn record(&self, pool_uid: &str, registered: bool) {
        self.locked().entry(pool_uid.to_owned()).or_default().record(registered);
    }

    /// Forgets a pool's outcomes (LIF-065).
    pub fn reset(&self, pool_uid: &str) {
        self.locked().remove(pool_uid);
    }

    /// Fills an empty memory from what the pool's condition says, after a restart (LIF-064).
    pub fn restore(&self, pool: &NodePool) {
        let uid = pool.metadata.uid.as_deref().unwrap_or_default();
        let Some(condition) = pool.condition(NODE_REGISTRATION_HEALTHY) else {
            return;
        };
        let mut pools = self.locked();
        let outcomes = pools.entry(uid.to_owned()).or_default();
        if !outcomes.0.is_empty() {
            return;
        }
        if condition.is_true() {
            outcomes.record(true);
        } else if condition.is_false() {
            outcomes.record(false);
            outcomes.record(false);
        }
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

    fn after(outcomes: &[bool]) -> (Health, RegistrationHealth) {
        let health = RegistrationHealth::default();
        for outcome in outcomes {
            health.record("uid", *outcome);
        }
        (health.of("uid"), health)
    }

    #[test]
    fn two_failures_of_four_are_too_many() {
        let (f, t) = (false, true);
        let table: [(&[bool], Health); 7] = [
            // LIF-058
            (&[], Health::Unknown),
            (&[f], Health::Healthy),
            (&[f, f], Health::Unhealthy),
            (&[t, f, t, f], Health::Unhealthy),
            // LIF-060
            (&[f, f, t, t], Health::Unhealthy),
            (&[f, f, t, t, t], Health::Healthy),
            // LIF-057
            (&[f, t, t, t, f], Health::Healthy),
        ];
        for (outcomes, expected) in table {
            assert_eq!(after(outcomes).0, expected, "{outcomes:?}");
        }
    }

    // LIF-240
    #[test]
    fn a_preview_replaces_the_oldest_and_changes_nothing() {
        let (_, health) = after(&[true, true, true, true, false, true]);
        // By age: true true false true -> true false true false.
        assert_eq!(health.preview("uid", false), Health::Unhealthy);
        assert_eq!(health.preview("uid", true), Health::Healthy);
        assert_eq!(health.of("uid"), Health::Healthy);
    }

    #[test]
    fn a_restart_is_healed_from_the_condition() {
        let mut pool: NodePool = serde_json::from_value(
            serde_json::json!({"metadata": {"name": "default"}, "spec": {"template": {"spec": {
                "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            }}}}),
        )
        .expect("a pool");
        pool.metadata.uid = Some("uid".to_owned());
        ConditionSet::new(&mut pool, Timestamp::UNIX_EPOCH).set_false(
            NODE_REGISTRATION_HEALTHY,
            "RegistrationFailed",
            "",
        );
        let health = RegistrationHealth::default();
        health.restore(&pool);
        health.restore(&pool);
        // LIF-064
        assert_eq!(health.of("uid"), Health::Unhealthy);
        health.record("uid", true);
        health.record("uid", true);
        // LIF-060
        assert_eq!(health.of("uid"), Health::Unhealthy);
        health.record("uid", true);
        assert_eq!(health.of("uid"), Health::Healthy);

        ConditionSet::new(&mut pool, Timestamp::UNIX_EPOCH).set_true(NODE_REGISTRATION_HEALTHY);
        let health = RegistrationHealth::default();
        health.restore(&pool);
        // LIF-064
        assert_eq!(health.of("uid"), Health::Healthy);
        assert_eq!(health.preview("uid", false), Health::Healthy);
    }
}
