//! How many launches at a time a pool may have whose launches find no capacity.
//!
//! A plan for many pods has many claims. While a cloud has nothing left, all of them would fail, and their pods would be planned onto as many
//! claims of the next offerings, again and again. Few launches find out as much about the offerings as many do.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Launches at a time after one found no capacity: a second one tries another size of machine.
const PROBES: usize = 2;
/// So many more may be under way for each that succeeds: a few seconds after capacity is back, a large scale-up is no longer slowed.
const GROWTH: usize = 4;
/// With so many at a time the pool is not limited any more.
const ENOUGH: usize = 64;
/// A pool is not limited any more if no launch found too little for so long: offerings without capacity are tried again after this time.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_secs(180);
/// A launch without result counts no longer than this.
const RESULT_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// The pools that are limited, by name.
#[derive(Clone, Debug, Default)]
pub struct CapacityProbes {
    pools: BTreeMap<String, Probing>,
}

#[derive(Clone, Debug)]
struct Probing {
    allowed: usize,
    /// Claims without result, and since when.
    under_way: BTreeMap<String, Timestamp>,
    /// Launches whose claim has no name yet.
    unnamed: usize,
    until: Timestamp,
}

/// Whether a launch may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The pool is not limited.
    Free,
    /// The launch is one of the few that may be under way: it is counted until [`CapacityProbes::name`] or [`CapacityProbes::give_up`].
    Counted,
    /// As many are under way as may be.
    Refused,
}

impl CapacityProbes {
    /// Asks for a launch in a pool.
    pub fn admit(&mut self, pool: &str, now: Timestamp) -> Admission {
        self.pools.retain(|_, probing| probing.until > now);
        let Some(probing) = self.pools.get_mut(pool) else {
            return Admission::Free;
        };
        probing.under_way.retain(|_, since| *since + RESULT_WITHIN > now);
        if probing.under_way.len() + probing.unnamed >= probing.allowed {
            return Admission::Refused;
        }
        probing.unnamed += 1;
        Admission::Counted
    }

    /// Names the claim of a launch that was counted.
    pub fn name(&mut self, pool: &str, claim: &str, now: Timestamp) {
        if let Some(probing) = self.pools.get_mut(pool) {
            probing.unnamed = probing.unnamed.saturating_sub(1);
            probing.under_way.insert(claim.to_owned(), now);
        }
    }

    /// Gives back a launch that was counted and has no claim.
    pub fn give_up(&mut self, pool: &str) {
        if let Some(probing) = self.pools.get_mut(pool) {
            probing.unnamed = probing.unnamed.saturating_sub(1);
        }
    }

    /// Notes that the launch of a claim found no capacity.
    pub fn exhausted(&mut self, pool: &str, claim: &str, now: Timestamp) {
        let until = now + FORGOTTEN_AFTER;
        let probing = self.pools.entry(pool.to_owned()).or_insert_with(|| Probing {
            allowed: PROBES,
            under_way: BTreeMap::new(),
            unnamed: 0,
            until,
        });
        probing.under_way.remove(claim);
        probing.allowed = (probing.allowed / 2).max(PROBES);
        probing.until = until;
    }

    /// Notes that a claim was launched.
    pub fn launched(&mut self, pool: &str, claim: &str) {
        let Some(probing) = self.pools.get_mut(pool) else {
            return;
        };
        probing.under_way.remove(claim);
        probing.allowed += GROWTH;
        if probing.allowed >= ENOUGH {
            self.pools.remove(pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    /// Launches as many claims as are admitted, and names them.
    fn launch(probes: &mut CapacityProbes, pool: &str, now: Timestamp) -> Vec<String> {
        let mut names = Vec::new();
        while names.len() < 1000 {
            let name = format!("{pool}-{}", names.len());
            match probes.admit(pool, now) {
                Admission::Free => {}
                Admission::Counted => probes.name(pool, &name, now),
                Admission::Refused => break,
            }
            names.push(name);
        }
        names
    }

    #[test]
    fn a_pool_without_capacity_launches_few_until_launches_succeed() {
        let mut probes = CapacityProbes::default();
        assert_eq!(
            launch(&mut probes, "a", START).len(),
            1000,
            "nothing is limited at first"
        );
        probes.exhausted("a", "a-0", START);
        let tried = launch(&mut probes, "a", START);
        assert_eq!(tried.len(), PROBES);
        assert_eq!(
            probes.admit("a", START),
            Admission::Refused,
            "while they have no result"
        );
        assert_eq!(
            launch(&mut probes, "b", START).len(),
            1000,
            "other pools are not limited"
        );
        for name in &tried {
            probes.exhausted("a", name, START);
        }
        let tried = launch(&mut probes, "a", START);
        assert_eq!(tried.len(), PROBES);
        for name in &tried {
            probes.launched("a", name);
        }
        assert_eq!(launch(&mut probes, "a", START).len(), PROBES + PROBES * GROWTH);
        for at in 0..20 {
            probes.launched("a", &format!("a-{at}"));
        }
        assert_eq!(
            launch(&mut probes, "a", START).len(),
            1000,
            "it is not limited any more"
        );
    }

    #[test]
    fn a_launch_without_claim_is_given_back_and_all_is_forgotten_in_time() {
        let mut probes = CapacityProbes::default();
        probes.exhausted("a", "x", START);
        let admitted = [(); PROBES + 1].map(|()| probes.admit("a", START));
        assert_eq!(admitted, [Admission::Counted, Admission::Counted, Admission::Refused]);
        probes.give_up("a");
        probes.give_up("a");
        assert_eq!(launch(&mut probes, "a", START).len(), PROBES);
        // Their claims were deleted by somebody: no result comes.
        let later = START + RESULT_WITHIN;
        assert_eq!(launch(&mut probes, "a", later).len(), PROBES);
        let much_later = later + FORGOTTEN_AFTER;
        assert_eq!(launch(&mut probes, "a", much_later).len(), 1000);
    }
}
