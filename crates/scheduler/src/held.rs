//! A second opinion before machines are asked for: the same decision with pods held where the passes before put them.
//!
//! From the launch of a machine until its pods are bound, every pass places them anew. One that sees other pods beside them may let them
//! trade places so that fewer fit the machines on their way: one too many is asked for, now or, where nothing can be launched at the moment,
//! later. So a plan that launches, or leaves pods over, is compared with the plan that trades nothing, and the better one is carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_model::plan::{Placement, Plan};
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;

/// Onto which machine on its way each pod was planned before: pods by namespace and name, machines by name.
pub type Planned = BTreeMap<(Arc<str>, Arc<str>), Arc<str>>;

/// A decision with some of its pods held.
#[derive(Debug)]
pub struct Held {
    /// The cluster with the held pods on their machines.
    pub snapshot: Snapshot,
    /// The other pods.
    pub rest: Vec<Arc<Pod>>,
    /// The held ones, by machine.
    placements: BTreeMap<Arc<str>, Vec<Arc<Pod>>>,
}

fn key(pod: &Arc<Pod>) -> (Arc<str>, Arc<str>) {
    (Arc::clone(&pod.namespace), Arc::clone(&pod.name))
}

impl Held {
    /// Holds those of `pods` that still fit where they were planned; `None` where there are none.
    pub fn new(snapshot: &Snapshot, pods: &[Arc<Pod>], planned: &Planned) -> Option<Self> {
        if planned.is_empty() {
            return None;
        }
        let mut held = Self {
            snapshot: snapshot.clone(),
            rest: Vec::with_capacity(pods.len()),
            placements: BTreeMap::new(),
        };
        for pod in pods {
            let machine = planned.get(&key(pod));
            match machine.filter(|machine| held.put(pod, machine)) {
                Some(machine) => held
                    .placements
                    .entry(Arc::clone(machine))
                    .or_default()
                    .push(Arc::clone(pod)),
                None => held.rest.push(Arc::clone(pod)),
            }
        }
        let left: BTreeSet<_> = held.rest.iter().map(key).collect();
        held.snapshot.pending.retain(|pod| left.contains(&key(pod)));
        (!held.placements.is_empty()).then_some(held)
    }

    /// Puts a pod on a machine of the snapshot if there is room for it.
    fn put(&mut self, pod: &Arc<Pod>, machine: &str) -> bool {
        let Some(node) = self
            .snapshot
            .position(machine)
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
        self.take_away(pod);
        true
    }

    /// Takes a pod that moves from the node it leaves.
    fn take_away(&mut self, pod: &Arc<Pod>) {
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

    /// The plan of the rest as one of all pods.
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
        // The order was one among the rest.
        rest.order.clear();
        rest
    }
}
