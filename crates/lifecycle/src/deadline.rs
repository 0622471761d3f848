//! When a node has to be empty (LIF-068, LIF-097), and how times are written in annotations and events.

use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// The text of a deadline is not an RFC 3339 time.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is not an RFC 3339 time: write one such as 2026-11-20T14:00:00Z")]
pub struct NotATime {
    /// The text as written.
    pub text: String,
}

/// Reads the deadline that a claim's annotation names. `None` when there is no annotation; the drain may then take any time (LIF-122).
pub fn deadline(annotation: Option<&str>) -> Result<Option<Timestamp>, NotATime> {
    let Some(text) = annotation else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| NotATime { text: text.to_owned() })
}

/// The deadline a deleted claim gets: its deletion plus its termination grace period (LIF-068). `None` when it is not deleted, has no
/// grace period, or has the annotation already, readable or not (LIF-069, LIF-070).
pub fn first_deadline(
    deleted: Option<Timestamp>,
    grace_period: Option<SignedDuration>,
    annotation: Option<&str>,
) -> Option<Timestamp> {
    if annotation.is_some() {
        return None;
    }
    deleted?.checked_add(grace_period?).ok()
}

/// A time as RFC 3339 in whole seconds: the form in annotations and most events.
pub fn rfc3339(at: Timestamp) -> String {
    let civil = Offset::UTC.to_datetime(at);
    civil.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as Go prints it by default: the form in the event about a deleted pod (LIF-119).
pub fn default_text(at: Timestamp) -> String {
    let civil = Offset::UTC.to_datetime(at);
    civil.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()
}

/// The text of the Warning that a deadline is set (LIF-069, LIF-097).
pub fn expiring_message(at: Timestamp) -> String {
    format!("All pods will be deleted by {}", rfc3339(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;

    #[test]
    fn the_deadline_is_deletion_plus_grace_unless_one_is_written() {
        let deleted = Some(at("2026-11-20T13:00:00Z"));
        let hour = Some(SignedDuration::from_hours(1));
        // LIF-068
        assert_eq!(first_deadline(deleted, hour, None), Some(at("2026-11-20T14:00:00Z")));
        // LIF-069
        assert_eq!(first_deadline(deleted, None, None), None);
        for text in ["soon", "2026-11-20T13:30:00+02:00", ""] {
            // LIF-070
            assert_eq!(first_deadline(deleted, hour, Some(text)), None, "{text}");
        }
    }

    #[test]
    fn a_deadline_is_read_in_any_zone_and_nonsense_is_an_error() {
        // LIF-097
        assert_eq!(deadline(None), Ok(None));
        assert_eq!(
            deadline(Some("2026-11-20T15:00:00+02:00")),
            Ok(Some(at("2026-11-20T13:00:00Z")))
        );
        assert!(deadline(Some("soon")).is_err());
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
