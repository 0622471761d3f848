//! Claims that may still be created under a pool's node limit (LIF-213, LIF-247). A reservation closes the gap between the decision to create
//! a claim and the moment the claim is known.

use std::collections::BTreeMap;
use std::sync::Arc;

/// How many claims are reserved, by pool; a pool without reservations has no entry.
#[derive(Default, Debug)]
pub(crate) struct ClaimReservations(BTreeMap<Arc<str>, u64>);

impl ClaimReservations {
    /// How many claims of a pool are reserved.
    pub(crate) fn of(&self, pool: &str) -> u64 {
        self.0.get(pool).copied().unwrap_or(0)
    }

    /// Reserves more claims of a pool.
    pub(crate) fn add(&mut self, pool: Arc<str>, count: u64) {
        if count > 0 {
            let reserved = self.0.entry(pool).or_insert(0);
            *reserved = reserved.saturating_add(count);
        }
    }

    /// Releases up to `count` reservations of a pool.
    pub(crate) fn release(&mut self, pool: &str, count: u64) {
        let Some(reserved) = self.0.get_mut(pool) else { return };
        *reserved = reserved.saturating_sub(count);
        if *reserved == 0 {
            self.0.remove(pool);
        }
    }
}
