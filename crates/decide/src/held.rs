//! Pods for which no machine is launched yet: while kube-scheduler still binds others (deviation at SCH-045), and while launches of their
//! NodePool find no capacity (deviation at AWS-255 and LIF-023).

use crate::inputs::Inputs;
use jiff::SignedDuration;
use kerf_model::in_flight::InFlight;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_scheduler::PinnedPlacements;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a pod waits after its node became ready. kube-scheduler takes about that long for 5,000 pods on two cores (34 seconds in a
/// measured scale-up), and a pod that fits nowhere should not wait longer.
const BINDING_MAX: SignedDuration = SignedDuration::from_secs(30);

/// The pods for which a plan launches machines though they were planned onto nodes that kube-scheduler still binds pods to. It binds the pods
/// of a scale-up to other nodes than planned, so that some find theirs full while others have room. Which pods fit none is known once it has
/// tried all of them.
pub(crate) fn held_pods(inputs: &Inputs<'_>, plan: &Plan, planned: &PinnedPlacements) -> Vec<Arc<Pod>> {
    let awaits_binding = |pod: &&Arc<Pod>| {
        let node = planned.get(&(Arc::clone(&pod.namespace), Arc::clone(&pod.name)));
        let node = node.filter(|_| pod.node_name.is_none());
        let ready_since = node.and_then(|node| inputs.snapshot.node(node)?.lifecycle.initialized_at);
        ready_since.is_some_and(|since| inputs.now.duration_since(since) < BINDING_MAX)
    };
    let mut in_place = plan.existing.iter().flat_map(|placement| &placement.pods);
    if !in_place.any(|pod| awaits_binding(&pod)) {
        return Vec::new();
    }
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    launched.filter(awaits_binding).cloned().collect()
}

/// Removes from a plan the launches beyond what their NodePools may launch now, and returns their pods (deviation at AWS-255 and LIF-023).
///
/// After each failure another launch of the pool is the first to stay. So pods for which there is no capacity do not keep others waiting.
pub(crate) fn held_launches(in_flight: &InFlight, plan: &mut Plan) -> Vec<Arc<Pod>> {
    let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for launch in &plan.launches {
        *counts.entry(Arc::clone(&launch.pool)).or_default() += 1;
    }
    let mut seen: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    let mut held = Vec::new();
    plan.launches.retain(|launch| {
        let Some(room) = in_flight.launch_room.get(&launch.pool) else {
            return true;
        };
        let count = counts.get(&launch.pool).copied().unwrap_or(1);
        let at = seen.entry(Arc::clone(&launch.pool)).or_default();
        let first = usize::try_from(room.failures).unwrap_or(0) % count;
        let stays = (*at + count - first) % count < room.claims;
        *at += 1;
        if !stays {
            held.extend(launch.pods.iter().cloned());
        }
        stays
    });
    held
}
