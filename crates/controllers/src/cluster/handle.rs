//! The handle on the cluster that all controllers share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kerf_api::{NodeClaim, NodeClassKind, NodeOverlay, NodePool};
use kerf_cloud::Profile;
use kerf_model::in_flight::InFlight;
use kerf_model::instance_type::{Catalogue, CatalogueFault};
use kerf_model::intern::Interner;
use kerf_model::plan::{Launch, Plan};
use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::Options;
use kerf_state::lean::LeanNode;
use kerf_state::{
    CommandInFlight, Kind, Mirror, MirrorOptions, NodeClass, Now, PodMeasures, PodTimes, PoolClaims, Stored,
    SuspiciousList, SyncReport, WaitingPod,
};

use tokio::time::Instant;

use super::conventions::conventions;
use super::fold;
use super::published::{Published, WriteGuard};
use super::unreadable::Unreadable;
use crate::changes::Change;
use crate::claim_facts;

/// A handle on the cluster; clones share it.
#[derive(Clone)]
pub struct Cluster {
    pub(super) inner: Arc<RwLock<Inner>>,
    published: Arc<Published>,
    pub(super) interner: Arc<Interner>,
    pub(super) classes: Arc<[NodeClassKind]>,
    /// Uptime counts from here.
    pub(super) started: Instant,
    pub(super) listeners: Arc<RwLock<Vec<Listener>>>,
    /// By kind.
    pub(super) unreadable: Arc<Mutex<BTreeMap<String, Vec<Unreadable>>>>,
}

pub(super) type Listener = Arc<dyn Fn(&Change) + Send + Sync>;

pub(super) struct Inner {
    pub(super) mirror: Mirror,
    pub(super) synced_once: bool,
}

impl Inner {
    /// Removes what has expired, and records whether decisions may be made.
    fn expire(&mut self, now: Timestamp, uptime: Duration) {
        self.mirror.expire(Now { wall: now, uptime });
        self.synced_once |= self.mirror.sync_report().is_synced();
    }
}

impl Cluster {
    /// An empty cluster that reads objects as a provider's profile and the options say.
    pub fn new(interner: Arc<Interner>, profile: &Profile, options: &Options) -> Self {
        let options = MirrorOptions {
            conventions: conventions(profile, options),
            offline: false,
        };
        Self {
            inner: Arc::new(RwLock::new(Inner {
                mirror: Mirror::new(Arc::clone(&interner), &options),
                synced_once: false,
            })),
            published: Arc::default(),
            listeners: Arc::default(),
            unreadable: Arc::default(),
            interner,
            started: Instant::now(),
            classes: profile.node_classes.clone().into(),
        }
    }

    /// Waits for all readers and writers.
    pub(super) fn lock(&self) -> WriteGuard<'_> {
        // After a panic in a fold at most one object is half indexed; the next relist corrects it.
        let inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        self.published.guard(inner)
    }

    /// Waits for writers only: queries do not exclude each other.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the listener on every change from now on, after the mirror has taken it in.
    pub fn subscribe(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Arc::new(listener));
    }

    /// Passes changes to the listeners.
    pub(crate) fn notify(&self, changes: impl IntoIterator<Item = Change>) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner).clone();
        for change in changes {
            for listener in &listeners {
                listener(&change);
            }
        }
    }

    /// The interner of all ids.
    pub fn interner(&self) -> &Arc<Interner> {
        &self.interner
    }

    /// The cluster as it is known; see [`Mirror::snapshot`]. While nothing has changed this returns the last snapshot without a lock. Nothing
    /// expires here: loops that act on the snapshot call [`Cluster::expire`] before.
    pub fn snapshot(&self, now: Timestamp) -> Arc<Snapshot> {
        self.published.current().unwrap_or_else(|| {
            let mut inner = self.lock();
            inner.mirror.snapshot(now)
        })
    }

    /// A pool with its limits and its usage as of now; see [`Mirror::pool`].
    pub(crate) fn pool_usage(&self, pool: &str, now: Timestamp) -> Option<kerf_model::nodepool::NodePool> {
        self.lock().mirror.pool(pool, now)
    }

    /// Rises with every change that can make another node consolidatable (LIF-207); up to date after [`Cluster::snapshot`].
    pub fn consolidation_epoch(&self) -> u64 {
        self.read().mirror.consolidation_epoch()
    }

    /// A managed NodeClaim.
    pub fn claim(&self, name: &str) -> Option<Arc<NodeClaim>> {
        NodeClaim::named(&self.read().mirror, name)
    }

    /// All managed NodeClaims by name.
    pub fn claims(&self) -> Vec<Arc<NodeClaim>> {
        NodeClaim::all(&self.read().mirror)
    }

    /// The managed NodeClaims of an instance, by name; more than one is a fault to report.
    pub fn claims_by_provider_id(&self, id: &str) -> Vec<Arc<NodeClaim>> {
        self.read().mirror.claims_by_provider_id(id)
    }

    /// A NodePool of a node class the provider serves.
    pub fn pool(&self, name: &str) -> Option<Arc<NodePool>> {
        NodePool::named(&self.read().mirror, name)
    }

    /// All NodePools of node classes the provider serves, by name.
    pub fn pools(&self) -> Vec<Arc<NodePool>> {
        NodePool::all(&self.read().mirror)
    }

    /// A Node.
    pub fn node(&self, name: &str) -> Option<Arc<LeanNode>> {
        LeanNode::named(&self.read().mirror, name)
    }

    /// All Nodes by name.
    pub fn nodes(&self) -> Vec<Arc<LeanNode>> {
        LeanNode::all(&self.read().mirror)
    }

    /// The Nodes of an instance, by name; more than one is a fault to report.
    pub fn nodes_by_provider_id(&self, id: &str) -> Vec<Arc<LeanNode>> {
        self.read().mirror.nodes_by_provider_id(id)
    }

    /// Whether several claims, or several Nodes, have one provider id: it is unknown which of them owns the instance (LIF-135).
    pub(crate) fn is_doubled(&self, id: &str) -> bool {
        !id.is_empty() && (self.claims_by_provider_id(id).len() > 1 || self.nodes_by_provider_id(id).len() > 1)
    }

    /// Whether a Node of an instance is registered. Then its finalizer and its owner delete the instance.
    pub fn has_registered_node(&self, id: &str) -> bool {
        let nodes = self.nodes_by_provider_id(id);
        nodes.iter().any(|node| claim_facts::is_registered(&node.metadata))
    }

    /// All NodeOverlays by name; none with the gate off.
    pub fn overlays(&self) -> Vec<Arc<NodeOverlay>> {
        NodeOverlay::all(&self.read().mirror)
    }

    /// A node class the provider serves.
    pub fn node_class(&self, reference: &kerf_api::NodeClassRef) -> Option<Arc<NodeClass>> {
        self.read().mirror.node_class(reference)
    }

    /// Whether the provider serves the node class of this reference (LIF-005).
    pub fn serves(&self, reference: &kerf_api::NodeClassRef) -> bool {
        let mut classes = self.classes.iter();
        classes.any(|class| class.group == reference.group && class.kind == reference.kind)
    }

    /// A pod.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.read().mirror.pod(namespace, name)
    }

    /// A pod with what metrics show about it.
    pub(crate) fn measured_pod(&self, namespace: &str, name: &str) -> Option<(Arc<Pod>, PodMeasures)> {
        self.read().mirror.measured_pod(namespace, name)
    }

    /// All pods with what metrics show about them, by namespace and name.
    pub(crate) fn measured_pods(&self) -> Vec<(Arc<Pod>, PodMeasures)> {
        let inner = self.read();
        let pods = inner.mirror.measured_pods();
        pods.map(|(pod, measures)| (Arc::clone(pod), measures.clone()))
            .collect()
    }

    /// Whether a pod waits for capacity (SCH-008) and no NodeClaim was created for it yet.
    pub fn is_provisionable(&self, namespace: &str, name: &str) -> bool {
        self.read().mirror.is_provisionable(namespace, name)
    }

    /// The bound, non-terminal pods of a Node, terminating ones included, by namespace and name.
    pub fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        self.read().mirror.pods_on_node(node)
    }

    /// The claim a pod is promised to.
    pub fn promised_to(&self, pod: &Pod) -> Option<Arc<str>> {
        self.read().mirror.promised_to(pod).cloned()
    }

    /// Pods that wait for a node, and where they are to run; see [`Mirror::waiting_pods`].
    pub(crate) fn waiting_pods(&self) -> Vec<WaitingPod> {
        self.read().mirror.waiting_pods()
    }

    /// Removes what has expired from the in-flight store (see [`Mirror::expire`]), and records whether decisions may be made. Loops that
    /// decide call it before they ask whether the cluster is synced.
    pub fn expire(&self, now: Timestamp) {
        self.lock().expire(now, self.uptime());
    }

    /// How long this cluster has been watched, by the monotonic clock.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Removes what has expired, then returns the inputs of a decision as of one moment; see [`Mirror::decision_state`].
    pub(crate) fn decision_state(&self, now: Timestamp) -> (Arc<Snapshot>, InFlight) {
        let mut inner = self.lock();
        inner.expire(now, self.uptime());
        inner.mirror.decision_state(now)
    }

    /// Takes in a disruption command; see [`Mirror::insert_command`].
    pub(crate) fn insert_command(&self, command: CommandInFlight) {
        self.lock().mirror.insert_command(command);
    }

    /// The disruption command of an id, while it is in flight.
    pub(crate) fn command(&self, id: &str) -> Option<Arc<CommandInFlight>> {
        self.read().mirror.command(id).cloned()
    }

    /// Records that a replacement of a command is initialised.
    pub(crate) fn note_replacement_initialized(&self, id: &str, claim: &str) {
        self.lock().mirror.note_replacement_initialized(id, claim);
    }

    /// Ends a command that is done; see [`Mirror::finish_command`].
    pub(crate) fn finish_command(&self, id: &str) {
        self.lock().mirror.finish_command(id);
    }

    /// Ends a command that is undone; see [`Mirror::give_up_command`].
    pub(crate) fn give_up_command(&self, id: &str, now: Timestamp) {
        self.lock().mirror.give_up_command(id, now);
    }

    /// Whether a command in flight holds a machine (DIS-023).
    pub(crate) fn holds(&self, machine: &kerf_model::node::Node) -> bool {
        self.read().mirror.holds(machine)
    }

    /// The names of the Nodes onto which commands in flight planned pods.
    pub(crate) fn planned_destinations(&self) -> BTreeSet<Arc<str>> {
        self.read().mirror.planned_destinations()
    }

    /// How long a command may take now (DIS-279).
    pub(crate) fn command_time_limit(&self, least: Duration) -> Duration {
        self.read().mirror.command_time_limit(least)
    }

    /// Records the moves of consolidation; see [`Mirror::note_moved`].
    pub(crate) fn note_moved<'a>(
        &self,
        from: Vec<Arc<str>>,
        pods: impl IntoIterator<Item = &'a Arc<Pod>>,
        plan: Option<&Plan>,
        snapshot: &Snapshot,
        at: Timestamp,
    ) {
        self.lock().mirror.note_moved(from, pods, plan, snapshot, at);
    }

    /// Records that provisioning created a claim; see [`Mirror::note_launched`] and [`Mirror::note_launch_begun`].
    pub(crate) fn note_launched(&self, launch: &Launch, claim: &Arc<str>, at: Timestamp) {
        let mut inner = self.lock();
        inner.mirror.note_launched(&launch.pods, launch.price(), at);
        inner.mirror.note_launch_begun(&launch.pool, claim, at);
    }

    /// Records whether the launch of a claim found capacity.
    pub(crate) fn note_launch_result(&self, pool: &str, claim: &str, any_capacity: bool, now: Timestamp) {
        self.lock().mirror.note_launch_result(pool, claim, any_capacity, now);
    }

    /// What is missing before decisions may be made (SCH-074, SCH-075).
    pub fn sync_report(&self) -> SyncReport {
        self.read().mirror.sync_report()
    }

    /// Whether decisions may be made.
    pub fn is_synced(&self) -> bool {
        self.sync_report().is_synced()
    }

    /// Whether decisions could be made at any time so far (SCH-397).
    pub fn was_synced(&self) -> bool {
        self.read().synced_once
    }

    /// Whether the last lists of Nodes and NodeClaims prove what exists; see [`Mirror::trustworthy`].
    pub fn trustworthy(&self) -> Result<(), SuspiciousList> {
        self.read().mirror.trustworthy()
    }

    /// Inserts a claim that was just created, without waiting for the watch (SCH-076); see [`Mirror::created`].
    pub fn created(&self, claim: NodeClaim) {
        if self.serves(&claim.spec.node_class_ref) {
            let change = fold::written(&mut self.lock().mirror, claim, Mirror::created);
            self.notify(change.map(Change::Claim));
        }
    }

    /// Stores the answer to a write or a read of a claim; see [`Mirror::wrote`].
    pub fn wrote_claim(&self, claim: NodeClaim) {
        let change = fold::written(&mut self.lock().mirror, claim, Mirror::wrote);
        self.notify(change.map(Change::Claim));
    }

    /// Stores the answer to a write of a Node, so that nothing is written again that the watch has not delivered yet; see
    /// [`Mirror::wrote`].
    pub(crate) fn wrote_node(&self, node: &Node) {
        let lean = serde_json::to_value(node).and_then(serde_json::from_value::<LeanNode>);
        let Ok(lean) = lean else { return };
        let change = fold::written(&mut self.lock().mirror, lean, Mirror::wrote);
        self.notify(change.map(Change::Node));
    }

    /// Stores the answer to a write of a pool; see [`Mirror::wrote`].
    pub fn wrote_pool(&self, pool: NodePool) {
        let change = fold::written(&mut self.lock().mirror, pool, Mirror::wrote);
        self.notify(change.map(Change::Pool));
    }

    /// Promises pods to a claim that was just created; see [`Mirror::promise`].
    pub fn promise(&self, claim: &str, pods: &[Arc<Pod>], capacity: Resources) -> bool {
        self.lock().mirror.promise(claim, pods, capacity)
    }

    /// Ends the promises to pods that need no place after all; see [`Mirror::release`].
    pub fn release<'a>(&self, pods: impl IntoIterator<Item = &'a Arc<Pod>>) {
        self.lock().mirror.release(pods);
    }

    /// Keeps disruption away from a machine, given the name in snapshots (SCH-072).
    pub fn nominate(&self, machine: &str, until: Timestamp) {
        self.lock().mirror.nominate(machine, until);
    }

    /// Marks a machine as held by a disruption command (SCH-067).
    pub fn mark_for_deletion(&self, provider_id: &str) {
        self.lock().mirror.mark_for_deletion(provider_id);
    }

    /// Removes that mark; see [`Mirror::unmark_for_deletion`].
    pub fn unmark_for_deletion(&self, provider_id: &str) {
        self.lock().mirror.unmark_for_deletion(provider_id);
    }

    /// The claims of a pool by state (LIF-210).
    pub fn pool_claims(&self, pool: &str) -> PoolClaims {
        self.read().mirror.pool_claims(pool)
    }

    /// Records whether a claim's replacement is being created (LIF-211).
    pub(crate) fn set_pending_disruption(&self, claim: &str, pending: bool) {
        self.lock().mirror.set_pending_disruption(claim, pending);
    }

    /// Reserves room for claims of a pool; see [`Mirror::reserve_claims`].
    pub(crate) fn reserve_claims(&self, pool: &str, limit: Option<u64>, wanted: u64) -> u64 {
        self.lock().mirror.reserve_claims(pool, limit, wanted)
    }

    /// Gives reservations back.
    pub(crate) fn release_claims(&self, pool: &str, count: u64) {
        self.lock().mirror.release_claims(pool, count);
    }

    /// Makes consolidation search again (SCH-377).
    pub fn reconsider_consolidation(&self) {
        self.lock().mirror.reconsider_consolidation();
    }

    /// Sets a pool's instance types, or why there are none.
    pub fn set_catalogue(&self, pool: &str, catalogue: Result<Arc<Catalogue>, CatalogueFault>) {
        self.lock().mirror.set_catalogue(pool, catalogue);
    }

    /// Records when a pod was seen, decided on or planned, if it still exists.
    pub(crate) fn note_times<T>(&self, pod: &Pod, note: impl FnOnce(&mut PodTimes) -> T) -> Option<T> {
        self.lock().mirror.times_of(pod).map(note)
    }

    /// Reads when pods were seen, decided on and planned.
    pub fn with_times<T>(&self, look: impl FnOnce(&PodTimes) -> T) -> T {
        look(self.read().mirror.times())
    }
}

#[cfg(test)]
impl Cluster {
    /// Whether a snapshot is the last that was taken.
    pub(crate) fn is_last_snapshot(&self, snapshot: &Arc<Snapshot>) -> bool {
        Arc::ptr_eq(self.read().mirror.last_snapshot(), snapshot)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.read();
        let count = |kind| inner.mirror.count(kind);
        write!(
            f,
            "Cluster({} nodes, {} claims)",
            count(Kind::Node),
            count(Kind::NodeClaim)
        )
    }
}
