//! Whether the latest nodes of a pool registered (LIF-057 to LIF-065): the source of the condition `NodeRegistrationHealthy`.

use std::collections::VecDeque;
use std::sync::Arc;

/// Outcomes remembered per pool (LIF-057).
const REMEMBERED: usize = 4;
/// This many failures among them make a pool unhealthy: half (LIF-058).
const FAILURES_UNHEALTHY: usize = 2;

/// The health that the remembered outcomes show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// There is no outcome yet.
    Unknown,
    /// At most one of the last four failed.
    Healthy,
    /// Two or more of the last four failed.
    Unhealthy,
}

/// Why a node did not register: reason and message for the condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The condition's reason.
    pub reason: String,
    /// The condition's message.
    pub message: String,
}

/// Whether the node of a claim registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Registration {
    /// It did.
    Succeeded,
    /// It did not.
    Failed(Failure),
}

/// The state that the pool's condition should have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PoolCondition {
    /// True (LIF-059).
    Healthy,
    /// False (LIF-061).
    Unhealthy(Failure),
}

/// One outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Outcome {
    /// The claim's uid; `None` where the outcome was read from the condition.
    claim: Option<Arc<str>>,
    registered: bool,
}

/// The latest outcomes of one pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcomes {
    /// Oldest first.
    last: VecDeque<Outcome>,
    /// The state that the last outcomes gave the condition; not every outcome changes it.
    verdict: Option<PoolCondition>,
}

impl Outcomes {
    /// Adds whether the node of a claim registered; it replaces the oldest outcome (LIF-240). The same outcome of the same claim counts
    /// once, so a step that is repeated may record it again.
    pub fn record(&mut self, claim_uid: &str, registration: Registration) {
        if !self.push(Some(claim_uid), registration == Registration::Succeeded) {
            return;
        }
        match (registration, self.health()) {
            (Registration::Succeeded, Health::Healthy) => self.verdict = Some(PoolCondition::Healthy),
            (Registration::Failed(failure), Health::Unhealthy) => {
                self.verdict = Some(PoolCondition::Unhealthy(failure));
            }
            (Registration::Succeeded | Registration::Failed(_), _) => {}
        }
    }

    /// Fills an empty memory from the pool's condition after a restart (LIF-064): `Some(true)` for True, `Some(false)` for False.
    pub fn restore(&mut self, condition: Option<bool>) {
        if !self.last.is_empty() {
            return;
        }
        match condition {
            Some(true) => {
                self.push(None, true);
            }
            Some(false) => {
                for _ in 0..FAILURES_UNHEALTHY {
                    self.push(None, false);
                }
            }
            None => {}
        }
    }

    /// The health that the outcomes show.
    pub fn health(&self) -> Health {
        match self.last.iter().filter(|outcome| !outcome.registered).count() {
            _ if self.last.is_empty() => Health::Unknown,
            failures if failures >= FAILURES_UNHEALTHY => Health::Unhealthy,
            _ => Health::Healthy,
        }
    }

    /// The state that the condition should have; `None` to leave it as it is.
    pub const fn verdict(&self) -> Option<&PoolCondition> {
        self.verdict.as_ref()
    }

    /// Returns false when the same outcome of the same claim is there already.
    fn push(&mut self, claim: Option<&str>, registered: bool) -> bool {
        let claim = claim.map(Arc::from);
        let outcome = Outcome { claim, registered };
        if outcome.claim.is_some() && self.last.contains(&outcome) {
            return false;
        }
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(outcome);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(reason: &str) -> Registration {
        let (reason, message) = (reason.to_owned(), String::new());
        Registration::Failed(Failure { reason, message })
    }

    fn after(registered: &[bool]) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (claim, registered) in registered.iter().enumerate() {
            let registration = if *registered {
                Registration::Succeeded
            } else {
                failed("Late")
            };
            outcomes.record(&claim.to_string(), registration);
        }
        outcomes
    }

    fn unhealthy() -> Option<PoolCondition> {
        match failed("Late") {
            Registration::Failed(failure) => Some(PoolCondition::Unhealthy(failure)),
            Registration::Succeeded => None,
        }
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
            assert_eq!(after(outcomes).health(), expected, "{outcomes:?}");
        }
    }

    // LIF-240
    #[test]
    fn an_outcome_replaces_the_oldest() {
        let mut outcomes = after(&[true, true, true, true, false, true]);
        assert_eq!(outcomes.health(), Health::Healthy);
        // By age: true true false true -> true false true false.
        outcomes.record("late", failed("Late"));
        assert_eq!(outcomes.health(), Health::Unhealthy);
    }

    #[test]
    fn the_latest_verdict_stays_until_there_is_another() {
        let (f, t) = (false, true);
        let table: [(&[bool], Option<PoolCondition>); 7] = [
            (&[], None),
            (&[f], None),
            // LIF-059
            (&[t], Some(PoolCondition::Healthy)),
            (&[t, f], Some(PoolCondition::Healthy)),
            // LIF-061
            (&[t, f, f], unhealthy()),
            // LIF-060
            (&[f, f, t, t], unhealthy()),
            (&[f, f, t, t, t], Some(PoolCondition::Healthy)),
        ];
        for (outcomes, expected) in table {
            assert_eq!(after(outcomes).verdict(), expected.as_ref(), "{outcomes:?}");
        }
    }

    #[test]
    fn an_outcome_that_is_recorded_twice_counts_once() {
        let mut outcomes = Outcomes::default();
        for claim in ["a", "a"] {
            outcomes.record(claim, failed("Late"));
        }
        assert_eq!(outcomes.health(), Health::Healthy);
        outcomes.record("b", failed("Late"));
        assert_eq!(outcomes.health(), Health::Unhealthy);
    }

    #[test]
    fn a_restart_restores_the_outcomes_from_the_condition() {
        let mut outcomes = Outcomes::default();
        outcomes.restore(None);
        assert_eq!(outcomes.health(), Health::Unknown);
        outcomes.restore(Some(false));
        outcomes.restore(Some(false));
        // LIF-064
        assert_eq!(outcomes.health(), Health::Unhealthy);
        outcomes.record("first", Registration::Succeeded);
        outcomes.record("second", Registration::Succeeded);
        // LIF-060
        assert_eq!(outcomes.health(), Health::Unhealthy);
        outcomes.record("third", Registration::Succeeded);
        assert_eq!(outcomes.health(), Health::Healthy);

        let mut outcomes = Outcomes::default();
        outcomes.restore(Some(true));
        // LIF-064
        assert_eq!(outcomes.health(), Health::Healthy);
        outcomes.record("late", failed("Late"));
        assert_eq!(outcomes.health(), Health::Healthy);
    }
}
