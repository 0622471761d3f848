//! A snapshot: the whole cluster at one moment, immutable and cheap to share.

use crate::intern::{Interner, Sym, sym};
use crate::node::Node;
use crate::nodepool::{Eligibility, NodePool};
use crate::pod::{Pod, PodShape};
use crate::selector::LabelSet;
use std::sync::Arc;

/// What decisions are made from. Everything heavy is behind `Arc`: a copy costs a few pointers per node and pool.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The interner of every id in the snapshot.
    pub interner: Arc<Interner>,
    /// Machines, by name.
    pub nodes: Vec<Arc<Node>>,
    /// Pools, by name.
    pub pools: Vec<Arc<NodePool>>,
    /// Provisionable pods (SCH-008), sorted by namespace and name; invalid ones have `faults`.
    pub pending: Vec<Arc<Pod>>,
    /// Pods that kube-scheduler has not tried yet (SCH-008), sorted by namespace and name. A pass for pending pods plans them as well
    /// (deviation at SCH-008).
    pub untried: Vec<Arc<Pod>>,
    /// DaemonSets, by namespace and name.
    pub daemons: Vec<Arc<Daemon>>,
    /// Namespaces by name, for namespace selectors.
    pub namespaces: Vec<(Arc<str>, Arc<LabelSet>)>,
    /// Label keys that may stay undefined on a claim until launch (SCH-102, SCH-107), sorted by id.
    pub well_known: Arc<[Sym]>,
    /// The label key that carries a capacity reservation's id, where the provider has one.
    pub reservation_key: Option<Sym>,
    /// Pod disruption budgets, by namespace and name.
    pub pdbs: Vec<Arc<Pdb>>,
}

/// A DaemonSet: the pod it will put on every node it fits (SCH-153).
#[derive(Clone, PartialEq, Debug)]
pub struct Daemon {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The shape of its pods.
    pub shape: Arc<PodShape>,
}

/// A pod disruption budget as far as decisions need it (SCH-029, SCH-030).
#[derive(Clone, PartialEq, Debug)]
pub struct Pdb {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Which pods it protects.
    pub selector: crate::selector::LabelSelector,
    /// How many may be disrupted now, from its status.
    pub disruptions_allowed: i32,
    /// maxUnavailable is 0 or `0%`, or minAvailable is `100%`: no eviction will ever be allowed.
    pub blocks_always: bool,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub always_allow_unhealthy: bool,
}

/// The keys every provider treats as well-known (SCH-107).
pub const WELL_KNOWN_LABELS: [Sym; 8] = [
    sym::NODEPOOL,
    sym::ZONE,
    sym::REGION,
    sym::INSTANCE_TYPE,
    sym::ARCH,
    sym::OS,
    sym::CAPACITY_TYPE,
    sym::WINDOWS_BUILD,
];

impl Snapshot {
    /// An empty cluster.
    pub fn new(interner: Arc<Interner>) -> Self {
        let mut well_known = WELL_KNOWN_LABELS.to_vec();
        well_known.sort_unstable();
        Self {
            interner,
            nodes: Vec::new(),
            pools: Vec::new(),
            pending: Vec::new(),
            untried: Vec::new(),
            daemons: Vec::new(),
            namespaces: Vec::new(),
            well_known: well_known.into(),
            reservation_key: None,
            pdbs: Vec::new(),
        }
    }

    /// The position of the machine of this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.nodes.binary_search_by(|node| (*node.name).cmp(name)).ok()
    }

    /// The machine of this name.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(self.position(name)?)
    }

    /// Whether some pool may get new nodes for pods. Nothing can be planned without one (SCH-049, DIS-094).
    pub fn has_eligible_pool(&self) -> bool {
        self.pools.iter().any(|pool| pool.eligibility == Eligibility::Eligible)
    }

    /// Whether a key may stay undefined on a claim.
    pub fn is_well_known(&self, key: Sym) -> bool {
        self.well_known.binary_search(&key).is_ok()
    }

    /// Whether an affinity term's scope covers a namespace.
    pub fn in_scope(&self, scope: &crate::pod::NamespaceScope, namespace: &str) -> bool {
        scope.names.iter().any(|name| **name == *namespace)
            || scope.selector.as_ref().is_some_and(|selector| {
                let labels = self
                    .namespaces
                    .binary_search_by(|(name, _)| (**name).cmp(namespace))
                    .ok();
                let labels = labels.and_then(|at| self.namespaces.get(at));
                labels.is_some_and(|(_, labels)| selector.matches(labels))
            })
    }
}
