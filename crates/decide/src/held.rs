//! Pods for which no machine is launched while kube-scheduler still binds others (deviation at SCH-045).

use crate::inputs::Inputs;
use jiff::SignedDuration;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_scheduler::PinnedPlacements;
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
