//! Pinned placements: the same decision with pods kept on the nodes that earlier passes chose for them.
//!
//! Between the launch of a node and the binding of its pods, every pass places these pods again. A pass that sees additional pods may swap
//! them, so that fewer of them fit the nodes that are coming up, and one node too many is launched. A plan that launches, or leaves pods
//! over, is therefore compared with the plan that pins those pods, and the better plan is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_model::plan::{Placement, Plan};
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;

/// The node each pod was placed on by an earlier pass: pods by namespace and name, nodes by name.
pub type PinnedPlacements = BTreeMap<(Arc<str>, Arc<str>), Arc<str>>;

/// A snapshot in which some pods are pinned to nodes, and the pods still to be placed.
#[derive(Debug)]
pub struct PinnedRequest {
    /// The cluster with the pinned pods on their nodes.
    pub snapshot: Snapshot,
    /// The pods that are not pinned.
    pub rest: Vec<Arc<Pod>>,
    /// The pinned pods, by node.
    placements: BTreeMap<Arc<str>, Vec<Arc<Pod>>>,
}

/// The key of a pod in [`PinnedPlacements`].
fn key(pod: &Arc<Pod>) -> (Arc<str>, Arc<str>) {
    (Arc::clone(&pod.namespace), Arc::clone(&pod.name))
}

impl PinnedRequest {
    /// Pins those of `pods` that still fit their node. Returns `None` where no pod is pinned.
    pub fn new(snapshot: &Snapshot, pods: &[Arc<Pod>], placements: &PinnedPlacements) -> Option<Self> {
        if placements.is_empty() {
            return None;
        }
        let mut request = Self {
            snapshot: snapshot.clone(),
            rest: Vec::with_capacity(pods.len()),
            placements: BTreeMap::new(),
        };
        for pod in pods {
            let node = placements.get(&key(pod));
            match node.filter(|node| request.pin(pod, node)) {
                Some(node) => request
                    .placements
                    .entry(Arc::clone(node))
                    .or_default()
                    .push(Arc::clone(pod)),
                None => request.rest.push(Arc::clone(pod)),
            }
        }
        let left: BTreeSet<_> = request.rest.iter().map(key).collect();
        for waiting in [&mut request.snapshot.pending, &mut request.snapshot.untried] {
            waiting.retain(|pod| left.contains(&key(pod)));
        }
        (!request.placements.is_empty()).then_some(request)
    }

    /// Pins a pod to a node of the snapshot. Returns whether the node has room for it.
    fn pin(&mut self, pod: &Arc<Pod>, node: &str) -> bool {
        let Some(node) = self
            .snapshot
            .position(node)
            .and_then(|at| self.snapshot.nodes.get_mut(at))
        else {
            return false;
        };
        let mut requested = node.requested.clone();
        requested.add(&pod.shape.requests);
        if !requested.fits(&node.allocatable) {
            return false;
        }
        let node = Arc::make_mut(node);
        node.requested = requested;
        node.pods.push(Arc::clone(pod));
        self.remove_from_old_node(pod);
        true
    }

    /// Removes a pod that moves from the node it leaves.
    fn remove_from_old_node(&mut self, pod: &Arc<Pod>) {
        let left = pod.node_name.as_deref();
        let Some(node) = left
            .and_then(|left| self.snapshot.position(left))
            .and_then(|at| self.snapshot.nodes.get_mut(at))
        else {
            return;
        };
        let node = Arc::make_mut(node);
        node.pods.retain(|other| other.uid != pod.uid);
        node.requested.subtract(&pod.shape.requests);
    }

    /// Completes a plan for the other pods with the pinned placements.
    pub fn complete(self, mut rest: Plan) -> Plan {
        for (node, mut pods) in self.placements {
            match rest.existing.binary_search_by(|placement| placement.node.cmp(&node)) {
                Ok(at) => {
                    if let Some(placement) = rest.existing.get_mut(at) {
                        pods.append(&mut placement.pods);
                        placement.pods = pods;
                    }
                }
                Err(at) => rest.existing.insert(at, Placement { node, pods }),
            }
        }
        // The order covers only the pods that were not pinned.
        rest.order.clear();
        rest
    }
}
