//! Machines whose replacement failed: it found no capacity, or did not become ready in time (DIS-247).
//!
//! Drift replaces the machine that drifted first. Without a pause it would try that one again and again, and the others would never get their turn
//! (deviation at DIS-247).

use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pause after the first failure: as long as drift takes to look again anyway.
const PAUSE_MIN: SignedDuration = SignedDuration::from_secs(10);
/// The longest pause.
const PAUSE_MAX: SignedDuration = SignedDuration::from_mins(5);
/// How long after its last failure a machine counts as one that never failed.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(15);

/// The machines, by provider id.
#[derive(Default, Debug)]
pub(crate) struct FailedReplacements(BTreeMap<Arc<str>, Failed>);

#[derive(Debug)]
struct Failed {
    failures: u32,
    last: Timestamp,
}

impl Failed {
    /// When the machine may be replaced again: each failure doubles the pause.
    fn until(&self) -> Timestamp {
        let doublings = self.failures.saturating_sub(1);
        let pause = 2_i32
            .checked_pow(doublings)
            .and_then(|factor| PAUSE_MIN.checked_mul(factor));
        let pause = pause.map_or(PAUSE_MAX, |pause| pause.min(PAUSE_MAX));
        self.last.saturating_add(pause).unwrap_or(Timestamp::MAX)
    }
}

impl FailedReplacements {
    /// Records that the replacement of a machine failed.
    pub(crate) fn note(&mut self, provider_id: Arc<str>, now: Timestamp) {
        let failed = self.0.entry(provider_id).or_insert(Failed { failures: 0, last: now });
        failed.failures = failed.failures.saturating_add(1);
        failed.last = now;
    }

    /// The machines that pause, and until when.
    pub(crate) fn pausing(&self, now: Timestamp) -> BTreeMap<Arc<str>, Timestamp> {
        let until = |(id, failed): (&Arc<str>, &Failed)| (Arc::clone(id), failed.until());
        self.0.iter().map(until).filter(|(_, until)| *until > now).collect()
    }

    /// Forgets machines whose last failure was long ago.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.0
            .retain(|_, failed| now.duration_since(failed.last).abs() < REMEMBERED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn each_failure_doubles_the_pause() {
        let mut failed = FailedReplacements::default();
        let mut now = 0;
        for pause in [10, 20, 40, 80, 160, 300, 300] {
            failed.note("a".into(), at(now));
            assert_eq!(failed.pausing(at(now)), [("a".into(), at(now + pause))].into());
            now += pause;
            assert_eq!(failed.pausing(at(now)), [].into());
        }
        failed.note("b".into(), at(now));
        assert_eq!(failed.pausing(at(now)), [("b".into(), at(now + 10))].into());
        for _ in 0..100 {
            failed.note("a".into(), at(now));
        }
        assert_eq!(failed.pausing(at(now + 299)).len(), 1, "pauses do not overflow");
    }

    #[test]
    fn failures_of_long_ago_do_not_count() {
        let mut failed = FailedReplacements::default();
        for _ in 0..6 {
            failed.note("a".into(), at(0));
        }
        failed.expire(at(899));
        failed.note("a".into(), at(899));
        assert_eq!(failed.pausing(at(899)), [("a".into(), at(899 + 300))].into());
        failed.expire(at(899 + 900));
        failed.note("a".into(), at(1800));
        assert_eq!(failed.pausing(at(1800)), [("a".into(), at(1810))].into());
    }
}
