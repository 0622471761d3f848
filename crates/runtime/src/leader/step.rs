//! The next step of an election: a pure function of the lease as last read and of the time.

use std::time::Duration;

use jiff::Timestamp;

/// The contents of a lease. Two records that differ mean that its holder was alive in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The identity of the holder; `None` after it was released.
    pub holder: Option<String>,
    /// How long its holder asks others to wait.
    pub lease_duration: Duration,
    /// When its holder says it was renewed; only compared for equality.
    pub renewed: Option<Timestamp>,
    /// The version a write must be based on.
    pub resource_version: Option<String>,
}

/// A lease as last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedLease {
    /// Its record; `None` when there is no lease.
    pub record: Option<LeaseRecord>,
    /// When exactly this record was first read, on the time scale of `now` in [`step`].
    pub changed_at: Duration,
}

/// This process holds the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// When the last successful write began.
    pub renewed_at: Duration,
    /// Until when this process leads without another one.
    pub until: Duration,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take the lease.
    Acquire,
    /// Renew it.
    Renew,
    /// Another process leads, or the lease was not read yet.
    Wait,
    /// This process led and must stop.
    Lost,
}

/// Decides for the process `me`. `now` is monotonic time on any scale common to all arguments.
pub fn step(me: &str, seen: Option<&ObservedLease>, held: Option<Leadership>, now: Duration) -> Step {
    let record = seen.and_then(|seen| seen.record.as_ref());
    if let Some(held) = held {
        let stolen = seen.is_some() && record.is_none_or(|record| record.holder.as_deref() != Some(me));
        return if stolen || now >= held.until {
            Step::Lost
        } else {
            Step::Renew
        };
    }
    let Some(seen) = seen else { return Step::Wait };
    match record {
        None => Step::Acquire,
        Some(record) if record.holder.as_deref().is_none_or(|holder| holder == me) => Step::Acquire,
        Some(record) if now.saturating_sub(seen.changed_at) >= record.lease_duration => Step::Acquire,
        Some(_) => Step::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn seen(holder: &str, changed_at: u64) -> ObservedLease {
        let record = LeaseRecord {
            holder: (!holder.is_empty()).then(|| holder.to_owned()),
            lease_duration: seconds(15),
            // A holder whose clock is far ahead must make no difference.
            renewed: "2999-01-01T00:00:00Z".parse().ok(),
            resource_version: Some("1".to_owned()),
        };
        ObservedLease {
            record: Some(record),
            changed_at: seconds(changed_at),
        }
    }

    #[test]
    fn a_lease_is_taken_when_it_is_free_or_has_not_changed_for_its_duration() {
        let none = ObservedLease {
            record: None,
            changed_at: seconds(0),
        };
        for (what, observed, now, expected) in [
            ("nothing known", None, 100, Step::Wait),
            ("no lease", Some(none), 0, Step::Acquire),
            ("given back", Some(seen("", 0)), 0, Step::Acquire),
            ("held by another", Some(seen("other", 100)), 114, Step::Wait),
            // OPS-048
            ("expired by our own time", Some(seen("other", 100)), 115, Step::Acquire),
            ("ours from before", Some(seen("me", 100)), 101, Step::Acquire),
        ] {
            assert_eq!(step("me", observed.as_ref(), None, seconds(now)), expected, "{what}");
        }
    }

    #[test]
    fn a_leader_renews_until_it_is_late_or_robbed() {
        let held = Some(Leadership {
            renewed_at: seconds(100),
            until: seconds(110),
        });
        let none = ObservedLease {
            record: None,
            changed_at: seconds(101),
        };
        for (what, observed, now, expected) in [
            ("in time", seen("me", 100), 109, Step::Renew),
            // OPS-048
            ("late", seen("me", 100), 110, Step::Lost),
            // OPS-050
            ("replaced by another holder", seen("other", 101), 102, Step::Lost),
            ("the lease was deleted", none, 102, Step::Lost),
        ] {
            assert_eq!(step("me", Some(&observed), held, seconds(now)), expected, "{what}");
        }
    }
}
