//! Nodes on which something happened too recently (DIS-104, DIS-105, DIS-121).

use jiff::Timestamp;
use kerf_model::snapshot::Snapshot;
use kerf_units::duration::GoDuration;
use kerf_units::policy::Destinations;
use std::collections::BTreeMap;

/// When a machine has been left alone for `after`: counted from its last pod event, else from its initialisation. `None` while it is not
/// initialised.
pub fn settles_at(
    initialized_at: Option<Timestamp>,
    last_pod_event: Option<Timestamp>,
    after: GoDuration,
) -> Option<Timestamp> {
    let since = last_pod_event.unwrap_or(initialized_at?);
    initialized_at?;
    Some(since.checked_add(after.to_signed()).unwrap_or(Timestamp::MAX))
}

/// Indices of the nodes that are closed to pods that move by choice.
pub fn closed(destinations: Destinations, snapshot: &Snapshot, now: Timestamp) -> Vec<usize> {
    match destinations {
        Destinations::Settled => settling_nodes(snapshot, now),
        Destinations::Any => Vec::new(),
    }
}

/// Indices of the nodes still inside their pool's `consolidateAfter`: consolidation moves no pod there. `Never` and `0s` never keep pods
/// away.
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
