//! The cluster as it will be once every machine of a plan is ready and empty.

use kerf_model::node::Node;
use kerf_model::plan::Launch;
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

/// The snapshot with the launches as nodes, which come after all others and in the order of the launches. `None` where the cheapest offering
/// of a launch is not known.
pub(super) fn with_machines(snapshot: &Snapshot, launches: &[Launch]) -> Option<Snapshot> {
    let mut after = snapshot.clone();
    for (number, launch) in launches.iter().enumerate() {
        let node = machine(&mut after, launch, number)?;
        after.nodes.push(Arc::new(node));
    }
    Some(after)
}

/// A launch as a node without pods, of its cheapest type. Its capacity counts against the limits of its pool.
fn machine(snapshot: &mut Snapshot, launch: &Launch, number: usize) -> Option<Node> {
    let interner = Arc::clone(&snapshot.interner);
    let pool = snapshot.pools.iter_mut().find(|pool| pool.name == launch.pool)?;
    // No name of a node has a tilde, so the machines come last.
    let node = launch.cheapest_node(pool, format!("~{number:08}").into(), &interner)?;
    if pool.limits.is_some() {
        Arc::make_mut(pool).usage.add(&node.capacity);
    }
    Some(node)
}
