//! Pools with a fixed number of nodes (`spec.replicas`, behind the gate `StaticCapacity`).
//!
//! - [`StaticProvisioning`] creates claims until there are as many as `spec.replicas`, within the pool's node limit.
//! - [`StaticDeprovisioning`] deletes excess claims in the order of [`kerf_lifecycle::deletion_order`].
//! - [`kerf_lifecycle::static_replicas`] says how many are missing or too many.
//! - Drift replaces nodes one for one; see the module `disruption`. It reserves room under the limit with the same [`Reservation`]s.
//!
//! Claims are counted in the API server, so no state has to survive a restart.

mod backoff;
mod deprovisioning;
#[cfg(test)]
mod fixture;
mod provisioning;
mod reservation;

pub(crate) use deprovisioning::StaticDeprovisioning;
pub(crate) use provisioning::StaticProvisioning;
pub(crate) use reservation::Reservation;

use kerf_api::{NodeClaim, labels};
use kube::Api;
use kube::api::ListParams;

use crate::context::Context;

/// The claims of a pool as the API server has them now.
async fn list_claims(context: &Context, pool: &str) -> Result<Vec<NodeClaim>, kube::Error> {
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    let of_pool = ListParams::default().labels(&format!("{}={pool}", labels::NODE_POOL));
    Ok(api.list(&of_pool).await?.items)
}
