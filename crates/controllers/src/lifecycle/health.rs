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

/// Why a machine did not start, as its pool's condition says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// How the start of a machine went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    Registered,
    Failed(Failure),
}

/// What the condition of a pool has to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// LIF-059.
    Healthy,
    /// LIF-061.
    Unhealthy(Failure),
}

/// How the start of a claim's machine went.
#[derive(Clone, PartialEq, Eq, Debug)]
struct OutcomeOf {
    /// The claim's uid; nobody's where the outcome was read from a condition.
    claim: Option<Arc<str>>,
    registered: bool,
}

/// What is remembered of one pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Outcomes {
    /// Oldest first.
    last: VecDeque<OutcomeOf>,
    /// The latest that came of them; not every outcome changes what there is to say.
    verdict: Option<Verdict>,
}

impl Outcomes {
    /// Says whether it is news.
    fn record(&mut self, claim: Option<&str>, registered: bool) -> bool {
        let claim = claim.map(Arc::from);
        let outcome = OutcomeOf { claim, registered };
        if outcome.claim.is_some() && self.last.contains(&outcome) {
            return false;
        }
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(outcome);
        true
    }

    fn health(&self) -> Health {
        match self.last.iter().filter(|outcome| !outcome.registered).count() {
            _ if self.last.is_empty() => Health::Unknown,
            failures if failures >= FAILURES_UNHEALTHY => Health::Unhealthy,
            _ => Health::Healthy,
        }
    }
}

/// The outcomes of all pools by the pools' uid, so that a pool made anew under an old name starts afresh (LIF-063).
/// Clones share one memory. It holds four outcomes per pool that ever was; a restart empties it.
#[derive(Clone, Debug, Default)]
pub struct RegistrationHealth(Arc<Mutex<FxHashMap<String, Outcomes>>>);

impl RegistrationHealth {
    /// What the outcomes of a pool say.
    pub fn of(&self, pool_uid: &str) -> Health {
        self.locked().get(pool_uid).map_or(Health::Unknown, Outcomes::health)
    }

    /// Adds how the start of a claim's machine went; it replaces the oldest (LIF-240). The same outcome of the same claim counts once, so a
    /// step that is repeated may say it again.
    pub(crate) fn record(&self, pool_uid: &str, claim_uid: &str, start: Start) {
        let mut pools = self.locked();
        let outcomes = pools.entry(pool_uid.to_owned()).or_default();
        if !outcomes.record(Some(claim_uid), start == Start::Registered) {
            return;
        }
        match (start, outcomes.health()) {
            (Start::Registered, Health::Healthy) => outcomes.verdict = Some(Verdict::Healthy),
            (Start::Failed(failure), Health::Unhealthy) => outcomes.verdict = Some(Verdict::Unhealthy(failure)),
            (Start::Registered | Start::Failed(_), _) => {}
        }
    }

    /// What the outcomes want the pool's condition to say, if anything.
    pub(crate) fn verdict(&self, pool_uid: &str) -> Option<Verdict> {
        self.locked().get(pool_uid)?.verdict.clone()
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
        if !outcomes.last.is_empty() {
            return;
        }
        if condition.is_true() {
            outcomes.record(None, true);
        } else if condition.is_false() {
            outcomes.record(None, false);
            outcomes.record(None, false);
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

    fn failed(reason: &str) -> Start {
        let (reason, message) = (reason.to_owned(), String::new());
        Start::Failed(Failure { reason, message })
    }

    fn after(outcomes: &[bool]) -> (Health, RegistrationHealth) {
        let health = RegistrationHealth::default();
        for (claim, registered) in outcomes.iter().enumerate() {
            let start = if *registered { Start::Registered } else { failed("Late") };
            health.record("uid", &claim.to_string(), start);
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
    fn an_outcome_replaces_the_oldest() {
        let (before, health) = after(&[true, true, true, true, false, true]);
        assert_eq!(before, Health::Healthy);
        // By age: true true false true -> true false true false.
        health.record("uid", "late", failed("Late"));
        assert_eq!(health.of("uid"), Health::Unhealthy);
    }

    #[test]
    fn the_latest_verdict_stays_until_there_is_another() {
        let (f, t) = (false, true);
        let unhealthy = || match failed("Late") {
            Start::Failed(failure) => Some(Verdict::Unhealthy(failure)),
            Start::Registered => None,
        };
        let table: [(&[bool], Option<Verdict>); 7] = [
            (&[], None),
            (&[f], None),
            // LIF-059
            (&[t], Some(Verdict::Healthy)),
            (&[t, f], Some(Verdict::Healthy)),
            // LIF-061
            (&[t, f, f], unhealthy()),
            // LIF-060
            (&[f, f, t, t], unhealthy()),
            (&[f, f, t, t, t], Some(Verdict::Healthy)),
        ];
        for (outcomes, expected) in table {
            assert_eq!(after(outcomes).1.verdict("uid"), expected, "{outcomes:?}");
        }
        let (_, health) = after(&[f, f]);
        // LIF-065
        health.reset("uid");
        assert_eq!(health.verdict("uid"), None);
    }

    #[test]
    fn an_outcome_that_is_told_twice_counts_once() {
        let health = RegistrationHealth::default();
        for claim in ["a", "a"] {
            health.record("uid", claim, failed("Late"));
        }
        assert_eq!(health.of("uid"), Health::Healthy);
        health.record("uid", "b", failed("Late"));
        assert_eq!(health.of("uid"), Health::Unhealthy);
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
        health.record("uid", "first", Start::Registered);
        health.record("uid", "second", Start::Registered);
        // LIF-060
        assert_eq!(health.of("uid"), Health::Unhealthy);
        health.record("uid", "third", Start::Registered);
        assert_eq!(health.of("uid"), Health::Healthy);

        ConditionSet::new(&mut pool, Timestamp::UNIX_EPOCH).set_true(NODE_REGISTRATION_HEALTHY);
        let health = RegistrationHealth::default();
        health.restore(&pool);
        // LIF-064
        assert_eq!(health.of("uid"), Health::Healthy);
        health.record("uid", "late", failed("Late"));
        assert_eq!(health.of("uid"), Health::Healthy);
    }
}
