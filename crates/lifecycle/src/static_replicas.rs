//! How many claims a pool with a fixed number of nodes lacks or has too many (LIF-169 to LIF-171, LIF-175). [`crate::deletion_order`] says
//! which ones go.

/// The claims of a pool, counted by state. A claim that is being deleted counts nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClaimCounts {
    /// Claims that stay, launched or not.
    pub active: usize,
    /// Claims whose replacement is being created.
    pub pending_disruption: usize,
}

/// How many claims to create so that the pool has `replicas`, apart from its node limit. For those pending disruption a replacement is being
/// created (SCH-400).
pub fn missing(replicas: u64, claims: ClaimCounts) -> u64 {
    let there = count(claims.active).saturating_add(count(claims.pending_disruption));
    replicas.saturating_sub(there)
}

/// How many of the `active` claims that the cache has are more than `replicas`.
pub fn excess(replicas: u64, active: usize) -> usize {
    active.saturating_sub(usize::try_from(replicas).unwrap_or(usize::MAX))
}

/// How many of an `excess` of the `active` claims to delete. `stored` is the number of claims that the API server has and is not deleting: a claim
/// that only the cache still has counts as deleted already, and no other goes in its place.
pub fn excess_to_delete(excess: usize, active: usize, stored: usize) -> usize {
    let only_cached = active.saturating_sub(stored);
    excess.saturating_sub(only_cached)
}

fn count(claims: usize) -> u64 {
    u64::try_from(claims).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // LIF-169, LIF-171, SCH-398, SCH-400
    #[test]
    fn a_claim_that_is_being_replaced_is_not_missing() {
        for (replicas, active, pending_disruption, wanted) in [
            (0, 0, 0, 0),
            (3, 0, 0, 3),
            (4, 3, 0, 1),
            (4, 2, 1, 1),
            (4, 1, 1, 2),
            (3, 2, 1, 0),
            (3, 3, 1, 0),
            (3, 9, 0, 0),
            (u64::MAX, 0, 0, u64::MAX),
        ] {
            let claims = ClaimCounts {
                active,
                pending_disruption,
            };
            assert_eq!(missing(replicas, claims), wanted, "{replicas} of {claims:?}");
        }
    }

    // LIF-175, SCH-403
    #[test]
    fn no_claim_goes_for_one_that_only_the_cache_still_has() {
        for (replicas, active, stored, wanted) in [
            (0, 0, 0, 0),
            (0, 2, 2, 2),
            (2, 3, 3, 1),
            (2, 3, 2, 0),
            (2, 5, 4, 2),
            (2, 3, 1, 0),
            // Claims that the cache lacks, or that are pending disruption.
            (2, 3, 9, 1),
            (2, 2, 9, 0),
            (u64::MAX, 3, 3, 0),
        ] {
            assert_eq!(
                excess_to_delete(excess(replicas, active), active, stored),
                wanted,
                "{replicas} of {active}, {stored} stored"
            );
        }
    }
}
