//! Reads from the conditions of a claim how far its registration has progressed.

use kerf_api::conditions::node_claim::{LAUNCHED, REGISTERED};
use kerf_api::status::Conditioned;
use kerf_api::{Condition, NodeClaim};
use kerf_lifecycle::liveness::Progress;

/// The progress of a claim, with the times from which its time limits are measured.
pub(super) fn progress(claim: &NodeClaim) -> Progress {
    let since = |condition: &str| claim.condition(condition).map(Condition::transitioned);
    if claim.condition_is_true(REGISTERED) {
        Progress::Registered
    } else if claim.condition_is_true(LAUNCHED) {
        Progress::Launched {
            since: since(REGISTERED),
        }
    } else {
        Progress::Created { since: since(LAUNCHED) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::{SignedDuration, Timestamp};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kerf_api::{ConditionSet, NodeClaimSpec};

    fn minute(minutes: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().expect("a timestamp") + SignedDuration::from_mins(minutes)
    }

    #[test]
    fn the_time_of_each_step_runs_from_creation() {
        let mut claim = NodeClaim::new("web-1", NodeClaimSpec::default());
        assert_eq!(progress(&claim), Progress::Created { since: None });
        claim.metadata.creation_timestamp = Some(Time(minute(0)));
        ConditionSet::new(&mut claim, minute(0));
        let since = Some(minute(0));
        assert_eq!(progress(&claim), Progress::Created { since });
        // LIF-053: a late launch does not move the start of the registration time.
        ConditionSet::new(&mut claim, minute(4)).set_true(LAUNCHED);
        assert_eq!(progress(&claim), Progress::Launched { since });
        let mut registered = claim.clone();
        ConditionSet::new(&mut registered, minute(5)).set_true(REGISTERED);
        assert_eq!(progress(&registered), Progress::Registered);
        // LIF-052: a claim with several Nodes is measured from the time they were found.
        ConditionSet::new(&mut claim, minute(3)).set_false(REGISTERED, "MultipleNodesFound", "");
        let since = Some(minute(3));
        assert_eq!(progress(&claim), Progress::Launched { since });
    }
}
