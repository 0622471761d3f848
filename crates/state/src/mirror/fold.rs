//! The fold: how the events of each kind change the stores (STY-003).

use super::machines::{claim_key, node_key};
use super::store::Freshness;
use super::unlisted::Unlisted;
use super::{Mirror, PodEntry};
use crate::convert::{ClaimFacts, NodeFacts, PodFacts};
use crate::key::{Key, MachineKey};
use crate::lean::{LeanDaemonSet, LeanNode, LeanPod};
use crate::object::{Event, Identity, Kind, Mirrored, Object, ResetReport, shown};
use kerf_api::{NodeClaim, NodePool};
use kerf_model::pod::Pod;
use std::sync::Arc;

impl Mirror {
    /// Applies one event. Returns the report of a complete list.
    pub fn fold<K: Mirrored>(&mut self, event: Event<K>) -> Option<ResetReport> {
        match event {
            Event::Apply(object) => self.apply(object),
            Event::Delete(object) => self.delete(&object),
            Event::Reset(objects) => return Some(self.reset(objects)),
        }
        None
    }

    /// Applies the watch event of a new or changed object.
    pub fn apply<K: Mirrored>(&mut self, object: K) {
        self.apply_shared(&Arc::new(object));
    }

    /// The same for an object that is shared. An older state of an object than the known one changes nothing.
    pub fn apply_shared<K: Mirrored>(&mut self, object: &Arc<K>) {
        let Some(id) = Identity::of(K::KIND, object.meta()) else {
            return;
        };
        self.freshness_mut(K::KIND).note_event(&id);
        let is_stale = |known: Identity| known.uid == id.uid && id.version < known.version && id.version != 0;
        if !self.identity(K::KIND, &id.key).is_some_and(is_stale) {
            self.apply_object(&id, K::as_object(object));
        }
    }

    /// Applies the watch event of a deleted object. If its name is used again by then, the new object stays.
    pub fn delete<K: Mirrored>(&mut self, object: &K) {
        let Some(id) = Identity::of(K::KIND, object.meta()) else {
            return;
        };
        self.freshness_mut(K::KIND).note_event(&id);
        self.remove(K::KIND, &id);
    }

    /// Inserts a claim that was just created, without waiting for the watch (SCH-076), and returns whether the mirror changed. An older state
    /// than the known one changes nothing, and a claim that the watch showed to be gone is not inserted again.
    pub fn created(&mut self, claim: NodeClaim) -> bool {
        let Some(id) = Identity::of(Kind::NodeClaim, &claim.metadata) else {
            return false;
        };
        let store = &self.machines.claims;
        let is_news = match store.entry(&id.key).filter(|known| known.uid == id.uid) {
            Some(known) => known.version < id.version,
            None => store.freshness.may_insert(id.version) || store.entry(&id.key).is_some(),
        };
        if is_news {
            self.put_written(&id, claim);
        }
        is_news
    }

    /// Stores the answer to a write or a read of an object before the watch reports it, and returns whether the mirror changed. An older state
    /// than the known one, and an object that is not known, change nothing.
    pub fn wrote<K: Mirrored>(&mut self, object: K) -> bool {
        let Some(id) = Identity::of(K::KIND, object.meta()) else {
            return false;
        };
        let known = self.identity(K::KIND, &id.key);
        let is_news = known.is_some_and(|known| known.uid == id.uid && known.version < id.version);
        if is_news {
            self.put_written(&id, object);
        }
        is_news
    }

    fn put_written<K: Mirrored>(&mut self, id: &Identity, mut object: K) {
        // As in objects that the watch shows: nobody reads them, and they are most of an object's memory.
        object.meta_mut().managed_fields = None;
        self.freshness_mut(K::KIND).note_written(&id.key);
        self.apply_object(id, K::as_object(&Arc::new(object)));
    }

    /// Records that a complete list of a kind was requested. Objects written from now on stay even if the list is older than they are.
    pub fn expect_list(&mut self, kind: Kind) {
        self.freshness_mut(kind).expect_list();
    }

    /// Applies a complete list of the kind. Objects that are not in it are removed; the report names them.
    pub fn reset<K: Mirrored>(&mut self, objects: Vec<K>) -> ResetReport {
        let objects: Vec<Arc<K>> = objects.into_iter().map(Arc::new).collect();
        self.reset_but(&objects, &|_, _| false)
    }

    /// The same for a list with objects in it that could not be read: those, by namespace and name, stay as they were known. So does what
    /// was written here since the list was asked for, where the list is older.
    pub fn reset_but<K: Mirrored>(
        &mut self,
        objects: &[Arc<K>],
        unreadable: &dyn Fn(&str, &str) -> bool,
    ) -> ResetReport {
        let listed = objects
            .iter()
            .filter_map(|object| Some((Identity::of(K::KIND, object.meta())?, object)));
        let apply = |mirror: &mut Self, id: &Identity, object| mirror.apply_object(id, K::as_object(object));
        self.reset_listed(K::KIND, objects.len(), listed, apply, unreadable)
    }

    /// Applies a complete list of `count` objects of a kind, of which `listed` are those with a name and unique id; `apply` stores one of them.
    pub(super) fn reset_listed<T>(
        &mut self,
        kind: Kind,
        count: usize,
        listed: impl Iterator<Item = (Identity, T)>,
        apply: impl Fn(&mut Self, &Identity, T),
        unreadable: &dyn Fn(&str, &str) -> bool,
    ) -> ResetReport {
        let known = self.identities(kind);
        let mut report = ResetReport {
            kind,
            listed: count,
            before: known.len(),
            vanished: Vec::new(),
            deleted: 0,
            rewound: Vec::new(),
        };
        let written = self.freshness_mut(kind).begin_list();
        let mut left = Unlisted::new(known);
        for (id, object) in listed {
            self.freshness_mut(kind).note_event(&id);
            match left.take(&id.key) {
                // Most objects of a relist: the same version has the same content.
                Some(before) if before.uid == id.uid && before.version == id.version && id.version != 0 => continue,
                Some(before) if before.uid == id.uid && id.version < before.version => {
                    if written.contains(&id.key) {
                        continue;
                    }
                    report.rewound.push(shown(&id.key));
                }
                Some(before) if before.uid != id.uid => {
                    report.vanished.push(shown(&id.key));
                    let before = before.clone();
                    self.remove(kind, &before);
                }
                Some(_) | None => {}
            }
            apply(self, &id, object);
        }
        let stays = |id: &Identity| written.contains(&id.key) || unreadable(&id.key.0, &id.key.1);
        let (stay, gone): (Vec<Identity>, Vec<Identity>) = left.into_rest().partition(stays);
        report.listed += stay.len();
        for id in gone {
            report.vanished.push(shown(&id.key));
            report.deleted += usize::from(self.is_being_deleted(kind, &id.key));
            self.remove(kind, &id);
        }
        report.vanished.sort();
        report.rewound.sort();
        self.judge(&report);
        self.listed.insert(kind);
        report
    }

    /// Whether a Node or a NodeClaim is known to be being deleted.
    fn is_being_deleted(&self, kind: Kind, key: &Key) -> bool {
        match kind {
            Kind::Node => self.machines.nodes.get(key).is_some_and(|node| node.deleting),
            Kind::NodeClaim => self.machines.claims.get(key).is_some_and(|claim| claim.deleting),
            Kind::Pod
            | Kind::NodePool
            | Kind::DaemonSet
            | Kind::PersistentVolumeClaim
            | Kind::PersistentVolume
            | Kind::StorageClass
            | Kind::CsiNode
            | Kind::PodDisruptionBudget
            | Kind::Namespace
            | Kind::NodeOverlay
            | Kind::CapacityBuffer => false,
        }
    }

    /// Records whether a complete list is suspicious, and which of the missing objects are back.
    fn judge(&mut self, report: &ResetReport) {
        self.in_flight.suspicious_lists.judge(report);
        if self.in_flight.suspicious_lists.suspects(report.kind) {
            for id in self.identities(report.kind) {
                self.in_flight.suspicious_lists.present(report.kind, &id.key.1);
            }
        }
    }

    pub(super) fn identities(&self, kind: Kind) -> Vec<Identity> {
        match kind {
            Kind::Pod => self.pods.identities(),
            Kind::Node => self.machines.nodes.identities(),
            Kind::NodeClaim => self.machines.claims.identities(),
            Kind::NodePool => self.pools.table.identities(),
            Kind::DaemonSet => self.daemons.table.identities(),
            Kind::PersistentVolumeClaim => self.storage.claims.identities(),
            Kind::PersistentVolume => self.storage.volumes.identities(),
            Kind::StorageClass => self.storage.classes.identities(),
            Kind::CsiNode => self.machines.limits.identities(),
            Kind::PodDisruptionBudget => self.pdbs.identities(),
            Kind::Namespace => self.namespaces.identities(),
            Kind::NodeOverlay => self.overlays.identities(),
            Kind::CapacityBuffer => self.capacity_buffers.objects.identities(),
        }
    }

    /// The unique id and the version of an object.
    fn identity(&self, kind: Kind, key: &Key) -> Option<Identity> {
        match kind {
            Kind::Pod => self.pods.identity(key),
            Kind::Node => self.machines.nodes.identity(key),
            Kind::NodeClaim => self.machines.claims.identity(key),
            Kind::NodePool => self.pools.table.identity(key),
            Kind::DaemonSet => self.daemons.table.identity(key),
            Kind::PersistentVolumeClaim => self.storage.claims.identity(key),
            Kind::PersistentVolume => self.storage.volumes.identity(key),
            Kind::StorageClass => self.storage.classes.identity(key),
            Kind::CsiNode => self.machines.limits.identity(key),
            Kind::PodDisruptionBudget => self.pdbs.identity(key),
            Kind::Namespace => self.namespaces.identity(key),
            Kind::NodeOverlay => self.overlays.identity(key),
            Kind::CapacityBuffer => self.capacity_buffers.objects.identity(key),
        }
    }

    pub(super) fn freshness(&self, kind: Kind) -> &Freshness {
        match kind {
            Kind::Pod => &self.pods.freshness,
            Kind::Node => &self.machines.nodes.freshness,
            Kind::NodeClaim => &self.machines.claims.freshness,
            Kind::NodePool => &self.pools.table.freshness,
            Kind::DaemonSet => &self.daemons.table.freshness,
            Kind::PersistentVolumeClaim => &self.storage.claims.freshness,
            Kind::PersistentVolume => &self.storage.volumes.freshness,
            Kind::StorageClass => &self.storage.classes.freshness,
            Kind::CsiNode => &self.machines.limits.freshness,
            Kind::PodDisruptionBudget => &self.pdbs.freshness,
            Kind::Namespace => &self.namespaces.freshness,
            Kind::NodeOverlay => &self.overlays.freshness,
            Kind::CapacityBuffer => &self.capacity_buffers.objects.freshness,
        }
    }

    fn freshness_mut(&mut self, kind: Kind) -> &mut Freshness {
        match kind {
            Kind::Pod => &mut self.pods.freshness,
            Kind::Node => &mut self.machines.nodes.freshness,
            Kind::NodeClaim => &mut self.machines.claims.freshness,
            Kind::NodePool => &mut self.pools.table.freshness,
            Kind::DaemonSet => &mut self.daemons.table.freshness,
            Kind::PersistentVolumeClaim => &mut self.storage.claims.freshness,
            Kind::PersistentVolume => &mut self.storage.volumes.freshness,
            Kind::StorageClass => &mut self.storage.classes.freshness,
            Kind::CsiNode => &mut self.machines.limits.freshness,
            Kind::PodDisruptionBudget => &mut self.pdbs.freshness,
            Kind::Namespace => &mut self.namespaces.freshness,
            Kind::NodeOverlay => &mut self.overlays.freshness,
            Kind::CapacityBuffer => &mut self.capacity_buffers.objects.freshness,
        }
    }

    fn apply_object(&mut self, id: &Identity, object: Object<'_>) {
        match object {
            Object::Pod(pod) => {
                if let Some(entry) = self.pod_entry(pod) {
                    self.put_pod(id.version, entry);
                }
            }
            Object::Node(node) => {
                self.in_flight.suspicious_lists.present(Kind::Node, &id.key.1);
                if let Some(facts) = self.converter.node(node) {
                    self.set_node(id, Some((Arc::clone(node), facts)));
                }
            }
            Object::NodeClaim(claim) => self.apply_claim(id, claim),
            Object::NodePool(pool) => self.apply_pool(id, pool),
            Object::DaemonSet(daemon_set) => self.apply_daemon_set(id, daemon_set),
            Object::PersistentVolumeClaim(claim) => {
                let facts = self.converter.pvc(claim);
                self.storage.rebind(&id.key, Some(&facts));
                let before = self.storage.claims.put(id, (), facts).map(|entry| entry.facts);
                if before.as_ref() != self.storage.claims.get(&id.key) {
                    self.resolve_again(self.storage.users_of_claim(&id.key));
                }
            }
            Object::PersistentVolume(volume) => {
                let facts = self.converter.pv(volume);
                let before = self.storage.volumes.put(id, (), facts).map(|entry| entry.facts);
                if before.as_ref() != self.storage.volumes.get(&id.key) {
                    self.resolve_again(self.storage.users_of_volume(&id.key.1));
                }
            }
            Object::StorageClass(class) => {
                let facts = self.converter.storage_class(class);
                let before = self.storage.classes.put(id, (), facts).map(|entry| entry.facts);
                if before.as_ref() != self.storage.classes.get(&id.key) {
                    self.resolve_again(self.storage.users_of_class(&id.key.1));
                }
            }
            Object::CsiNode(csi_node) => {
                let limits = self.converter.volume_limits(csi_node);
                let before = self.machines.limits.put(id, (), limits).map(|entry| entry.facts);
                if before.as_ref() != self.machines.limits.get(&id.key) {
                    self.touch_node(&id.key.1);
                }
            }
            Object::PodDisruptionBudget(pdb) => {
                let Some(facts) = self.converter.pdb(pdb).map(Arc::new) else {
                    return;
                };
                let before = self.pdbs.put(id, (), Arc::clone(&facts));
                self.dirty.pdbs |= before.is_none_or(|before| before.facts != facts);
            }
            Object::Namespace(namespace) => {
                let labels = self.converter.label_set(namespace.metadata.labels.as_ref());
                let before = self.namespaces.put(id, (), Arc::clone(&labels));
                self.dirty.namespaces |= before.is_none_or(|before| before.facts != labels);
            }
            Object::NodeOverlay(overlay) => drop(self.overlays.put(id, Arc::clone(overlay), ())),
            Object::CapacityBuffer(buffer) => drop(self.capacity_buffers.objects.put(id, Arc::clone(buffer), ())),
        }
    }

    fn remove(&mut self, kind: Kind, id: &Identity) {
        match kind {
            Kind::Pod => self.remove_pod(id),
            Kind::Node => self.set_node(id, None),
            Kind::NodeClaim => self.set_claim(id, None),
            Kind::NodePool => {
                if let Some(entry) = self.pools.table.take(id) {
                    self.pools.forget(&id.key.1, entry.facts.pool.label);
                    self.dirty.pools = true;
                    self.touch_pool(entry.facts.pool.label);
                }
            }
            Kind::DaemonSet => self.dirty.daemons |= self.daemons.table.take(id).is_some(),
            Kind::PersistentVolumeClaim => {
                if self.storage.claims.entry(&id.key).is_some_and(|known| known.is(id)) {
                    self.storage.rebind(&id.key, None);
                    self.storage.claims.take(id);
                    self.resolve_again(self.storage.users_of_claim(&id.key));
                }
            }
            Kind::PersistentVolume => {
                if self.storage.volumes.take(id).is_some() {
                    self.resolve_again(self.storage.users_of_volume(&id.key.1));
                }
            }
            Kind::StorageClass => {
                if self.storage.classes.take(id).is_some() {
                    self.resolve_again(self.storage.users_of_class(&id.key.1));
                }
            }
            Kind::CsiNode => {
                if self.machines.limits.take(id).is_some() {
                    self.touch_node(&id.key.1);
                }
            }
            Kind::PodDisruptionBudget => self.dirty.pdbs |= self.pdbs.take(id).is_some(),
            Kind::Namespace => self.dirty.namespaces |= self.namespaces.take(id).is_some(),
            Kind::NodeOverlay => drop(self.overlays.take(id)),
            Kind::CapacityBuffer => {
                if self.capacity_buffers.objects.take(id).is_some() {
                    self.set_buffer_pods(&id.key, Vec::new());
                }
            }
        }
    }

    /// `None` without a name or unique id.
    pub(super) fn pod_entry(&mut self, lean: &LeanPod) -> Option<PodEntry> {
        self.converter.pod(lean).map(PodEntry::new)
    }

    pub(super) fn put_pod(&mut self, version: u64, entry: PodEntry) {
        // The texts of the pod serve as its key, so that they are stored once.
        let id = &Identity {
            key: (Arc::clone(&entry.base.namespace), Arc::clone(&entry.base.name)),
            uid: Arc::clone(&entry.base.uid),
            version,
        };
        let before = match self.pods.get(&id.key) {
            Some(known) if known.base.uid != id.uid => {
                let uid = Arc::clone(&known.base.uid);
                self.remove_pod(&Identity { uid, ..id.clone() });
                None
            }
            Some(known) if known.same(&entry) => {
                self.pods.set_version(&id.key, id.version);
                if let Some(known) = self.pods.get_mut(&id.key) {
                    known.nomination = entry.nomination;
                }
                return;
            }
            Some(_) => self.pods.take(id).map(|known| known.facts),
            None => None,
        };
        if let Some(before) = &before {
            self.detach(&id.key, before);
        }
        let bound_before = before.as_ref().and_then(|before| before.base.node_name.as_ref());
        if entry.base.node_name.as_ref() != bound_before {
            // It is bound now, so its promise ends, and consolidation searches again (LIF-207).
            self.epoch += u64::from(entry.base.node_name.is_some());
            self.withdraw_promise(&id.key);
        }
        self.storage.uses(&id.key, &entry.claims);
        if let Some(daemon_set) = &entry.daemon_set {
            self.dirty.daemons |= self.daemons.joins(daemon_set, entry.base.created, &id.key);
        }
        self.pods.put(id, (), entry);
        self.resolve(&id.key);
    }

    fn remove_pod(&mut self, id: &Identity) {
        let Some(entry) = self.pods.take(id) else { return };
        self.detach(&id.key, &entry.facts);
        self.withdraw_promise(&id.key);
        self.in_flight.pod_times.forget(&id.key.0, &id.key.1);
        self.epoch += 1;
        self.refresh_pending(&id.key);
    }

    pub(super) fn withdraw_promise(&mut self, pod: &Key) {
        let claim = self.in_flight.promises.withdraw(pod);
        self.dirty.machines.extend(claim.map(MachineKey::Planned));
    }

    /// Removes a pod from every index.
    fn detach(&mut self, key: &Key, entry: &PodEntry) {
        self.storage.unuses(key, &entry.claims);
        if let Some(daemon_set) = &entry.daemon_set {
            self.dirty.daemons |= self.daemons.leaves(daemon_set, entry.base.created, key);
        }
        if let Some(node) = entry.occupied() {
            self.occupancy.remove(node, key);
            self.touch_node(node);
        }
    }

    fn resolve_again(&mut self, pods: Vec<Key>) {
        for key in pods {
            self.resolve(&key);
        }
    }

    /// Resolves a pod's volumes again and updates everything that shows the pod.
    fn resolve(&mut self, key: &Key) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        if !entry.claims.is_empty() {
            let mut pod = Pod::clone(&entry.base);
            let (volumes, faults) = self.storage.resolve(&pod, &entry.claims, &self.converter);
            pod.volumes = volumes;
            pod.faults.extend(faults);
            entry.pod = Arc::new(pod);
        }
        let (node, uid) = (entry.occupied().cloned(), Arc::clone(&entry.base.uid));
        if let Some(node) = node {
            self.occupancy.put(&node, Arc::clone(&entry.pod));
            self.touch_node(&node);
        }
        let promised = self.in_flight.promises.of_pod(key, &uid).cloned();
        self.dirty.machines.extend(promised.map(MachineKey::Planned));
        self.refresh_pending(key);
    }

    fn apply_daemon_set(&mut self, id: &Identity, lean: &LeanDaemonSet) {
        let spec = &lean.spec.template.spec;
        let required = spec.affinity.node_affinity.required.is_some();
        let facts = super::daemons::DaemonFacts {
            template: self.converter.template_shape(lean),
            terms: required.then(|| self.converter.required_terms(spec)),
            ignored: self.converter.refuses_claims(spec),
        };
        let before = self.daemons.table.put(id, (), facts);
        let entry = self.daemons.table.entry(&id.key);
        let same =
            before.is_some_and(|before| entry.is_some_and(|now| now.uid == before.uid && now.facts == before.facts));
        self.dirty.daemons |= !same;
    }

    /// Marks the machine of a node for the next update.
    fn touch_node(&mut self, name: &Arc<str>) {
        self.dirty
            .machines
            .extend(self.machines.nodes.named(name).and_then(node_key));
    }

    fn set_node(&mut self, id: &Identity, node: Option<(Arc<LeanNode>, NodeFacts)>) {
        let Some(before) = self.machines.set_node(id, node) else {
            return;
        };
        let after = self.machines.nodes.get(&id.key);
        if before.as_ref() == after {
            return;
        }
        self.epoch += u64::from(after.is_none());
        self.dirty.machines.extend(before.as_ref().and_then(node_key));
        self.dirty.machines.extend(after.and_then(node_key));
    }

    fn apply_claim(&mut self, id: &Identity, claim: &Arc<NodeClaim>) {
        // LIF-005: Kerf ignores claims of other providers' node classes.
        if !self.converter.serves(&claim.spec.node_class_ref) {
            self.set_claim(id, None);
            self.machines.claims.freshness.note_foreign(id);
            return;
        }
        self.in_flight.suspicious_lists.present(Kind::NodeClaim, &id.key.1);
        if let Some(facts) = self.converter.claim(claim) {
            self.set_claim(id, Some((Arc::clone(claim), facts)));
        }
    }

    fn set_claim(&mut self, id: &Identity, claim: Option<(Arc<NodeClaim>, ClaimFacts)>) {
        let Some(before) = self.machines.set_claim(id, claim) else {
            return;
        };
        let after = self.machines.claims.get(&id.key);
        if before.as_ref() == after {
            return;
        }
        self.epoch += u64::from(after.is_none());
        let same_claim = before.as_ref().map(|claim| &claim.uid) == after.map(|claim| &claim.uid);
        if let Some(gone) = before.as_ref().filter(|_| !same_claim) {
            self.in_flight.replacements.forget(&gone.uid);
        }
        let waits = after.is_some_and(|claim| claim.provider_id.is_none() && !claim.deleting);
        self.dirty.machines.extend(before.as_ref().map(claim_key));
        self.dirty.machines.extend(after.map(claim_key));
        if !waits || !same_claim {
            self.end_promise(&id.key.1);
        }
    }

    fn apply_pool(&mut self, id: &Identity, pool: &Arc<NodePool>) {
        // Offline, pools of other providers' node classes are shown with the reason why they are not used.
        if !self.offline && !self.converter.serves(&pool.spec.template.spec.node_class_ref) {
            self.remove(Kind::NodePool, id);
            self.pools.table.freshness.note_foreign(id);
            return;
        }
        let Some(facts) = self.converter.pool(pool, self.offline) else {
            return;
        };
        let (generation, managed) = (facts.generation, facts.managed);
        let before = self.pools.table.put(id, Arc::clone(pool), facts);
        let before = before.map(|entry| entry.facts);
        let moved = before.as_ref().is_none_or(|before| before.generation != generation);
        self.epoch += u64::from(managed && moved);
        self.dirty.pools |= before.as_ref() != self.pools.table.get(&id.key);
    }
}

impl PodEntry {
    fn new(facts: PodFacts) -> Self {
        let base = Arc::new(facts.pod);
        Self {
            pod: Arc::clone(&base),
            base,
            claims: facts.claims.into(),
            provisionable: facts.provisionable,
            untried: facts.untried,
            gated: facts.gated,
            daemon_set: facts.daemon_set,
            nomination: facts.nomination,
            measures: facts.measures,
        }
    }

    /// Whether everything that decisions read of the pod is equal.
    fn same(&self, other: &Self) -> bool {
        self.base == other.base
            && self.claims == other.claims
            && self.provisionable == other.provisionable
            && self.untried == other.untried
            && self.gated == other.gated
            && self.daemon_set == other.daemon_set
            && self.measures == other.measures
    }

    /// The node whose resources the pod holds: bound and not terminal, terminating or not (SCH-063, SCH-064).
    fn occupied(&self) -> Option<&Arc<str>> {
        self.base.node_name.as_ref().filter(|_| !self.base.phase.is_terminal())
    }
}
