//! When a claim is too old (LIF-125 to LIF-127).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The longest time until the age of a claim is checked again: the wall clock may be set meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// The time until a claim is checked again that shares its machine with another claim or a second Node.
const DOUBLED_AGAIN: Duration = Duration::from_secs(60);

/// What to do with a claim because of its age.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// Nothing: it never expires.
    Never,
    /// Check again after this time.
    Wait(Duration),
    /// Delete it.
    Expired,
}

/// When a claim expires; `None` for never (LIF-125).
pub fn expires(created: Option<Timestamp>, expire_after: Option<SignedDuration>) -> Option<Timestamp> {
    created?.checked_add(expire_after?).ok()
}

/// What to do now with a claim that expires at `at`. A `doubled` claim shares its machine with another claim or a second Node, so it
/// is unknown what runs there (deviation at DIS-022). `hold` is how long no decision may rest on the wall clock because it jumped.
pub fn expiry(at: Option<Timestamp>, doubled: bool, hold: Option<Duration>, now: Timestamp) -> Expiry {
    let Some(at) = at else {
        return Expiry::Never;
    };
    let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    if !left.is_zero() {
        return Expiry::Wait(left.min(LOOK_AGAIN));
    }
    if doubled {
        return Expiry::Wait(DOUBLED_AGAIN);
    }
    hold.map_or(Expiry::Expired, Expiry::Wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;

    // LIF-125
    #[test]
    fn age_counts_from_creation_and_never_is_never() {
        let created = Some(at("2026-01-01T00:00:00Z"));
        let hour = Some(SignedDuration::from_hours(1));
        assert_eq!(expires(created, hour), Some(at("2026-01-01T01:00:00Z")));
        assert_eq!(expires(created, None), None);
        assert_eq!(expires(None, hour), None);
    }

    #[test]
    fn a_claim_goes_when_its_time_has_come_and_nothing_is_in_doubt() {
        let expires = Some(at("2026-01-01T12:00:00Z"));
        let (secs, hold) = (Duration::from_secs, Some(Duration::from_secs(7)));
        let table = [
            ("2026-01-01T00:00:00Z", false, None, Expiry::Wait(LOOK_AGAIN)),
            ("2026-01-01T11:59:50Z", false, hold, Expiry::Wait(secs(10))),
            ("2026-01-01T12:00:00Z", false, None, Expiry::Expired),
            ("2026-01-02T12:00:00Z", false, None, Expiry::Expired),
            ("2026-01-01T12:00:00Z", true, hold, Expiry::Wait(DOUBLED_AGAIN)),
            ("2026-01-01T12:00:00Z", false, hold, Expiry::Wait(secs(7))),
        ];
        for (now, doubled, hold, expected) in table {
            assert_eq!(expiry(expires, doubled, hold, at(now)), expected, "{now} {doubled}");
        }
        assert_eq!(expiry(None, false, None, at("2026-01-01T12:00:00Z")), Expiry::Never);
    }
}
