//! How many launches at a time a pool may have whose launches find no capacity (deviation from AWS-255 and LIF-023).
//!
//! A plan for many pods has many claims. While a cloud has nothing left, all of them would fail, and their pods would be planned onto as many
//! claims of the next offerings, again and again. Few launches find out as much about the offerings as many do.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Launches at a time after one found no capacity: a second one tries another size of machine.
const LAUNCHES_MIN: usize = 2;
/// By how much the limit grows with each launch that succeeds: a few seconds after capacity is back, a large scale-up is no longer slowed.
const GROWTH: usize = 4;
/// From this limit on the pool is not limited any more.
const ENOUGH: usize = 64;
/// A pool is not limited any more if no launch lacked capacity for so long: offerings without capacity are tried again after this time.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_secs(180);
/// How long a launch without result counts.
const RESULT_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// The pools that are limited, by name.
#[derive(Clone, Debug, Default)]
pub struct LaunchLimits {
    pools: BTreeMap<String, Limited>,
}

#[derive(Clone, Debug)]
struct Limited {
    allowed: usize,
    /// Claims without result, and since when.
    under_way: BTreeMap<String, Timestamp>,
    /// Launches whose claim has no name yet.
    unnamed: usize,
    /// When a launch found no capacity last.
    exhausted: Timestamp,
}

/// Whether a launch may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchPermission {
    /// The pool is not limited.
    Unlimited,
    /// The launch is within the limit of the pool. It is counted until [`LaunchLimits::name`] or [`LaunchLimits::give_up`].
    Counted,
    /// The limit of the pool is reached.
    Refused,
}

impl LaunchLimits {
    /// Asks for a launch in a pool.
    pub fn permit(&mut self, pool: &str, now: Timestamp) -> LaunchPermission {
        self.pools
            .retain(|_, limited| now.duration_since(limited.exhausted) < FORGOTTEN_AFTER);
        let Some(limited) = self.pools.get_mut(pool) else {
            return LaunchPermission::Unlimited;
        };
        limited
            .under_way
            .retain(|_, since| now.duration_since(*since) < RESULT_WITHIN);
        if limited.under_way.len() + limited.unnamed >= limited.allowed {
            return LaunchPermission::Refused;
        }
        limited.unnamed += 1;
        LaunchPermission::Counted
    }

    /// Names the claim of a launch that was counted.
    pub fn name(&mut self, pool: &str, claim: &str, now: Timestamp) {
        if let Some(limited) = self.pools.get_mut(pool) {
            limited.unnamed = limited.unnamed.saturating_sub(1);
            limited.under_way.insert(claim.to_owned(), now);
        }
    }

    /// Gives back a launch that was counted and has no claim.
    pub fn give_up(&mut self, pool: &str) {
        if let Some(limited) = self.pools.get_mut(pool) {
            limited.unnamed = limited.unnamed.saturating_sub(1);
        }
    }

    /// Records that the launch of a claim found no capacity.
    pub fn exhausted(&mut self, pool: &str, claim: &str, now: Timestamp) {
        let limited = self.pools.entry(pool.to_owned()).or_insert_with(|| Limited {
            allowed: LAUNCHES_MIN,
            under_way: BTreeMap::new(),
            unnamed: 0,
            exhausted: now,
        });
        limited.under_way.remove(claim);
        limited.allowed = (limited.allowed / 2).max(LAUNCHES_MIN);
        limited.exhausted = now;
    }

    /// Records that a claim was launched.
    pub fn launched(&mut self, pool: &str, claim: &str) {
        let Some(limited) = self.pools.get_mut(pool) else {
            return;
        };
        limited.under_way.remove(claim);
        limited.allowed += GROWTH;
        if limited.allowed >= ENOUGH {
            self.pools.remove(pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    /// Launches as many claims as are permitted, and names them.
    fn launch(limits: &mut LaunchLimits, pool: &str, now: Timestamp) -> Vec<String> {
        let mut names = Vec::new();
        while names.len() < 1000 {
            let name = format!("{pool}-{}", names.len());
            match limits.permit(pool, now) {
                LaunchPermission::Unlimited => {}
                LaunchPermission::Counted => limits.name(pool, &name, now),
                LaunchPermission::Refused => break,
            }
            names.push(name);
        }
        names
    }

    #[test]
    fn a_pool_without_capacity_launches_few_until_launches_succeed() {
        let mut limits = LaunchLimits::default();
        assert_eq!(
            launch(&mut limits, "a", START).len(),
            1000,
            "nothing is limited at first"
        );
        limits.exhausted("a", "a-0", START);
        let tried = launch(&mut limits, "a", START);
        assert_eq!(tried.len(), LAUNCHES_MIN);
        assert_eq!(
            limits.permit("a", START),
            LaunchPermission::Refused,
            "while they have no result"
        );
        assert_eq!(
            launch(&mut limits, "b", START).len(),
            1000,
            "other pools are not limited"
        );
        for name in &tried {
            limits.exhausted("a", name, START);
        }
        let tried = launch(&mut limits, "a", START);
        assert_eq!(tried.len(), LAUNCHES_MIN);
        for name in &tried {
            limits.launched("a", name);
        }
        assert_eq!(
            launch(&mut limits, "a", START).len(),
            LAUNCHES_MIN + LAUNCHES_MIN * GROWTH
        );
        for at in 0..20 {
            limits.launched("a", &format!("a-{at}"));
        }
        assert_eq!(
            launch(&mut limits, "a", START).len(),
            1000,
            "it is not limited any more"
        );
    }

    #[test]
    fn a_launch_without_claim_is_given_back_and_all_is_forgotten_in_time() {
        let mut limits = LaunchLimits::default();
        limits.exhausted("a", "x", START);
        let permitted = [(); LAUNCHES_MIN + 1].map(|()| limits.permit("a", START));
        assert_eq!(
            permitted,
            [
                LaunchPermission::Counted,
                LaunchPermission::Counted,
                LaunchPermission::Refused
            ]
        );
        limits.give_up("a");
        limits.give_up("a");
        assert_eq!(launch(&mut limits, "a", START).len(), LAUNCHES_MIN);
        // The claims were deleted: there will be no result.
        let later = START + RESULT_WITHIN;
        assert_eq!(launch(&mut limits, "a", later).len(), LAUNCHES_MIN);
        let much_later = later + FORGOTTEN_AFTER;
        assert_eq!(launch(&mut limits, "a", much_later).len(), 1000);
    }
}
