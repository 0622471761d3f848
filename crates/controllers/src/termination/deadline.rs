//! When a node has to be empty (LIF-068, LIF-097), and how times are written in events.

use jiff::Timestamp;
use jiff::tz::Offset;
use kerf_api::{NodeClaim, annotations};

/// The annotation that names the deadline cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "annotation {} of NodeClaim {claim} is {text:?}, which is no RFC 3339 time: write one such as 2026-11-20T14:00:00Z, or remove it",
    annotations::TERMINATION_TIMESTAMP
)]
pub(crate) struct DeadlineError {
    claim: String,
    text: String,
}

/// The deadline of a claim's node; `None` where there is none, and the drain takes as long as it takes (LIF-122).
pub(crate) fn deadline(claim: &NodeClaim) -> Result<Option<Timestamp>, DeadlineError> {
    let Some(text) = written(claim) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| DeadlineError {
        claim: claim.metadata.name.clone().unwrap_or_default(),
        text: text.to_owned(),
    })
}

/// The deadline a deleted claim gets: its deletion plus its grace period (LIF-068). `None` where it has no period, or
/// a deadline already, legible or not (LIF-069, LIF-070).
pub(crate) fn due(claim: &NodeClaim) -> Option<Timestamp> {
    let period = claim.spec.termination_grace_period.as_ref()?;
    let deleted = claim.metadata.deletion_timestamp.as_ref()?;
    if written(claim).is_some() {
        return None;
    }
    deleted.0.checked_add(period.value().to_signed()).ok()
}

fn written(claim: &NodeClaim) -> Option<&str> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations.get(annotations::TERMINATION_TIMESTAMP).map(String::as_str)
}

/// RFC 3339 in whole seconds, as annotations and most events have it.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    let civil = Offset::UTC.to_datetime(at);
    civil.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The default text of a timestamp, which one event has instead (LIF-119).
pub(crate) fn default_text(at: Timestamp) -> String {
    let civil = Offset::UTC.to_datetime(at);
    civil.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()
}

/// The text of the Warning that a deadline is set (LIF-069, LIF-097).
pub(crate) fn expiring_message(at: Timestamp) -> String {
    format!("All pods will be deleted by {}", rfc3339(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kerf_api::NodeClaimSpec;
    use kerf_units::duration::GoDuration;
    use std::collections::BTreeMap;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    fn claim(grace_seconds: Option<i64>, annotation: Option<&str>) -> NodeClaim {
        let spec = NodeClaimSpec {
            termination_grace_period: grace_seconds.map(|seconds| GoDuration::from_secs(seconds).into()),
            ..NodeClaimSpec::default()
        };
        let mut claim = NodeClaim::new("web-1", spec);
        claim.metadata.deletion_timestamp = Some(Time(at("2026-11-20T13:00:00Z")));
        claim.metadata.annotations =
            annotation.map(|text| BTreeMap::from([(annotations::TERMINATION_TIMESTAMP.to_owned(), text.to_owned())]));
        claim
    }

    #[test]
    fn the_deadline_is_deletion_plus_grace_unless_one_is_written() {
        // LIF-068
        assert_eq!(due(&claim(Some(3600), None)), Some(at("2026-11-20T14:00:00Z")));
        // LIF-069
        assert_eq!(due(&claim(None, None)), None);
        for text in ["soon", "2026-11-20T13:30:00+02:00", ""] {
            // LIF-070
            assert_eq!(due(&claim(Some(3600), Some(text))), None, "{text}");
        }
    }

    #[test]
    fn a_deadline_is_read_in_any_zone_and_nonsense_is_an_error() {
        // LIF-097
        assert_eq!(deadline(&claim(None, None)), Ok(None));
        assert_eq!(
            deadline(&claim(None, Some("2026-11-20T15:00:00+02:00"))),
            Ok(Some(at("2026-11-20T13:00:00Z")))
        );
        assert!(deadline(&claim(None, Some("soon"))).is_err());
    }

    #[test]
    fn times_are_written_in_two_ways() {
        let time = at("2026-11-20T14:00:00.75Z");
        // LIF-069
        assert_eq!(
            expiring_message(time),
            "All pods will be deleted by 2026-11-20T14:00:00Z"
        );
        // LIF-119
        assert_eq!(default_text(time), "2026-11-20 14:00:00 +0000 UTC");
    }
}
