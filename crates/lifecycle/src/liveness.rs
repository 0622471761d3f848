//! How long a claim may take to launch and to register (LIF-051 to LIF-056).

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// The time limits of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// From creation to a launched instance (LIF-051).
    pub launch: Duration,
    /// From creation to a registered Node (LIF-052).
    pub registration: Duration,
    /// From the start of a disruption command to initialized replacements, when few nodes are being disrupted (DIS-279).
    pub replacement: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            launch: Duration::from_secs(5 * 60),
            registration: Duration::from_secs(15 * 60),
            replacement: Duration::from_secs(10 * 60),
        }
    }
}

/// The progress of a claim. `since` is the last transition of the next condition, which is the creation unless the condition was
/// reset; `None` while the claim has no conditions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It has no instance yet; `Launched` comes next.
    Created {
        /// See the type.
        since: Option<Timestamp>,
    },
    /// It has an instance; `Registered` comes next.
    Launched {
        /// See the type.
        since: Option<Timestamp>,
    },
    /// Its Node is registered.
    Registered,
}

/// Whether a claim is in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// It is registered: no time limit is left (LIF-053).
    Settled,
    /// It is in time; check again after this time.
    Waiting(Duration),
    /// It took too long and has to go.
    TimedOut(Timeout),
}

/// A time limit that was exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeout {
    /// The label `reason` of `karpenter_nodeclaims_disrupted_total`.
    pub reason: &'static str,
    /// The limit.
    pub timeout: Duration,
}

/// Compares a claim's progress with its time limits.
pub fn measure(progress: Progress, timeouts: &Timeouts, now: Timestamp) -> Liveness {
    let (since, timeout, reason) = match progress {
        Progress::Registered => return Liveness::Settled,
        Progress::Launched { since } => (since, timeouts.registration, "registration_timeout"),
        Progress::Created { since } => (since, timeouts.launch, "launch_timeout"),
    };
    let Some(since) = since else {
        // The claim gets its conditions in the same pass.
        return Liveness::Waiting(timeout);
    };
    let left = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX) - now.duration_since(since);
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Liveness::Waiting(left),
        _ => Liveness::TimedOut(Timeout { reason, timeout }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;

    const MIN: u64 = 60;

    fn after(minutes: i64) -> Timestamp {
        at("2026-01-01T00:00:00Z") + SignedDuration::from_mins(minutes)
    }

    /// The progress of a claim that was created at minute 0.
    fn created() -> Progress {
        Progress::Created { since: Some(after(0)) }
    }

    /// The same with an instance: the condition `Registered` is Unknown since creation.
    fn launched() -> Progress {
        Progress::Launched { since: Some(after(0)) }
    }

    fn timed_out(reason: &'static str, minutes: u64) -> Liveness {
        let timeout = Duration::from_secs(minutes * MIN);
        Liveness::TimedOut(Timeout { reason, timeout })
    }

    #[test]
    fn both_times_run_from_creation() {
        let waiting = |minutes: u64| Liveness::Waiting(Duration::from_secs(minutes * MIN));
        let table = [
            // LIF-053
            (created(), 1, waiting(4)),
            // LIF-051
            (created(), 5, timed_out("launch_timeout", 5)),
            // LIF-053: launched late, the rest of the registration time counts from creation.
            (launched(), 6, waiting(9)),
            // LIF-052
            (launched(), 15, timed_out("registration_timeout", 15)),
            // LIF-054: one failure, not two.
            (created(), 20, timed_out("launch_timeout", 5)),
            // LIF-053
            (Progress::Registered, 100, Liveness::Settled),
        ];
        for (progress, minutes, expected) in table {
            assert_eq!(
                measure(progress, &Timeouts::default(), after(minutes)),
                expected,
                "{progress:?} after {minutes} minutes"
            );
        }
    }

    // LIF-056
    #[test]
    fn the_launch_timeout_can_be_raised() {
        let raised = Timeouts {
            launch: Duration::from_secs(30 * MIN),
            ..Timeouts::default()
        };
        assert!(matches!(measure(created(), &raised, after(20)), Liveness::Waiting(_)));
    }

    #[test]
    fn a_claim_without_conditions_has_all_its_time() {
        let timeouts = Timeouts::default();
        let waiting = measure(Progress::Created { since: None }, &timeouts, after(60));
        assert_eq!(waiting, Liveness::Waiting(timeouts.launch));
    }
}
