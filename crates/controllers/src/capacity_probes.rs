//! Few launches at a time in a pool whose launches find no capacity.
//!
//! A plan for many pods has many claims. While a cloud has nothing left, all of them would fail, and their pods would be planned onto as many
//! claims of the next offerings, again and again. Few launches find out as much about the offerings as many do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Launches at a time after one found no capacity: a second one tries another size of machine.
const PROBES: usize = 2;
/// So many more may be under way for each that succeeds: a few seconds after capacity is back, a large scale-up is no longer slowed.
const GROWTH: usize = 4;
/// With so many at a time the pool is not limited any more.
const ENOUGH: usize = 64;
/// A pool is not limited any more if no launch found too little for so long: offerings without capacity are tried again after this time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(180);
/// A launch without result counts no longer than this.
const RESULT_WITHIN: Duration = Duration::from_secs(60);

/// The pools that are limited, by name. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapacityProbes(Arc<Mutex<BTreeMap<String, Probing>>>);

#[derive(Debug)]
struct Probing {
    allowed: usize,
    /// Claims without result, and since when.
    under_way: BTreeMap<String, Instant>,
    /// Permits whose claim has no name yet.
    unnamed: usize,
    until: Instant,
}

/// Allows one launch. Dropping it without a claim gives it back.
#[must_use = "the launch is not counted when this is dropped"]
pub(crate) struct Permit {
    probes: CapacityProbes,
    /// The pool; `None` if it is not limited.
    pool: Option<String>,
}

impl CapacityProbes {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Probing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Permits a launch in a pool, unless as many are under way as may be.
    pub(crate) fn permit(&self, pool: &str) -> Option<Permit> {
        let now = Instant::now();
        let mut pools = self.locked();
        pools.retain(|_, probing| probing.until > now);
        let limited = match pools.get_mut(pool) {
            None => None,
            Some(probing) => {
                probing.under_way.retain(|_, since| *since + RESULT_WITHIN > now);
                if probing.under_way.len() + probing.unnamed >= probing.allowed {
                    return None;
                }
                probing.unnamed += 1;
                Some(pool.to_owned())
            }
        };
        Some(Permit {
            probes: self.clone(),
            pool: limited,
        })
    }

    /// Notes that the launch of a claim found no capacity.
    pub(crate) fn exhausted(&self, pool: &str, claim: &str) {
        let mut pools = self.locked();
        let until = Instant::now() + FORGOTTEN_AFTER;
        let probing = pools.entry(pool.to_owned()).or_insert_with(|| Probing {
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
    pub(crate) fn launched(&self, pool: &str, claim: &str) {
        let mut pools = self.locked();
        let Some(probing) = pools.get_mut(pool) else { return };
        probing.under_way.remove(claim);
        probing.allowed += GROWTH;
        if probing.allowed >= ENOUGH {
            pools.remove(pool);
        }
    }
}

impl Permit {
    /// Uses the permit for a claim.
    pub(crate) fn used_by(self, claim: &str) {
        let Some(pool) = &self.pool else { return };
        if let Some(probing) = self.probes.locked().get_mut(pool) {
            probing.under_way.insert(claim.to_owned(), Instant::now());
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        if let Some(probing) = self.probes.locked().get_mut(pool) {
            probing.unnamed = probing.unnamed.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launches as many claims as are permitted, and names them.
    fn launch(probes: &CapacityProbes, pool: &str) -> Vec<String> {
        let mut names = Vec::new();
        while names.len() < 1000
            && let Some(permit) = probes.permit(pool)
        {
            let name = format!("{pool}-{}", names.len());
            permit.used_by(&name);
            names.push(name);
        }
        names
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_without_capacity_launches_few_until_launches_succeed() {
        let probes = CapacityProbes::default();
        assert_eq!(launch(&probes, "a").len(), 1000, "nothing is limited at first");
        probes.exhausted("a", "a-0");
        let tried = launch(&probes, "a");
        assert_eq!(tried.len(), PROBES);
        assert!(launch(&probes, "a").is_empty(), "none while they have no result");
        assert_eq!(launch(&probes, "b").len(), 1000, "other pools are not limited");
        for name in &tried {
            probes.exhausted("a", name);
        }
        let tried = launch(&probes, "a");
        assert_eq!(tried.len(), PROBES);
        for name in &tried {
            probes.launched("a", name);
        }
        assert_eq!(launch(&probes, "a").len(), PROBES + PROBES * GROWTH);
        for at in 0..20 {
            probes.launched("a", &format!("a-{at}"));
        }
        assert_eq!(launch(&probes, "a").len(), 1000, "it is not limited any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_without_claim_is_given_back_and_all_is_forgotten_in_time() {
        let probes = CapacityProbes::default();
        probes.exhausted("a", "x");
        let permits = [probes.permit("a"), probes.permit("a")];
        assert!(permits.iter().all(Option::is_some) && probes.permit("a").is_none());
        drop(permits);
        assert_eq!(launch(&probes, "a").len(), PROBES);
        // Their claims were deleted by somebody: no result comes.
        tokio::time::advance(RESULT_WITHIN).await;
        assert_eq!(launch(&probes, "a").len(), PROBES);
        tokio::time::advance(FORGOTTEN_AFTER).await;
        assert_eq!(launch(&probes, "a").len(), 1000);
    }
}
