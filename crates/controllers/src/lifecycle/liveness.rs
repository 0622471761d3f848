//! How long a claim may take to launch and to register (LIF-051 to LIF-056): pure.

use jiff::{SignedDuration, Timestamp};
use kerf_api::conditions::node_claim::{LAUNCHED, REGISTERED};
use kerf_api::status::Conditioned;
use kerf_api::{Condition, NodeClaim};
use std::time::Duration;

/// The times a claim has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// From creation to a launched instance (LIF-051).
    pub launch: Duration,
    /// From creation to a registered Node (LIF-052).
    pub registration: Duration,
    /// From the start of a disruption command to initialised replacements, when few nodes are being disrupted (DIS-279).
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

/// What the clock says about a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Liveness {
    /// It is registered: nothing is measured any more (LIF-053).
    Settled,
    /// Look again after this time.
    Waiting(Duration),
    /// It took too long and has to go.
    TimedOut(Timeout),
}

/// Which time is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timeout {
    /// The label of `karpenter_nodeclaims_disrupted_total`.
    pub(crate) reason: &'static str,
    /// The time there was.
    pub(crate) timeout: Duration,
}

/// Measures a claim. The time runs from the conditions' transition, which is the creation unless somebody reset them.
pub(crate) fn measure(claim: &NodeClaim, timeouts: &Timeouts, now: Timestamp) -> Liveness {
    if claim.condition_is_true(REGISTERED) {
        return Liveness::Settled;
    }
    let launched = claim.condition_is_true(LAUNCHED);
    let (condition, timeout, reason) = if launched {
        (REGISTERED, timeouts.registration, "registration_timeout")
    } else {
        (LAUNCHED, timeouts.launch, "launch_timeout")
    };
    let Some(since) = claim.condition(condition).map(Condition::transitioned) else {
        // Nobody has opened the claim's conditions yet; that happens in the same pass.
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
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kerf_api::{ConditionSet, NodeClaimSpec};

    const MIN: u64 = 60;

    fn after(minutes: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().expect("a timestamp") + SignedDuration::from_mins(minutes)
    }

    fn claim(launched_at: Option<i64>) -> NodeClaim {
        let mut claim = NodeClaim::new("web-1", NodeClaimSpec::default());
        claim.metadata.creation_timestamp = Some(Time(after(0)));
        ConditionSet::new(&mut claim, after(0));
        if let Some(minutes) = launched_at {
            ConditionSet::new(&mut claim, after(minutes)).set_true(LAUNCHED);
        }
        claim
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
            (claim(None), 1, waiting(4)),
            // LIF-051
            (claim(None), 5, timed_out("launch_timeout", 5)),
            // LIF-053: launched late, the rest of the registration time counts from creation.
            (claim(Some(4)), 6, waiting(9)),
            // LIF-052
            (claim(Some(4)), 15, timed_out("registration_timeout", 15)),
            // LIF-054: one failure, not two.
            (claim(None), 20, timed_out("launch_timeout", 5)),
        ];
        for (claim, minutes, expected) in table {
            assert_eq!(
                measure(&claim, &Timeouts::default(), after(minutes)),
                expected,
                "{minutes}"
            );
        }
        let mut registered = claim(Some(1));
        ConditionSet::new(&mut registered, after(2)).set_true(REGISTERED);
        // LIF-053
        assert_eq!(
            measure(&registered, &Timeouts::default(), after(100)),
            Liveness::Settled
        );
    }

    // LIF-052: a claim whose Nodes are in doubt is measured on, from the time of doubt.
    #[test]
    fn a_claim_with_several_nodes_times_out() {
        let mut claim = claim(Some(1));
        ConditionSet::new(&mut claim, after(3)).set_false(REGISTERED, "MultipleNodesFound", "");
        assert_eq!(
            measure(&claim, &Timeouts::default(), after(18)),
            timed_out("registration_timeout", 15)
        );
    }

    // LIF-056
    #[test]
    fn the_launch_timeout_can_be_raised() {
        let patient = Timeouts {
            launch: Duration::from_secs(30 * MIN),
            ..Timeouts::default()
        };
        assert!(matches!(
            measure(&claim(None), &patient, after(20)),
            Liveness::Waiting(_)
        ));
    }
}
