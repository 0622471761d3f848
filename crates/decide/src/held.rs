//! Pods for which no machine is launched yet: while kube-scheduler still binds others (deviation at SCH-045), and while launches of their
//! NodePool find no capacity (deviation at AWS-255 and LIF-023).

use crate::inputs::Inputs;
use jiff::SignedDuration;
use kerf_model::in_flight::{InFlight, LaunchRoom};
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::plan::{Launch, Plan};
use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long a pod waits after its node became ready. kube-scheduler takes about that long for 5,000 pods on two cores (34 seconds in a
/// measured scale-up), and a pod that fits nowhere should not wait longer.
const BINDING_MAX: SignedDuration = SignedDuration::from_secs(30);
/// The same while pods are still bound to nodes that became ready since: a slow API server took 90 seconds for 5,000 pods.
const SLOW_BINDING_MAX: SignedDuration = SignedDuration::from_mins(2);
/// If the last pod was bound this long ago, no others will be: it is the longest back-off of kube-scheduler.
const BETWEEN_BINDINGS: SignedDuration = SignedDuration::from_secs(10);
/// Pods that were created longer ago wait no longer, whatever becomes of the node that is to come for them.
const WAITED_MAX: SignedDuration = SignedDuration::from_mins(5);

/// The pods that kube-scheduler may still bind to the nodes of their scale-up.
///
/// It binds the pods of a scale-up to other nodes than planned, so that some find theirs full while others have room. Which pods fit none is
/// known once all nodes are there and it has tried all pods.
pub(crate) struct BindingInProgress<'a> {
    inputs: Inputs<'a>,
    /// The NodeClaims whose nodes are still to come, or became ready a moment ago.
    claims: BTreeSet<&'a str>,
    /// The free room of all nodes that are to come or became ready within [`WAITED_MAX`], by name.
    free: BTreeMap<&'a str, Resources>,
}

impl<'a> BindingInProgress<'a> {
    pub(crate) fn of(inputs: &Inputs<'a>) -> Self {
        let nodes = inputs.snapshot.nodes.iter();
        let staying = nodes.filter(|node| node.managed && !node.marked_for_deletion);
        let ready_within = |node: &Node, span| {
            let ready_since = node.lifecycle.initialized_at;
            ready_since.is_none_or(|since| inputs.now.duration_since(since) < span)
        };
        let just_bound = |node: &Arc<Node>| {
            let bound = node.lifecycle.last_pod_event;
            ready_within(node, SLOW_BINDING_MAX)
                && bound.is_some_and(|at| inputs.now.duration_since(at) < BETWEEN_BINDINGS)
        };
        let span = if staying.clone().any(just_bound) {
            SLOW_BINDING_MAX
        } else {
            BINDING_MAX
        };
        let recent = |span| staying.clone().filter(move |node| ready_within(node, span));
        let free = recent(WAITED_MAX).map(|node| (&*node.name, node.available()));
        Self {
            inputs: *inputs,
            claims: recent(span).filter_map(|node| node.claim_name.as_deref()).collect(),
            free: free.collect(),
        }
    }

    fn concerns(&self, pod: &Pod) -> bool {
        let Inputs { in_flight, now, .. } = self.inputs;
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        pod.node_name.is_none()
            && now.duration_since(pod.created) < WAITED_MAX
            && in_flight
                .planned
                .get(&key)
                .is_some_and(|claim| self.claims.contains(&**claim))
    }

    /// Whether kube-scheduler may still bind some of these pods.
    pub(crate) fn concerns_any(&self, pods: &[Arc<Pod>]) -> bool {
        pods.iter().any(|pod| self.concerns(pod))
    }

    /// Whether some of these pods wait though a plan has room for them on existing nodes.
    pub(crate) fn goes_on(&self, plan: &Plan) -> bool {
        let mut in_place = plan.existing.iter().flat_map(|placement| &placement.pods);
        in_place.any(|pod| self.concerns(pod))
    }

    /// Those of these pods for which a plan launches machines.
    pub(crate) fn launched(&self, plan: &Plan) -> Vec<Arc<Pod>> {
        let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
        launched.filter(|pod| self.concerns(pod)).cloned().collect()
    }

    /// The room that a plan leaves on their nodes.
    pub(crate) fn room_beside(&self, plan: &Plan) -> RoomInSum {
        let mut free = self.free.clone();
        for placement in &plan.existing {
            if let Some(free) = free.get_mut(&*placement.node) {
                placement.pods.iter().for_each(|pod| free.subtract(&pod.shape.requests));
            }
        }
        let mut sum = Resources::new();
        for (name, amount) in free.values().flat_map(Resources::iter) {
            sum.set(name, sum.get(name).saturating_add(amount.max(0)));
        }
        RoomInSum(sum)
    }

    /// Removes from a plan the launches whose pods kube-scheduler may all still bind and for which there is room in sum, and returns these pods.
    pub(crate) fn take_launches(&self, plan: &mut Plan, room: &mut RoomInSum) -> Vec<Arc<Pod>> {
        let may_be_bound = |launch: &mut Launch| launch.pods.iter().all(|pod| self.concerns(pod));
        let taken = plan
            .launches
            .extract_if(.., |launch| may_be_bound(launch) && room.take(&launch.pods));
        taken.flat_map(|launch| launch.pods).collect()
    }
}

/// The free room of nodes in sum, without that of pods which are held for it. A pod for which it is not enough is not held: pods that were created
/// later took its room.
pub(crate) struct RoomInSum(Resources);

impl RoomInSum {
    /// The room without that of these pods.
    pub(crate) fn without(mut self, pods: &[Arc<Pod>]) -> Self {
        pods.iter().for_each(|pod| self.0.subtract(&pod.shape.requests));
        self
    }

    /// Takes the room of these pods if there is enough for all.
    fn take(&mut self, pods: &[Arc<Pod>]) -> bool {
        let mut requested = Resources::new();
        pods.iter().for_each(|pod| requested.add(&pod.shape.requests));
        let fits = requested.fits(&self.0);
        if fits {
            self.0.subtract(&requested);
        }
        fits
    }

    /// Takes the room of as many of these pods as it can hold, small ones first: they fit into room that is scattered over many nodes.
    pub(crate) fn take_smallest(&mut self, mut pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        let size = |pod: &Arc<Pod>| {
            let requests = &pod.shape.requests;
            (requests.get(sym::CPU), requests.get(sym::MEMORY))
        };
        pods.sort_by_key(size);
        pods.retain(|pod| self.take(std::slice::from_ref(pod)));
        pods
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use jiff::Timestamp;
    use kerf_model::intern::Interner;
    use kerf_model::plan::Placement;
    use kerf_model::pod::PodShape;
    use kerf_model::snapshot::Snapshot;

    fn of_cpu(name: &str, cpu: i64) -> Arc<Pod> {
        let shape = PodShape {
            requests: Resources::new().with(sym::CPU, cpu),
            ..PodShape::default()
        };
        Arc::new(Pod {
            shape: Arc::new(shape),
            ..Pod::new("ns", name)
        })
    }

    // SCH-045 as docs/deviations.md has it
    #[test]
    fn room_is_what_plan_and_held_pods_leave_also_on_machines_that_are_not_launched() {
        let mut snapshot = Snapshot::new(Arc::new(Interner::default()));
        for name in ["a-1", "a-2"] {
            let mut node = Node::empty(name.into(), sym::HOSTNAME);
            (node.managed, node.claim_name) = (true, Some(name.into()));
            node.allocatable = Resources::new().with(sym::CPU, 1000);
            node.requested = Resources::new().with(sym::CPU, 400);
            snapshot.nodes.push(Arc::new(node));
        }
        let inputs = Inputs {
            snapshot: &Arc::new(snapshot),
            in_flight: &InFlight::default(),
            settings: &Settings::default(),
            now: Timestamp::UNIX_EPOCH,
        };
        let placement = Placement {
            node: "a-1".into(),
            pods: vec![of_cpu("placed", 300)],
        };
        let plan = Plan {
            existing: vec![placement],
            ..Plan::default()
        };
        let binding = BindingInProgress::of(&inputs);
        let pods = vec![of_cpu("large", 600), of_cpu("small", 400)];
        let names = |pods: Vec<Arc<Pod>>| pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>();
        // Of 1,200 free, 300 are taken by the plan.
        assert_eq!(names(binding.room_beside(&plan).take_smallest(pods.clone())), ["small"]);
        assert_eq!(
            names(binding.room_beside(&Plan::default()).take_smallest(pods.clone())),
            ["small", "large"]
        );
        let mut rest = binding.room_beside(&plan).without(&[of_cpu("held", 501)]);
        assert!(names(rest.take_smallest(pods)).is_empty(), "399 are left");
    }
}
