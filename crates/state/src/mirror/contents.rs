//! The contents of a mirror: a store per kind, values computed from the stores, and the changes since the last snapshot.

use super::{capacity_buffers, daemons, machines, node_classes, occupancy, pools, storage, store};
use crate::convert::{Conventions, Converter, NodeNomination, PodMeasures};
use crate::in_flight::InFlightStore;
use crate::key::{Key, MachineKey};
use crate::object::Kind;
use kerf_api::NodeOverlay;
use kerf_model::instance_type::{Catalogue, CatalogueFault};
use kerf_model::intern::{Interner, Sym};
use kerf_model::node::Node;
use kerf_model::pod::{Owner, Pod};
use kerf_model::selector::LabelSet;
use kerf_model::snapshot::{Pdb, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a mirror reads objects.
#[derive(Clone, Debug, Default)]
pub struct MirrorOptions {
    /// The provider's additions to labels, volumes and node classes.
    pub conventions: Conventions,
    /// Whether the input is offline, so no scheduler or controller has seen it: every unbound, ungated pod is pending, and a pool without
    /// conditions is ready.
    pub offline: bool,
}

/// A pod in the mirror.
#[derive(Clone, Debug)]
pub(super) struct PodEntry {
    /// The pod as it was converted.
    pub(super) base: Arc<Pod>,
    /// The pod with its volumes resolved; the same one where it has none.
    pub(super) pod: Arc<Pod>,
    /// The names of the volume claims it uses.
    pub(super) claims: Box<[Arc<str>]>,
    pub(super) provisionable: bool,
    pub(super) untried: bool,
    pub(super) gated: bool,
    pub(super) daemon_set: Option<Arc<str>>,
    pub(super) nomination: Option<Box<NodeNomination>>,
    pub(super) measures: PodMeasures,
}

/// The cluster as far as decisions need it.
#[derive(Debug)]
pub struct Mirror {
    pub(super) converter: Converter,
    pub(super) offline: bool,
    pub(super) pods: store::Store<PodEntry>,
    /// Bound, non-terminal pods by node name.
    pub(super) occupancy: occupancy::Occupancy,
    pub(super) pending: BTreeMap<Key, Arc<Pod>>,
    /// Untried pods, except those promised to a claim.
    pub(super) untried: BTreeMap<Key, Arc<Pod>>,
    pub(super) machines: machines::Machines,
    pub(super) pools: pools::Pools,
    pub(super) daemons: daemons::Daemons,
    pub(super) storage: storage::Storage,
    pub(super) pdbs: store::Store<Arc<Pdb>>,
    pub(super) namespaces: store::Store<Arc<LabelSet>>,
    /// Decisions read overlays through the catalogues; the objects are kept for the controllers that build the catalogues.
    pub(super) overlays: store::Store<(), Arc<NodeOverlay>>,
    pub(super) capacity_buffers: capacity_buffers::CapacityBuffers,
    pub(super) node_classes: node_classes::NodeClasses,
    pub(super) in_flight: InFlightStore,
    pub(super) listed: BTreeSet<Kind>,
    /// Machines by the name shown; what snapshots list.
    pub(super) shown: BTreeMap<(Arc<str>, MachineKey), Arc<Node>>,
    pub(super) shown_name: BTreeMap<MachineKey, Arc<str>>,
    pub(super) dirty: Dirty,
    pub(super) epoch: u64,
    pub(super) published: Arc<Snapshot>,
}

/// The changes since the last snapshot.
#[derive(Default, Debug)]
pub(super) struct Dirty {
    pub(super) machines: BTreeSet<MachineKey>,
    /// Whether some machine changed.
    pub(super) shown: bool,
    pub(super) pending: bool,
    pub(super) pools: bool,
    pub(super) daemons: bool,
    pub(super) pdbs: bool,
    pub(super) namespaces: bool,
}

impl Dirty {
    /// Whether anything is different, or may be once the machines are rebuilt.
    pub(super) fn is_any(&self) -> bool {
        let Self {
            machines,
            shown,
            pending,
            pools,
            daemons,
            pdbs,
            namespaces,
        } = self;
        !machines.is_empty() || *shown || *pending || *pools || *daemons || *pdbs || *namespaces
    }
}

impl Mirror {
    /// An empty mirror.
    pub fn new(interner: Arc<Interner>, options: &MirrorOptions) -> Self {
        let converter = Converter::new(Arc::clone(&interner), &options.conventions);
        let mut published = Snapshot::new(interner);
        published.well_known = converter.well_known();
        published.reservation_key = converter.reservation_key();
        Self {
            converter,
            offline: options.offline,
            pods: store::Store::default(),
            occupancy: occupancy::Occupancy::default(),
            pending: BTreeMap::new(),
            untried: BTreeMap::new(),
            machines: machines::Machines::default(),
            pools: pools::Pools::default(),
            daemons: daemons::Daemons::default(),
            storage: storage::Storage::default(),
            pdbs: store::Store::default(),
            namespaces: store::Store::default(),
            overlays: store::Store::default(),
            capacity_buffers: capacity_buffers::CapacityBuffers::default(),
            node_classes: node_classes::NodeClasses::default(),
            in_flight: InFlightStore::default(),
            listed: BTreeSet::new(),
            shown: BTreeMap::new(),
            shown_name: BTreeMap::new(),
            dirty: Dirty::default(),
            epoch: 0,
            published: Arc::new(published),
        }
    }

    /// The interner of every id in its snapshots.
    pub fn interner(&self) -> &Arc<Interner> {
        self.converter.interner()
    }

    /// Rises whenever something happens that may make a decision against consolidation worth another look (LIF-207). Only snapshots bring
    /// it up to date.
    pub fn consolidation_epoch(&self) -> u64 {
        self.epoch
    }

    /// Makes consolidation search again although no watched object has changed, for instance because prices have (SCH-377).
    pub fn reconsider_consolidation(&mut self) {
        self.epoch += 1;
    }

    /// Sets the instance types of a pool, or why there are none. A pool keeps its catalogue until another is set or the pool is gone.
    pub fn set_catalogue(&mut self, pool: &str, catalogue: Result<Arc<Catalogue>, CatalogueFault>) {
        let name = self.converter.text(pool);
        let label = self.converter.interner().intern(pool);
        if self.pools.set_catalogue(&name, label, catalogue) {
            self.dirty.pools = true;
            self.touch_pool(label);
        }
    }

    /// Records that the prices of a pool's machines may be different now.
    pub(super) fn touch_pool(&mut self, label: Sym) {
        let priced = self.shown.iter().filter(|(_, node)| node.pool == Some(label));
        self.dirty.machines.extend(priced.map(|((_, key), _)| key.clone()));
    }

    /// A pod, bound or not.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let key = (Arc::from(namespace), Arc::from(name));
        self.pods.get(&key).map(|entry| Arc::clone(&entry.pod))
    }

    /// All pods, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.iter().map(|(_, entry)| &entry.pod)
    }

    /// A pod with what metrics show about it.
    pub fn measured_pod(&self, namespace: &str, name: &str) -> Option<(Arc<Pod>, PodMeasures)> {
        let key = (Arc::from(namespace), Arc::from(name));
        let entry = self.pods.get(&key)?;
        Some((Arc::clone(&entry.pod), entry.measures.clone()))
    }

    /// All pods with what metrics show about them, by namespace and name.
    pub fn measured_pods(&self) -> impl Iterator<Item = (&Arc<Pod>, &PodMeasures)> {
        self.pods.iter().map(|(_, entry)| (&entry.pod, &entry.measures))
    }

    /// A pod by namespace and name, and whether it is provisionable (SCH-008), promised to a claim or not.
    pub fn pod_and_provisionable(&self, key: &(Arc<str>, Arc<str>)) -> Option<(&Arc<Pod>, bool)> {
        self.pods.get(key).map(|entry| (&entry.pod, entry.provisionable))
    }

    /// Whether a pod is provisionable (SCH-008), promised to a claim or not.
    pub fn is_provisionable(&self, namespace: &str, name: &str) -> bool {
        let key = (Arc::from(namespace), Arc::from(name));
        self.pods.get(&key).is_some_and(|entry| entry.provisionable)
    }

    /// Whether a pod is untried: kube-scheduler is to place it and has not tried it yet.
    pub fn is_untried(&self, key: &(Arc<str>, Arc<str>)) -> bool {
        self.pods.get(key).is_some_and(|entry| entry.untried)
    }

    /// The bound, non-terminal pods of a Node by its object's name, terminating ones included, by namespace and name.
    pub fn pods_on_node(&self, node: &str) -> Vec<Arc<Pod>> {
        self.occupancy.pods(node).to_vec()
    }

    /// The key of the machine that snapshots show under a name.
    pub(super) fn key_shown(&self, name: &str) -> Option<MachineKey> {
        let name: Arc<str> = Arc::from(name);
        // The least key; see the order of the variants.
        let from = (Arc::clone(&name), MachineKey::Provider(Arc::from("")));
        let (found, key) = self.shown.range(from..).next()?.0;
        (*found == name).then(|| key.clone())
    }

    /// Whether a pod waits for capacity.
    fn is_pending(&self, entry: &PodEntry) -> bool {
        if !self.offline {
            return entry.provisionable;
        }
        let pod = &entry.base;
        let unowned = !matches!(pod.owner, Owner::DaemonSet | Owner::Node);
        pod.node_name.is_none() && unowned && !entry.gated && !pod.phase.is_terminal()
    }

    /// Adds a pod to the pending or untried pods or removes it, according to its present state.
    pub(super) fn refresh_pending(&mut self, key: &Key) {
        let entry = self.pods.get(key);
        let entry = entry.filter(|entry| self.in_flight.promises.of_pod(key, &entry.pod.uid).is_none());
        let pod = |waits: &dyn Fn(&PodEntry) -> bool| Some(Arc::clone(&entry.filter(|entry| waits(entry))?.pod));
        let pending = pod(&|entry| self.is_pending(entry));
        let untried = pod(&|entry| !self.offline && entry.untried);
        self.dirty.pending |= put_or_remove(&mut self.pending, key, pending);
        self.dirty.pending |= put_or_remove(&mut self.untried, key, untried);
    }
}

/// Sets or removes the pod of a key. Returns whether that changed something.
fn put_or_remove(pods: &mut BTreeMap<Key, Arc<Pod>>, key: &Key, pod: Option<Arc<Pod>>) -> bool {
    let Some(pod) = pod else {
        return pods.remove(key).is_some();
    };
    let before = pods.insert(key.clone(), Arc::clone(&pod));
    before.is_none_or(|before| !Arc::ptr_eq(&before, &pod))
}
