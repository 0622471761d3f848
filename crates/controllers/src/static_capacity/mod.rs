//! Pools with a fixed number of nodes (`spec.replicas`, behind the gate `StaticCapacity`; section 16 of the lifecycle contract, section
//! 26 of the scheduling contract).
//!
//! - [`StaticProvisioning`] creates claims until there are as many as asked for, never more than the pool's node limit.
//! - [`StaticDeprovisioning`] deletes what is too much, the cheapest to lose first.
//! - Drift replaces nodes one for one; see the module `disruption`. It takes its room under the limit from the same [`Reservation`]s.
//!
//! The count is that of the claims in the API server; nothing here survives a restart and nothing needs to.

mod backoff;
mod deprovisioning;
mod provisioning;
mod reservation;
mod victims;

pub(crate) use deprovisioning::StaticDeprovisioning;
pub(crate) use provisioning::StaticProvisioning;
pub(crate) use reservation::Reservation;

use kerf_api::{NodeClaim, NodePool, labels};
use kube::Api;
use kube::api::ListParams;

use crate::context::Context;

/// The number of nodes a pool is to have; `None` for pools whose nodes follow their pods.
pub(crate) fn replicas(pool: &NodePool) -> Option<u64> {
    pool.spec.replicas.map(|replicas| u64::try_from(replicas).unwrap_or(0))
}

/// The claims of a pool as the API server has them now, whatever the watch has shown.
async fn list_claims(context: &Context, pool: &str) -> Result<Vec<NodeClaim>, kube::Error> {
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    let of_pool = ListParams::default().labels(&format!("{}={pool}", labels::NODE_POOL));
    Ok(api.list(&of_pool).await?.items)
}
