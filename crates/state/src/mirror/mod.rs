//! The mirror: one store per kind of API object, filled by watch events, and snapshots made from the stores.
//!
//! Everything else is computed from the stores, and only for what changed. So events of different objects may arrive in any order, and a
//! relist equals many events. A snapshot costs what changed since the last one, plus one pointer per node, pool and pending pod.
//!
//! [`InFlight`] holds what the API does not record; the mirror's commands change it together with the machines and pods it concerns.

mod commands;
mod daemons;
mod decision;
mod fold;
mod machines;
mod objects;
mod occupancy;
mod pool_claims;
mod pools;
mod publish;
mod storage;
mod store;
mod versions;

pub use objects::Stored;
pub use pool_claims::PoolClaims;
pub use versions::ObjectVersion;

use crate::convert::{Conventions, Converter};
use crate::in_flight::InFlight;
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

/// How a mirror reads what it is given.
#[derive(Clone, Debug, Default)]
pub struct MirrorOptions {
    /// The provider's additions to labels, volumes and node classes.
    pub conventions: Conventions,
    /// Offline input never met a scheduler or a controller: every unbound, ungated pod is pending, and a pool without conditions is ready.
    pub offline: bool,
}

/// What the mirror keeps of a pod.
#[derive(Clone, Debug)]
struct PodEntry {
    /// The pod as it was converted.
    base: Arc<Pod>,
    /// The pod with its volumes resolved; the same one where it has none.
    pod: Arc<Pod>,
    /// The names of the volume claims it uses.
    claims: Box<[Arc<str>]>,
    provisionable: bool,
    gated: bool,
    daemon_set: Option<Arc<str>>,
}

/// The cluster as far as decisions need it.
#[derive(Debug)]
pub struct Mirror {
    converter: Converter,
    offline: bool,
    pods: store::Store<PodEntry>,
    /// Bound, non-terminal pods by node name.
    occupancy: occupancy::Occupancy,
    pending: BTreeMap<Key, Arc<Pod>>,
    machines: machines::Machines,
    pools: pools::Pools,
    daemons: daemons::Daemons,
    storage: storage::Storage,
    pdbs: store::Store<Arc<Pdb>>,
    namespaces: store::Store<Arc<LabelSet>>,
    /// Decisions read overlays through the catalogues; the objects are kept for those who make these.
    overlays: store::Store<(), Arc<NodeOverlay>>,
    in_flight: InFlight,
    listed: BTreeSet<Kind>,
    /// Machines by the name shown; what snapshots list.
    shown: BTreeMap<(Arc<str>, MachineKey), Arc<Node>>,
    shown_name: BTreeMap<MachineKey, Arc<str>>,
    dirty: Dirty,
    epoch: u64,
    published: Arc<Snapshot>,
}

/// What changed since the last snapshot.
#[derive(Default, Debug)]
struct Dirty {
    machines: BTreeSet<MachineKey>,
    /// Machines were rebuilt and are different now.
    shown: bool,
    pending: bool,
    pools: bool,
    daemons: bool,
    pdbs: bool,
    namespaces: bool,
}

/// What keeps a mirror from being a basis for decisions (SCH-074, SCH-075, LIF-183 to LIF-185).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SyncReport {
    /// Kinds that have not been listed completely yet.
    pub unlisted: Vec<Kind>,
    /// Claims that are neither launched nor have promised pods, sorted: the pods they were created for are unknown.
    pub unlaunched: Vec<Arc<str>>,
}

impl SyncReport {
    /// Whether decisions may be made.
    pub fn is_synced(&self) -> bool {
        self.unlisted.is_empty() && self.unlaunched.is_empty()
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
            machines: machines::Machines::default(),
            pools: pools::Pools::default(),
            daemons: daemons::Daemons::default(),
            storage: storage::Storage::default(),
            pdbs: store::Store::default(),
            namespaces: store::Store::default(),
            overlays: store::Store::default(),
            in_flight: InFlight::default(),
            listed: BTreeSet::new(),
            shown: BTreeMap::new(),
            shown_name: BTreeMap::new(),
            dirty: Dirty::default(),
            epoch: 0,
            published: Arc::new(published),
        }
    }

    /// The interner behind every id in its snapshots.
    pub fn interner(&self) -> &Arc<Interner> {
        self.converter.interner()
    }

    /// What is missing before decisions may be made.
    pub fn sync_report(&self) -> SyncReport {
        let kinds = Kind::ALL
            .iter()
            .filter(|kind| kind.is_required() && !self.listed.contains(kind));
        SyncReport {
            unlisted: kinds.copied().collect(),
            unlaunched: self.unlaunched().map(|one| one.claim).collect(),
        }
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

    /// Sets the instance types of a pool, or why there are none. A pool keeps its catalogue until it is set anew or the pool is gone.
    pub fn set_catalogue(&mut self, pool: &str, catalogue: Result<Arc<Catalogue>, CatalogueFault>) {
        let name = self.converter.text(pool);
        let label = self.converter.interner().intern(pool);
        if self.pools.set_catalogue(&name, label, catalogue) {
            self.dirty.pools = true;
            self.touch_pool(label);
        }
    }

    /// Notes that the prices of a pool's machines may be different now.
    fn touch_pool(&mut self, label: Sym) {
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

    /// Whether a pod is provisionable (SCH-008), promised to a claim or not.
    pub fn is_provisionable(&self, namespace: &str, name: &str) -> bool {
        let key = (Arc::from(namespace), Arc::from(name));
        self.pods.get(&key).is_some_and(|entry| entry.provisionable)
    }

    /// The bound, non-terminal pods of a Node by its object's name, terminating ones included, by namespace and name.
    pub fn pods_on_node(&self, node: &str) -> Vec<Arc<Pod>> {
        self.occupancy.pods(node).to_vec()
    }

    fn key_shown(&self, name: &str) -> Option<MachineKey> {
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

    /// Puts a pod into the pending ones or takes it out, as it is now.
    fn refresh_pending(&mut self, key: &Key) {
        let waits =
            |entry: &&PodEntry| self.is_pending(entry) && self.in_flight.promises.of_pod(key, &entry.pod.uid).is_none();
        let now = self.pods.get(key).filter(waits).map(|entry| Arc::clone(&entry.pod));
        let changed = match now {
            Some(pod) => {
                let before = self.pending.insert(key.clone(), Arc::clone(&pod));
                before.is_none_or(|before| !Arc::ptr_eq(&before, &pod))
            }
            None => self.pending.remove(key).is_some(),
        };
        self.dirty.pending |= changed;
    }
}
