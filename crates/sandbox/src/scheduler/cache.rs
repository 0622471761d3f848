//! The scheduler's cache: nodes with their pods in the form the filters need, updated by every watch event.

use super::nominations::{Nominations, nominated_node};
use crate::object::{is_active, is_finished, node_name};
use crate::store::key_of;
use k8s_openapi::api::core::v1::{Namespace, Node as ApiNode, PersistentVolume, PersistentVolumeClaim, Pod as ApiPod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kerf_model::intern::{Interner, sym};
use kerf_model::node::Node;
use kerf_model::pod::{Pod, PodVolume};
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::{Effect, Taint};
use kerf_runtime::ObjectKey;
use kerf_state::convert::{ClassFacts, NodeFacts, PvFacts, PvcFacts};
use kerf_state::{Conventions, Converter};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// A pod converted, with the names of its claims.
#[derive(Clone)]
struct Known {
    pod: Arc<Pod>,
    claims: Vec<Arc<str>>,
}

pub(super) struct SchedulerCache {
    converter: Converter,
    /// The cluster for the filters. Nodes named in `dirty` are out of date in it.
    snapshot: Snapshot,
    nodes: BTreeMap<Arc<str>, (NodeFacts, bool)>,
    /// Pods on nodes, bound or about to be.
    bound: BTreeMap<String, BTreeMap<ObjectKey, Known>>,
    places: BTreeMap<ObjectKey, String>,
    /// Assumed pods: bound by this scheduler, but the watch has not delivered the binding yet; with their uid.
    assumed: BTreeMap<ObjectKey, String>,
    limits: BTreeMap<String, Vec<(Arc<str>, u32)>>,
    claims: BTreeMap<ObjectKey, PvcFacts>,
    volumes: BTreeMap<String, PvFacts>,
    classes: BTreeMap<String, ClassFacts>,
    dirty: BTreeSet<Arc<str>>,
    /// Nodes of the snapshot that have pods with anti-affinity.
    repelling: BTreeSet<Arc<str>>,
    nominations: Nominations,
    /// Why pods of a kind fit nowhere, as long as nothing changes; by namespace, labels, shape and priority. Labels and shape are shared
    /// between equal pods.
    refusals: Vec<(Arc<Pod>, String)>,
}

/// Most unschedulable shapes kept between two changes. Lookup compares with each of them.
const REFUSALS: usize = 64;

/// An object in the form of the state crate; `None` with a warning when it cannot be converted.
fn lean<L: DeserializeOwned>(object: &impl Serialize) -> Option<L> {
    let value = serde_json::to_value(object).ok()?;
    match serde_json::from_value(value) {
        Ok(lean) => Some(lean),
        Err(error) => {
            tracing::warn!(%error, "the scheduler ignores an object that it cannot convert");
            None
        }
    }
}

impl SchedulerCache {
    pub(super) fn new() -> Self {
        let interner = Arc::new(Interner::default());
        Self {
            converter: Converter::new(Arc::clone(&interner), &Conventions::default()),
            snapshot: Snapshot::new(interner),
            nodes: BTreeMap::new(),
            bound: BTreeMap::new(),
            places: BTreeMap::new(),
            assumed: BTreeMap::new(),
            limits: BTreeMap::new(),
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            classes: BTreeMap::new(),
            dirty: BTreeSet::new(),
            repelling: BTreeSet::new(),
            nominations: Nominations::default(),
            refusals: Vec::new(),
        }
    }

    fn mark_dirty(&mut self, node: &str) {
        self.refusals.clear();
        self.dirty.insert(Arc::from(node));
    }

    pub(super) fn node(&mut self, key: &ObjectKey, node: Option<&ApiNode>) {
        let name: Arc<str> = Arc::from(&*key.name);
        match node.and_then(|node| Some((self.converter.node(&lean(node)?)?, node))) {
            Some((facts, node)) => {
                let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
                self.nodes.insert(Arc::clone(&name), (facts, cordoned));
            }
            None => drop(self.nodes.remove(&name)),
        }
        self.mark_dirty(&name);
    }

    pub(super) fn pod(&mut self, key: &ObjectKey, pod: Option<&ApiPod>) {
        let assumed = self.assumed.get(key);
        if let (Some(uid), Some(pod)) = (assumed, pod)
            && node_name(pod).is_none()
            && pod.metadata.uid.as_deref() == Some(uid)
            && pod.metadata.deletion_timestamp.is_none()
        {
            return;
        }
        self.assumed.remove(key);
        self.release(key);
        self.nominate(key, pod);
        let Some(pod) = pod.filter(|pod| !is_finished(pod)) else {
            return;
        };
        if let Some(node) = node_name(pod).map(str::to_owned)
            && let Some(known) = self.convert(pod)
        {
            self.occupy(key, &node, known);
        }
    }

    /// Records to which node a pod is nominated; a bound pod is nominated to none.
    fn nominate(&mut self, key: &ObjectKey, pod: Option<&ApiPod>) {
        let waiting = pod.filter(|pod| node_name(pod).is_none() && is_active(pod));
        let nominated = waiting.and_then(|pod| Some((nominated_node(pod)?, pod)));
        if let Some((node, pod)) = nominated
            && let Some(known) = self.convert(pod)
        {
            let pod = self.with_volumes(&known);
            self.nominations.nominate(key, node, pod);
            self.refusals.clear();
        } else if self.nominations.forget(key) {
            self.refusals.clear();
        }
    }

    fn release(&mut self, key: &ObjectKey) {
        let Some(node) = self.places.remove(key) else { return };
        if let Some(pods) = self.bound.get_mut(&node) {
            pods.remove(key);
            if pods.is_empty() {
                self.bound.remove(&node);
            }
        }
        self.mark_dirty(&node);
    }

    fn occupy(&mut self, key: &ObjectKey, node: &str, known: Known) {
        self.bound
            .entry(node.to_owned())
            .or_default()
            .insert(key.clone(), known);
        self.places.insert(key.clone(), node.to_owned());
        self.mark_dirty(node);
    }

    /// Assumes a pod: counts it as bound before the watch delivers the binding.
    pub(super) fn assume(&mut self, pod: &ApiPod, node: &str) {
        let key = key_of(pod);
        let Some(known) = self.convert(pod) else { return };
        self.release(&key);
        self.nominations.forget(&key);
        self.assumed
            .insert(key.clone(), pod.metadata.uid.clone().unwrap_or_default());
        self.occupy(&key, node, known);
    }

    /// Forgets an assumed pod.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        if self.assumed.remove(key).is_some() {
            self.release(key);
        }
    }

    fn convert(&mut self, pod: &ApiPod) -> Option<Known> {
        let facts = self.converter.pod(&lean(pod)?)?;
        let mut pod = facts.pod;
        // The converter also reads conditions of bound pods; the filters do not need them.
        pod.faults.clear();
        Some(Known {
            pod: Arc::new(pod),
            claims: facts.claims,
        })
    }

    pub(super) fn namespace(&mut self, key: &ObjectKey, namespace: Option<&Namespace>) {
        self.refusals.clear();
        let all = &mut self.snapshot.namespaces;
        let at = all.binary_search_by(|(name, _)| (**name).cmp(key.name.as_str()));
        let labels = namespace.map(|namespace| {
            let labels = namespace.metadata.labels.iter().flatten();
            Arc::new(labels.map(|(k, v)| (k.as_str(), v.as_str())).collect())
        });
        match (at, labels) {
            (Ok(at), Some(labels)) => all[at].1 = labels,
            (Ok(at), None) => drop(all.remove(at)),
            (Err(at), Some(labels)) => all.insert(at, (Arc::from(&*key.name), labels)),
            (Err(_), None) => {}
        }
    }

    pub(super) fn csi_node(&mut self, key: &ObjectKey, node: Option<&CSINode>) {
        match node.and_then(|node| Some(self.converter.volume_limits(&lean(node)?))) {
            Some(limits) => drop(self.limits.insert(key.name.clone(), limits)),
            None => drop(self.limits.remove(&key.name)),
        }
        self.mark_dirty(&key.name);
    }

    pub(super) fn claim(&mut self, key: &ObjectKey, claim: Option<&PersistentVolumeClaim>) {
        match claim.and_then(|claim| Some(self.converter.pvc(&lean(claim)?))) {
            Some(facts) => drop(self.claims.insert(key.clone(), facts)),
            None => drop(self.claims.remove(key)),
        }
        self.mark_nodes_of_claim_dirty(key);
    }

    /// Marks the nodes whose pods use the volume claim, so that their volumes are counted again.
    fn mark_nodes_of_claim_dirty(&mut self, key: &ObjectKey) {
        let uses = |(pod, known): (&ObjectKey, &Known)| {
            pod.namespace == key.namespace && known.claims.iter().any(|name| **name == *key.name)
        };
        let users = self.bound.iter().filter(|(_, pods)| pods.iter().any(uses));
        let nodes: Vec<Arc<str>> = users.map(|(node, _)| Arc::from(&**node)).collect();
        self.refusals.clear();
        self.dirty.extend(nodes);
    }

    pub(super) fn volume(&mut self, key: &ObjectKey, volume: Option<&PersistentVolume>) {
        match volume.and_then(|volume| Some(self.converter.pv(&lean(volume)?))) {
            Some(facts) => drop(self.volumes.insert(key.name.clone(), facts)),
            None => drop(self.volumes.remove(&key.name)),
        }
    }

    pub(super) fn class(&mut self, key: &ObjectKey, class: Option<&StorageClass>) {
        match class.and_then(|class| Some(self.converter.storage_class(&lean(class)?))) {
            Some(facts) => drop(self.classes.insert(key.name.clone(), facts)),
            None => drop(self.classes.remove(&key.name)),
        }
    }

    fn with_volumes(&self, known: &Known) -> Arc<Pod> {
        if known.claims.is_empty() {
            return Arc::clone(&known.pod);
        }
        let mut pod = (*known.pod).clone();
        pod.volumes = known
            .claims
            .iter()
            .filter_map(|name| {
                let facts = self.claims.get(&ObjectKey::new(&*pod.namespace, &**name))?;
                let volume = facts.volume.as_ref().and_then(|name| self.volumes.get(&**name));
                let class = facts.class.as_ref().and_then(|name| self.classes.get(&**name));
                let (driver, topology) = match (volume, class) {
                    (Some(volume), _) => (volume.driver.clone(), volume.topology.clone()),
                    (None, Some(class)) => (class.driver.clone(), class.topology.clone()),
                    (None, None) => (None, Vec::new()),
                };
                Some(PodVolume {
                    claim: format!("{}/{name}", pod.namespace).into(),
                    driver,
                    topology,
                })
            })
            .collect();
        Arc::new(pod)
    }

    /// A waiting pod as the filters see it.
    pub(super) fn waiting(&mut self, pod: &ApiPod) -> Option<Arc<Pod>> {
        let known = self.convert(pod)?;
        Some(self.with_volumes(&known))
    }

    /// The reasons why an equal pod fits no node, if nothing has changed since they were found.
    pub(super) fn refusal(&self, pod: &Pod) -> Option<&str> {
        let same = |(other, _): &&(Arc<Pod>, String)| {
            Arc::ptr_eq(&other.shape, &pod.shape)
                && Arc::ptr_eq(&other.labels, &pod.labels)
                && other.namespace == pod.namespace
                && other.priority == pod.priority
        };
        let known = self.refusals.iter().find(same).filter(|_| pod.volumes.is_empty());
        known.map(|(_, message)| message.as_str())
    }

    pub(super) fn refused(&mut self, pod: Arc<Pod>, message: &str) {
        if pod.volumes.is_empty() && self.refusals.len() < REFUSALS {
            self.refusals.push((pod, message.to_owned()));
        }
    }

    /// The cluster as it is now, which of its nodes have pods with anti-affinity, and which pods are nominated.
    pub(super) fn snapshot(&mut self) -> (&Snapshot, &BTreeSet<Arc<str>>, &Nominations) {
        for name in std::mem::take(&mut self.dirty) {
            let at = self.snapshot.nodes.binary_search_by(|node| node.name.cmp(&name));
            let node = self.build(&name);
            let repels = |node: &Node| node.pods.iter().any(|pod| !pod.shape.anti_affinity.is_empty());
            if node.as_ref().is_some_and(repels) {
                self.repelling.insert(Arc::clone(&name));
            } else {
                self.repelling.remove(&name);
            }
            match (at, node) {
                (Ok(at), Some(node)) => self.snapshot.nodes[at] = Arc::new(node),
                (Ok(at), None) => drop(self.snapshot.nodes.remove(at)),
                (Err(at), Some(node)) => self.snapshot.nodes.insert(at, Arc::new(node)),
                (Err(_), None) => {}
            }
        }
        (&self.snapshot, &self.repelling, &self.nominations)
    }

    fn build(&self, name: &Arc<str>) -> Option<Node> {
        let (facts, cordoned) = self.nodes.get(name)?;
        let known = self.bound.get(&**name).into_iter().flat_map(BTreeMap::values);
        let pods: Vec<Arc<Pod>> = known.map(|known| self.with_volumes(known)).collect();
        let mut requested = Resources::new();
        for pod in &pods {
            requested.add(&pod.shape.requests);
        }
        let mut taints = facts.taints.clone();
        if *cordoned && !taints.iter().any(|taint| &*taint.key == UNSCHEDULABLE) {
            taints.push(Taint {
                key: UNSCHEDULABLE.into(),
                value: "".into(),
                effect: Effect::NoSchedule,
            });
        }
        let interner = &self.snapshot.interner;
        let hostname = facts.labels.binary_search_by_key(&sym::HOSTNAME, |label| label.0);
        let hostname = hostname.map_or_else(|_| interner.intern(name), |at| facts.labels[at].1);
        Some(Node {
            node_name: Some(Arc::clone(name)),
            provider_id: facts.provider_id.clone(),
            registered: true,
            initialized: true,
            labels: facts.labels.clone(),
            taints,
            capacity: facts.capacity.clone(),
            allocatable: facts.allocatable.clone(),
            requested,
            pods,
            volume_limits: self.limits.get(&**name).cloned().unwrap_or_default(),
            ..Node::empty(Arc::clone(name), hostname)
        })
    }
}
