//! Pods for which no machine is launched yet: while kube-scheduler still binds others (deviation at SCH-045), and while launches of their
//! NodePool find no capacity (deviation at AWS-255 and LIF-023).

use crate::inputs::Inputs;
use jiff::SignedDuration;
use kerf_model::in_flight::{InFlight, LaunchRoom};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_scheduler::PinnedPlacements;
use std::collections::{BTreeMap, BTreeSet};
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
    let mut limited: BTreeMap<Arc<str>, (LaunchRoom, Vec<usize>)> = BTreeMap::new();
    for (at, launch) in plan.launches.iter().enumerate() {
        if let Some(room) = in_flight.launch_room.get(&launch.pool) {
            let (_, launches) = limited.entry(Arc::clone(&launch.pool)).or_insert((*room, Vec::new()));
            launches.push(at);
        }
    }
    let mut held = BTreeSet::new();
    for (room, mut launches) in limited.into_values() {
        let first = usize::try_from(room.failures).unwrap_or(0) % launches.len();
        launches.rotate_left(first);
        held.extend(launches.into_iter().skip(room.claims));
    }
    let mut pods = Vec::new();
    for (at, launch) in std::mem::take(&mut plan.launches).into_iter().enumerate() {
        if held.contains(&at) {
            pods.extend(launch.pods);
        } else {
            plan.launches.push(launch);
        }
    }
    pods
}
