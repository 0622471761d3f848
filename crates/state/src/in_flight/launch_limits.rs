//! How many launches at a time a pool may have whose launches find no capacity (deviation at AWS-255 and LIF-023).
//!
//! A plan for many pods has many claims. While a cloud has nothing left, all of them would fail, and their pods would be planned onto as many
//! claims of the next offerings, again and again. Few launches find out as much about the offerings as many do.

use jiff::{SignedDuration, Timestamp};
use kerf_model::in_flight::{LaunchRoom, WITHOUT_CAPACITY_MAX};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Launches at a time after one found no capacity. Its answer tells the next plan which offerings have none; a second launch beside it would
/// mostly ask for the same ones.
const LAUNCHES_MIN: usize = 1;
/// By how much the limit grows with each launch that succeeds: a few seconds after capacity is back, a large scale-up is no longer slowed.
const GROWTH: usize = 4;
/// From this limit on the pool is not limited any more.
const ENOUGH: usize = 64;
/// So many launches in a row may find no capacity before the next one waits. A NodePool that allows all of EC2 needs about 27 to try every
/// offering: 800 instance types, 60 in a launch, on demand and spot.
const FAILURES_AT_ONCE: u32 = 30;
/// The longest wait between two launches: how late a pool sees that there is capacity again.
const PAUSE_MAX: SignedDuration = SignedDuration::from_secs(30);
/// How long a launch without result counts.
const RESULT_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// The pools that are limited, by name.
#[derive(Default, Debug)]
pub(crate) struct LaunchLimits(BTreeMap<Arc<str>, Limited>);

#[derive(Debug)]
struct Limited {
    allowed: usize,
    /// Claims without result, and since when.
    under_way: BTreeMap<Arc<str>, Timestamp>,
    /// When a launch found no capacity last.
    exhausted: Timestamp,
    /// Launches without capacity since the last one that had some.
    failures: u32,
}

impl Limited {
    fn room(&self, now: Timestamp) -> LaunchRoom {
        let waits = now.duration_since(self.exhausted) < self.pause();
        let free = self.allowed.saturating_sub(self.under_way.len());
        LaunchRoom {
            claims: if waits { 0 } else { free },
            failures: self.failures,
        }
    }

    /// How long the next launch waits: 2 s after the launches that may fail at once, then twice as long after each one.
    fn pause(&self) -> SignedDuration {
        match self.failures.checked_sub(FAILURES_AT_ONCE) {
            None => SignedDuration::ZERO,
            Some(doublings @ 0..=3) => SignedDuration::from_secs(2 << doublings),
            Some(_) => PAUSE_MAX,
        }
    }
}

impl LaunchLimits {
    /// What each limited pool may launch.
    pub(crate) fn room(&self, now: Timestamp) -> BTreeMap<Arc<str>, LaunchRoom> {
        let pools = self.0.iter();
        pools
            .map(|(pool, limited)| (Arc::clone(pool), limited.room(now)))
            .collect()
    }

    /// Records that a claim was created, whose launch has no result yet.
    pub(crate) fn begun(&mut self, pool: &str, claim: &Arc<str>, now: Timestamp) {
        if let Some(limited) = self.0.get_mut(pool) {
            limited.under_way.insert(Arc::clone(claim), now);
        }
    }

    /// Records that the launch of a claim found no capacity.
    pub(crate) fn exhausted(&mut self, pool: Arc<str>, claim: &str, now: Timestamp) {
        let limited = self.0.entry(pool).or_insert_with(|| Limited {
            allowed: LAUNCHES_MIN,
            under_way: BTreeMap::new(),
            exhausted: now,
            failures: 0,
        });
        limited.under_way.remove(claim);
        limited.allowed = (limited.allowed / 2).max(LAUNCHES_MIN);
        limited.exhausted = now;
        limited.failures = limited.failures.saturating_add(1);
    }

    /// Records that a claim was launched.
    pub(crate) fn launched(&mut self, pool: &str, claim: &str) {
        let Some(limited) = self.0.get_mut(pool) else {
            return;
        };
        limited.under_way.remove(claim);
        limited.allowed += GROWTH;
        limited.failures = 0;
        if limited.allowed >= ENOUGH {
            self.0.remove(pool);
        }
    }

    /// Forgets limits of pools that lacked no capacity for [`WITHOUT_CAPACITY_MAX`], and launches without result after their time.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.0
            .retain(|_, limited| now.duration_since(limited.exhausted).unsigned_abs() < WITHOUT_CAPACITY_MAX);
        for limited in self.0.values_mut() {
            limited
                .under_way
                .retain(|_, since| now.duration_since(*since) < RESULT_WITHIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn room(limits: &LaunchLimits, pool: &str) -> Option<usize> {
        room_at(limits, pool, START)
    }

    fn room_at(limits: &LaunchLimits, pool: &str, now: Timestamp) -> Option<usize> {
        limits.room(now).get(pool).map(|room| room.claims)
    }

    fn seconds(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    #[test]
    fn a_pool_without_capacity_launches_few_until_launches_succeed() {
        let mut limits = LaunchLimits::default();
        assert_eq!(room(&limits, "a"), None, "nothing is limited at first");
        limits.begun("a", &"a-0".into(), START);
        limits.exhausted("a".into(), "a-0", START);
        assert_eq!(room(&limits, "a"), Some(LAUNCHES_MIN));
        assert_eq!(room(&limits, "b"), None, "other pools are not limited");
        limits.begun("a", &"a-1".into(), START);
        assert_eq!(room(&limits, "a"), Some(0), "while it has no result");
        limits.exhausted("a".into(), "a-1", START);
        assert_eq!(room(&limits, "a"), Some(LAUNCHES_MIN));
        limits.begun("a", &"a-2".into(), START);
        limits.launched("a", "a-2");
        assert_eq!(room(&limits, "a"), Some(LAUNCHES_MIN + GROWTH));
        for at in 0..20 {
            limits.launched("a", &format!("b-{at}"));
        }
        assert_eq!(room(&limits, "a"), None, "it is not limited any more");
    }

    #[test]
    fn launches_that_fail_again_and_again_become_rare() {
        let mut limits = LaunchLimits::default();
        let (mut now, mut waited) = (START, Vec::new());
        for at in 0..FAILURES_AT_ONCE + 8 {
            limits.begun("a", &format!("a-{at}").into(), now);
            limits.exhausted("a".into(), &format!("a-{at}"), now);
            let waits = (0..).find(|wait| room_at(&limits, "a", now + seconds(*wait)) == Some(LAUNCHES_MIN));
            let wait = waits.expect("it may launch some time");
            waited.extend((wait > 0).then_some(wait));
            now += seconds(wait);
        }
        assert_eq!(waited, [2, 4, 8, 16, 30, 30, 30, 30, 30]);
        limits.launched("a", "a-99");
        assert_eq!(room_at(&limits, "a", now), Some(LAUNCHES_MIN + GROWTH));
    }

    #[test]
    fn all_is_forgotten_in_time() {
        let mut limits = LaunchLimits::default();
        limits.exhausted("a".into(), "a-0", START);
        limits.begun("a", &"a-1".into(), START);
        limits.expire(START + RESULT_WITHIN - seconds(1));
        assert_eq!(room(&limits, "a"), Some(0));
        // The claim was deleted: there will be no result.
        limits.expire(START + RESULT_WITHIN);
        assert_eq!(room(&limits, "a"), Some(LAUNCHES_MIN));
        limits.expire(START + WITHOUT_CAPACITY_MAX - seconds(1));
        assert_eq!(room(&limits, "a"), Some(LAUNCHES_MIN), "offerings may be marked still");
        limits.expire(START + WITHOUT_CAPACITY_MAX);
        assert_eq!(room(&limits, "a"), None);
    }
}
