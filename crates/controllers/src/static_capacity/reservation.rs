//! Room under a pool's node limit that is spoken for (LIF-213).

use kerf_api::NodePool;

use crate::cluster::Cluster;

/// Claims of a pool that may be created. What is not used is given back when this is dropped, so that no failure on the way to the API
/// server can leave room locked up.
#[derive(Debug)]
pub(crate) struct Reservation {
    cluster: Cluster,
    pool: String,
    left: u64,
}

impl Reservation {
    /// Reserves up to `wanted` claims, as many as the pool's limit leaves; `None` when it leaves nothing.
    pub(crate) fn take(cluster: &Cluster, pool: &str, limit: Option<u64>, wanted: u64) -> Option<Self> {
        let left = cluster.reserve_claims(pool, limit, wanted);
        (left > 0).then(|| Self {
            cluster: cluster.clone(),
            pool: pool.to_owned(),
            left,
        })
    }

    /// How many claims may still be created.
    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    /// Splits one claim's room off; `None` when nothing is left.
    pub(crate) fn split(&mut self) -> Option<Self> {
        self.left = self.left.checked_sub(1)?;
        Some(Self {
            cluster: self.cluster.clone(),
            pool: self.pool.clone(),
            left: 1,
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.cluster.release_claims(&self.pool, self.left);
    }
}

/// The most nodes a pool may have; a limit that cannot be a count allows none.
pub(crate) fn node_limit(pool: &NodePool) -> Option<u64> {
    let limit = pool.spec.limits.get("nodes")?;
    Some(u64::try_from(limit.units_floor()).unwrap_or(0))
}
