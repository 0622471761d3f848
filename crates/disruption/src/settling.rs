//! Nodes whose last pod event is more recent than their pool's `consolidateAfter` (DIS-104, DIS-105, DIS-121).

use jiff::Timestamp;
use kerf_model::snapshot::Snapshot;
use kerf_units::duration::GoDuration;
use kerf_units::policy::Destinations;
use std::collections::BTreeMap;

/// The time at which a machine has had no pod event for `after`, counted from its last pod event, else from its initialization. `None` if it
/// is not initialized.
pub fn settles_at(
    initialized_at: Option<Timestamp>,
    last_pod_event: Option<Timestamp>,
    after: GoDuration,
) -> Option<Timestamp> {
    let since = last_pod_event.unwrap_or(initialized_at?);
    initialized_at?;
    Some(since.checked_add(after.to_signed()).unwrap_or(Timestamp::MAX))
}

/// Indices of the nodes to which consolidation moves no pod.
pub fn closed(destinations: Destinations, snapshot: &Snapshot, now: Timestamp) -> Vec<usize> {
    match destinations {
        Destinations::Settled => settling_nodes(snapshot, now),
        Destinations::Any => Vec::new(),
    }
}

/// Indices of the nodes still inside their pool's `consolidateAfter`. `Never` and `0s` exclude no node.
pub fn settling_nodes(snapshot: &Snapshot, now: Timestamp) -> Vec<usize> {
    let waits = |pool: &kerf_model::nodepool::NodePool| {
        pool.disruption
            .consolidate_after
            .filter(|after| *after > GoDuration::ZERO)
    };
    let after: BTreeMap<_, _> = snapshot
        .pools
        .iter()
        .filter_map(|pool| Some((pool.label, waits(pool)?)))
        .collect();
    let settling = |(index, node): (usize, &std::sync::Arc<kerf_model::node::Node>)| {
        let after = node.managed.then_some(node.pool?).and_then(|pool| after.get(&pool))?;
        let at = settles_at(node.lifecycle.initialized_at, node.lifecycle.last_pod_event, *after)?;
        (now < at).then_some(index)
    };
    snapshot.nodes.iter().enumerate().filter_map(settling).collect()
}
