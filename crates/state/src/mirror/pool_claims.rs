//! The claims of a pool by state, and reservations under its node limit (LIF-210 to LIF-213, LIF-247).
//!
//! Each answer is computed from the claims and from what is in flight, so no order of events can leave a wrong state behind.

use super::Mirror;
use crate::convert::value;
use kerf_model::intern::sym;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The claims of one pool, by name. No claim is in two of the sets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolClaims {
    /// Claims that stay, launched or not.
    pub active: BTreeSet<Arc<str>>,
    /// Claims whose replacement is being created.
    pub pending_disruption: BTreeSet<Arc<str>>,
    /// Claims that are being deleted or that a disruption command holds.
    pub deleting: BTreeSet<Arc<str>>,
}

impl PoolClaims {
    /// How many nodes of a limit they take up.
    pub fn total(&self) -> usize {
        self.active.len() + self.pending_disruption.len() + self.deleting.len()
    }
}

impl Mirror {
    /// The claims of a pool by state. A claim that is being deleted counts as deleting even if it was never launched: it makes no node
    /// any more.
    pub fn pool_claims(&self, pool: &str) -> PoolClaims {
        let label = self.interner().intern(pool);
        let mut claims = PoolClaims::default();
        for (_, claim) in self.machines.claims.iter() {
            if value(&claim.labels, sym::NODEPOOL) != Some(label) {
                continue;
            }
            let marked = claim
                .provider_id
                .as_ref()
                .is_some_and(|id| self.in_flight.deletion_marks.contains(id));
            let set = if claim.is_going() || marked {
                &mut claims.deleting
            } else if self.in_flight.replacements.contains(&claim.uid) {
                &mut claims.pending_disruption
            } else {
                &mut claims.active
            };
            set.insert(Arc::clone(&claim.name));
        }
        claims
    }

    /// Records whether a claim's replacement is being created. Ignores a claim that is not known.
    pub fn set_pending_disruption(&mut self, claim: &str, pending: bool) {
        if let Some(facts) = self.machines.claims.named(&Arc::from(claim)) {
            self.in_flight.replacements.set(&facts.uid, pending);
        }
    }

    /// How many more claims of a pool may be reserved: as many as the limit leaves beside the claims there are and those reserved already
    /// (LIF-213); `u64::MAX` without a limit.
    pub fn room_for_claims(&self, pool: &str, limit: Option<u64>) -> u64 {
        let reserved = self.in_flight.claim_reservations.of(pool);
        limit.map_or(u64::MAX, |limit| {
            let taken = u64::try_from(self.pool_claims(pool).total()).unwrap_or(u64::MAX);
            limit.saturating_sub(taken).saturating_sub(reserved)
        })
    }

    /// Reserves up to `wanted` more claims of a pool and returns how many (LIF-213). `None` is no limit.
    pub fn reserve_claims(&mut self, pool: &str, limit: Option<u64>, wanted: u64) -> u64 {
        let granted = wanted.min(self.room_for_claims(pool, limit));
        let pool: Arc<str> = Arc::from(pool);
        self.in_flight.claim_reservations.add(pool, granted);
        granted
    }

    /// Releases up to `count` reservations: their claims were created, or will not be (LIF-247).
    pub fn release_claims(&mut self, pool: &str, count: u64) {
        self.in_flight.claim_reservations.release(pool, count);
    }
}
