//! What no API object says: the actions of this process that are under way, as far as decisions depend on them.

use crate::node::Node;
use crate::pod::{Pod, PodShape};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A pod by namespace and name.
pub type PodKey = (Arc<str>, Arc<str>);

/// The actions under way at the moment of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    /// Provider ids of the machines that disruption commands under way hold (DIS-023).
    pub held: Arc<BTreeSet<Arc<str>>>,
    /// The NodeClaim onto which the last provisioning pass planned each pod that is not bound yet (SCH-082).
    pub planned: BTreeMap<PodKey, Arc<str>>,
    /// NodePools with a fixed number of nodes, by name.
    pub static_pools: BTreeMap<Arc<str>, StaticPool>,
    /// Pods that consolidation does not move for a time.
    pub resting: Vec<RestingPods>,
    /// A counter that rises with every change consolidation may depend on (LIF-207).
    pub consolidation_epoch: u64,
}

/// The NodeClaims of a NodePool with a fixed number of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaticPool {
    /// How many nodes the NodePool asks for (`spec.replicas`).
    pub replicas: u64,
    /// How many of its NodeClaims stay, those being replaced included.
    pub staying: u64,
    /// How many more NodeClaims its limit allows; `u64::MAX` without a limit.
    pub room: u64,
}

/// Pods of one namespace and shape that consolidation does not move until a time (deviation at DIS-119).
#[derive(Clone, PartialEq, Debug)]
pub struct RestingPods {
    /// Their namespace.
    pub namespace: Arc<str>,
    /// What they ask for.
    pub shape: Arc<PodShape>,
    /// From when on they may be moved again.
    pub until: Timestamp,
}

impl InFlight {
    /// Whether a disruption command under way holds the machine.
    pub fn holds(&self, node: &Node) -> bool {
        node.provider_id.as_ref().is_some_and(|id| self.held.contains(id))
    }

    /// Until when the last of these pods rests; `None` if none rests at `now`.
    pub fn resting_until(&self, pods: &[Arc<Pod>], now: Timestamp) -> Option<Timestamp> {
        let is_one =
            |resting: &&RestingPods, pod: &Pod| pod.namespace == resting.namespace && pod.shape == resting.shape;
        let resting = self.resting.iter().filter(|resting| resting.until > now);
        let found = resting.filter(|resting| pods.iter().any(|pod| is_one(resting, pod)));
        found.map(|resting| resting.until).max()
    }

    /// Forgets what has ended by `now`.
    pub fn expire(&mut self, now: Timestamp) {
        self.resting.retain(|resting| resting.until > now);
    }
}
