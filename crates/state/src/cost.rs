//! What pools cost now (section 18 of the lifecycle contract).

use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sum of the prices of each pool's claims, by pool name (LIF-217, LIF-219, LIF-221). A claim counts once its labels say what it is
/// (LIF-218); one whose offering no catalogue knows counts nothing. Prices are those of the catalogues now: unlike upstream, a change
/// does not wait for an hourly refresh.
pub fn pool_costs(snapshot: &Snapshot) -> BTreeMap<Arc<str>, Price> {
    let mut costs = BTreeMap::new();
    let known = |node: &&Arc<Node>| {
        let keys = [sym::INSTANCE_TYPE, sym::CAPACITY_TYPE, sym::ZONE];
        node.managed && node.provider_id.is_some() && keys.iter().all(|key| node.label(*key).is_some())
    };
    for node in snapshot.nodes.iter().filter(known) {
        let Some(pool) = node.pool else { continue };
        let cost = costs.entry(snapshot.interner.shared(pool)).or_insert(Price::ZERO);
        *cost = *cost + node.price.unwrap_or(Price::ZERO);
    }
    costs
}
