//! Writes the result of a launch into a claim in memory (LIF-021 to LIF-026).

use jiff::Timestamp;
use kerf_api::conditions::node_claim::{LAUNCHED, launch_failed_message};
use kerf_api::status::Conditioned;
use kerf_api::{Condition, ConditionSet, NodeClaim};
use kerf_cloud::{CloudError, LaunchFailure, Launched};

/// Whether the claim still waits for its instance (LIF-021). A claim without the condition is new.
pub(crate) fn is_due(claim: &NodeClaim) -> bool {
    claim.condition(LAUNCHED).is_none_or(Condition::is_unknown)
}

/// Writes a successful launch into the claim. Labels of the claim and annotations of the instance win (LIF-022).
pub(crate) fn succeeded(claim: &mut NodeClaim, instance: &Launched, now: Timestamp) {
    let labels = claim.metadata.labels.get_or_insert_default();
    for (key, value) in &instance.labels {
        labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if !instance.annotations.is_empty() {
        let annotations = claim.metadata.annotations.get_or_insert_default();
        annotations.extend(instance.annotations.clone());
    }
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(instance.provider_id.clone());
    status.image_id.clone_from(&instance.image_id);
    status.capacity.clone_from(&instance.capacity);
    status.allocatable.clone_from(&instance.allocatable);
    ConditionSet::new(claim, now).set_true(LAUNCHED);
}

/// Writes a failed launch into the claim, unless the claim has to be deleted (LIF-023 to LIF-026).
pub(crate) fn failed(claim: &mut NodeClaim, error: &CloudError, now: Timestamp) -> LaunchFailure {
    let verdict = error.launch_failure();
    if verdict == LaunchFailure::Retry {
        let (reason, message) = error.launched_condition();
        ConditionSet::new(claim, now).set_unknown(LAUNCHED, &reason, &message);
    }
    verdict
}

/// The text of the Warning on a claim for which there is no capacity (LIF-023).
pub(crate) fn capacity_message(claim: &str, error: &CloudError) -> String {
    format!("NodeClaim {claim} event: {}", launch_failed_message(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_api::conditions::READY;
    use kerf_units::quantity::Quantity;
    use std::collections::BTreeMap;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    fn claim() -> NodeClaim {
        let mut claim = NodeClaim::new("web-1", kerf_api::NodeClaimSpec::default());
        claim.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(
            "2026-01-01T00:00:00Z",
        )));
        claim.metadata.labels = Some(BTreeMap::from([("team".to_owned(), "a".to_owned())]));
        claim.metadata.annotations = Some(BTreeMap::from([("note".to_owned(), "mine".to_owned())]));
        claim
    }

    #[test]
    fn a_launch_fills_in_the_claim() {
        let instance = Launched {
            provider_id: "kwok://n".to_owned(),
            image_id: Some("image-1".to_owned()),
            labels: BTreeMap::from([("team".into(), "b".into()), ("zone".into(), "z".into())]),
            annotations: BTreeMap::from([("note".into(), "theirs".into())]),
            capacity: BTreeMap::from([("cpu".into(), Quantity::from_units(4))]),
            ..Launched::default()
        };
        let mut claim = claim();
        succeeded(&mut claim, &instance, at("2026-01-01T00:00:10Z"));
        // LIF-022
        let labels = claim.metadata.labels.clone().unwrap_or_default();
        assert_eq!((labels["team"].as_str(), labels["zone"].as_str()), ("a", "z"));
        assert_eq!(claim.metadata.annotations.clone().unwrap_or_default()["note"], "theirs");
        let status = claim.status.clone().unwrap_or_default();
        assert_eq!(status.provider_id.as_deref(), Some("kwok://n"));
        assert_eq!(status.image_id.as_deref(), Some("image-1"));
        assert_eq!(status.capacity["cpu"], Quantity::from_units(4));
        assert!(claim.condition_is_true(LAUNCHED));
        assert!(!is_due(&claim));
    }

    // LIF-008
    #[test]
    fn a_failure_keeps_the_condition_unknown_since_creation() {
        let mut claim = claim();
        assert!(is_due(&claim));
        let verdict = failed(
            &mut claim,
            &CloudError::other("x".repeat(400)),
            at("2026-01-01T00:04:00Z"),
        );
        assert_eq!(verdict, LaunchFailure::Retry);
        // LIF-026
        let condition = claim.condition(LAUNCHED).cloned().expect("the condition");
        assert_eq!(
            (condition.reason(), condition.status.as_str()),
            ("LaunchFailed", "Unknown")
        );
        assert_eq!(condition.message(), format!("{}...", "x".repeat(300)));
        assert_eq!(condition.transitioned(), at("2026-01-01T00:00:00Z"));
        assert!(is_due(&claim));
        // LIF-238: a rewritten condition moves behind equal ones.
        let ready = claim.condition(READY).map(|ready| ready.message().to_owned());
        assert_eq!(
            ready.as_deref(),
            Some("Registered=Unknown, Initialized=Unknown, Launched=Unknown")
        );
    }

    #[test]
    fn a_claim_that_cannot_be_served_goes_without_a_condition() {
        let mut claim = claim();
        let error = CloudError::insufficient_capacity("all is taken");
        // LIF-023
        assert_eq!(
            failed(&mut claim, &error, at("2026-01-01T00:00:01Z")),
            LaunchFailure::DeleteClaim {
                reason: "insufficient_capacity"
            }
        );
        assert!(claim.status.is_none());
        assert_eq!(
            capacity_message("web-1", &error),
            "NodeClaim web-1 event: insufficient capacity, all is taken"
        );
        // LIF-024
        assert_eq!(
            failed(
                &mut claim,
                &CloudError::NodeClassNotReady("no".into()),
                at("2026-01-01T00:00:01Z")
            ),
            LaunchFailure::DeleteClaim {
                reason: "nodeclass_not_ready"
            }
        );
    }
}
