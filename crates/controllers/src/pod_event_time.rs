//! The time of the last pod event in the status of a claim (LIF-137).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_api::NodeClaim;

/// Writes the time of a pod event, in whole seconds, into a copy of the claim.
pub(crate) fn set_pod_event_time(claim: &mut NodeClaim, now: Timestamp) {
    let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
    claim.status.get_or_insert_default().last_pod_event_time = Some(Time(seconds));
}
