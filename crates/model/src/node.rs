//! Nodes as decisions see them: a Node object, a launched NodeClaim, or both.

use crate::intern::{Sym, sym};
use crate::pod::{HostPort, Pod};
use crate::price::Price;
use crate::resources::Resources;
use crate::taint::Taint;
use jiff::Timestamp;
use std::sync::Arc;

/// One machine, launched or being launched.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The name shown: the Node's, or the NodeClaim's until the Node is registered (SCH-059).
    pub name: Arc<str>,
    /// The Node object's name, once there is one.
    pub node_name: Option<Arc<str>>,
    /// The NodeClaim's name, for managed nodes.
    pub claim_name: Option<Arc<str>>,
    /// The provider's id, once launched.
    pub provider_id: Option<Arc<str>>,
    /// The pool's name as a label value, for nodes that carry the pool label.
    pub pool: Option<Sym>,
    /// Whether its NodeClaim is registered (SCH-058); true for unmanaged nodes (SCH-057).
    pub registered: bool,
    /// Whether its NodeClaim is initialised (SCH-058); true for unmanaged nodes (SCH-057).
    pub initialized: bool,
    /// Effective labels, sorted by key id (SCH-059).
    pub labels: Vec<(Sym, Sym)>,
    /// The hostname label, or the name where that is empty.
    pub hostname: Sym,
    /// Effective taints: while initialising without the ephemeral and startup ones (SCH-060).
    pub taints: Vec<Taint>,
    /// Effective capacity (SCH-061), always with `nodes: 1` (SCH-062).
    pub capacity: Resources,
    /// Effective allocatable (SCH-061).
    pub allocatable: Resources,
    /// Requests of the bound, non-terminal pods (SCH-063, SCH-064).
    pub requested: Resources,
    /// The part of `requested` that DaemonSet pods ask for.
    pub daemon_requested: Resources,
    /// Bound, non-terminal pods by namespace and name; terminating ones included.
    pub pods: Vec<Arc<Pod>>,
    /// Attach limits by CSI driver (SCH-069); a driver that is not there is unlimited.
    pub volume_limits: Vec<(Arc<str>, u32)>,
    /// Whether it is marked for deletion: its pods need another place and nothing may be placed on it (SCH-067).
    pub marked_for_deletion: bool,
    /// Until when it is nominated for pods, so that disruption leaves it alone (SCH-072).
    pub nominated_until: Option<Timestamp>,
    /// When its NodeClaim was created; for unmanaged nodes, when the Node was.
    pub created: Timestamp,
    /// The price of the offering its labels name, if the catalogue knows it.
    pub price: Option<Price>,
    /// Whether it belongs to a NodeClaim.
    pub managed: bool,
    /// `Consolidatable`, `Drifted` (with reason) and the like, for disruption.
    pub lifecycle: NodeLifecycle,
}

/// The facts about a node that disruption needs besides its load.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeLifecycle {
    /// The NodeClaim's unique id.
    pub claim_uid: Option<Arc<str>>,
    /// The claim's `Consolidatable` condition is True.
    pub consolidatable: bool,
    /// The reason of the claim's `Drifted` condition when True, and since when.
    pub drifted: Option<(Arc<str>, Timestamp)>,
    /// When the claim became initialised.
    pub initialized_at: Option<Timestamp>,
    /// The last time a pod was bound to or left the node.
    pub last_pod_event: Option<Timestamp>,
    /// Node or claim carry `karpenter.sh/do-not-disrupt: "true"`.
    pub do_not_disrupt: bool,
    /// When the claim expires, for ageing costs.
    pub expires: Option<Timestamp>,
    /// The claim asks for a termination grace period, in seconds.
    pub termination_grace_seconds: Option<i64>,
    /// The claim or node is already being deleted.
    pub deleting: bool,
    /// The claim's `InstanceTerminating` condition is True.
    pub instance_terminating: bool,
    /// The Node's Ready condition is True.
    pub ready: bool,
    /// Whether several Nodes or NodeClaims have its provider id, so that it is unknown which pods run on it.
    pub shares_provider_id: bool,
    /// The NodeClaim's pool, where the Node's label names another.
    pub claim_pool: Option<Sym>,
    /// How many virtual pods of CapacityBuffers the last provisioning pass placed on it (LIF-206).
    pub buffer_pods: u32,
}

impl Node {
    /// A machine of this name without labels, room or load, that no NodeClaim owns.
    pub fn empty(name: Arc<str>, hostname: Sym) -> Self {
        Self {
            name,
            node_name: None,
            claim_name: None,
            provider_id: None,
            pool: None,
            registered: false,
            initialized: false,
            labels: Vec::new(),
            hostname,
            taints: Vec::new(),
            capacity: Resources::new(),
            allocatable: Resources::new(),
            requested: Resources::new(),
            daemon_requested: Resources::new(),
            pods: Vec::new(),
            volume_limits: Vec::new(),
            marked_for_deletion: false,
            nominated_until: None,
            created: Timestamp::UNIX_EPOCH,
            price: None,
            managed: false,
            lifecycle: NodeLifecycle::default(),
        }
    }

    /// Whether it is a NodeClaim without a machine: only the pods nominated for it may be placed there.
    pub fn is_planned(&self) -> bool {
        self.managed && self.provider_id.is_none()
    }

    /// Its pods without those that are nominated for it and still run on another node.
    pub fn own_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let planned = self.is_planned();
        self.pods.iter().filter(move |pod| !planned || pod.node_name.is_none())
    }

    /// The value of a label.
    pub fn label(&self, key: Sym) -> Option<Sym> {
        self.labels
            .binary_search_by_key(&key, |entry| entry.0)
            .ok()
            .and_then(|at| self.labels.get(at))
            .map(|entry| entry.1)
    }

    /// Whether it ever was initialised, also while it counts as starting again.
    pub fn was_initialized(&self) -> bool {
        self.initialized || self.label(sym::INITIALIZED) == Some(sym::TRUE)
    }

    /// Allocatable less the requests of bound pods; negative where overcommitted.
    pub fn available(&self) -> Resources {
        let mut left = self.allocatable.clone();
        left.subtract(&self.requested);
        left
    }

    /// The host ports bound pods hold, with the pod's key (a pod never conflicts with itself, SCH-164).
    pub fn host_ports(&self) -> impl Iterator<Item = (&Arc<Pod>, &HostPort)> {
        self.pods
            .iter()
            .flat_map(|pod| pod.shape.host_ports.iter().map(move |port| (pod, port)))
    }
}
