//! Reserved room under a pool's node limit (LIF-213).

use crate::cluster::Cluster;

/// Claims of a pool that may be created. Dropping it releases what was not used, so a failed creation cannot leave room reserved.
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

    /// Splits off the room of one claim; `None` when nothing is left.
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
