//! The present cost of a pool (section 18 of `docs/behaviour/lifecycle.md`).

use kerf_model::intern::sym;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

/// The cost of the machines of one pool per hour.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolCost {
    /// The sum of the prices of its claims.
    pub price: Price,
    /// The machines no catalogue has a price for, by name; they count nothing.
    pub unpriced: Vec<Arc<str>>,
}

/// The cost of a pool's claims (LIF-217, LIF-219, LIF-221). A claim counts once its labels say what it is (LIF-218). Prices are those of
/// the catalogues now: unlike upstream, a change does not wait for an hourly refresh.
pub fn pool_cost(snapshot: &Snapshot, pool: &str) -> PoolCost {
    let mut cost = PoolCost::default();
    let Some(label) = snapshot.interner.get(pool) else {
        return cost;
    };
    let keys = [sym::INSTANCE_TYPE, sym::CAPACITY_TYPE, sym::ZONE];
    let machines = snapshot.nodes.iter().filter(|node| {
        let is_claimed = node.managed && node.provider_id.is_some() && node.pool == Some(label);
        is_claimed && keys.iter().all(|key| node.label(*key).is_some())
    });
    for node in machines {
        match node.price {
            Some(price) => cost.price = cost.price + price,
            None => cost.unpriced.push(Arc::clone(&node.name)),
        }
    }
    cost
}
