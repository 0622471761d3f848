//! The rank of finished plans under the packing that is configured, for callers that have several plans for the same pods.

use crate::options::Options;
use kerf_model::nodepool::NodePool;
use kerf_model::plan::{Launch, Plan};
use kerf_model::price::Price;
use kerf_units::policy::Packing;
use std::sync::Arc;

/// The order of plans for the same pods; the smaller is better. In order: pods left over, price per hour plus what the nodes cost
/// besides it, number of nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PlanRank {
    left_over: usize,
    cost: Price,
    nodes: usize,
}

impl PlanRank {
    /// The rank of a plan for a snapshot with these pools. A node of a pool with balanced packing costs its node overhead besides its price.
    pub fn new(plan: &Plan, pools: &[Arc<NodePool>], options: &Options) -> Self {
        let costs = plan.launches.iter().map(|launch| {
            let pool = pools.iter().find(|pool| pool.name == launch.pool);
            let overhead = pool.map_or(Price::ZERO, |pool| node_overhead(pool, options));
            launch_price(launch) + overhead
        });
        Self {
            left_over: plan.left_over(),
            cost: costs.sum(),
            nodes: plan.launches.len(),
        }
    }
}

/// The price of a launch, zero where no offering is known.
fn launch_price(launch: &Launch) -> Price {
    launch.price().unwrap_or(Price::ZERO)
}

/// What a node of a pool costs besides its price, per hour. Only balanced packing counts it.
pub(crate) fn node_overhead(pool: &NodePool, options: &Options) -> Price {
    overhead_in(pool, pool.packing.packing.unwrap_or(options.packing), options)
}

/// What a node of a pool costs besides its price, per hour, if the pool is packed in this way.
pub(crate) fn overhead_in(pool: &NodePool, packing: Packing, options: &Options) -> Price {
    match packing {
        Packing::Balanced => Price::from_pico(pool.packing.node_overhead.unwrap_or(options.node_overhead).pico()),
        Packing::Cheapest | Packing::Upstream => Price::ZERO,
    }
}
