//! Where the passes before put pods that are not there yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_model::node::Node;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::PinnedPlacements;
use kerf_state::PodTimes;

fn is_coming(node: &Node) -> bool {
    node.managed && !node.initialized && !node.marked_for_deletion && node.provider_id.is_some()
}

/// Reads from memory where pods were planned that are not there yet.
pub(super) fn planned(snapshot: &Snapshot, pods: &[Arc<Pod>], times: &PodTimes) -> PinnedPlacements {
    let coming: BTreeMap<&str, &Arc<str>> = snapshot
        .nodes
        .iter()
        .filter(|node| is_coming(node))
        .filter_map(|node| Some((node.claim_name.as_deref()?, &node.name)))
        .collect();
    if coming.is_empty() {
        return PinnedPlacements::new();
    }
    let place = |pod: &Arc<Pod>| {
        let claim = times.get(&pod.namespace, &pod.name)?.claim.as_deref()?;
        let machine = coming.get(claim)?;
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        Some((key, Arc::clone(machine)))
    };
    pods.iter().filter_map(place).collect()
}
