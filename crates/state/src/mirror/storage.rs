//! Volume claims, volumes and classes, and which pods depend on them.

use super::store::Store;
use crate::convert::{ClassFacts, Converter, PvFacts, PvcFacts, VolumeSource, missing_claim};
use crate::key::Key;
use kerf_model::pod::{Pod, PodFault, PodVolume};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tables from which pods' volumes are resolved.
#[derive(Default, Debug)]
pub(super) struct Storage {
    pub(super) claims: Store<PvcFacts>,
    pub(super) volumes: Store<PvFacts>,
    pub(super) classes: Store<ClassFacts>,
    /// Which pods use a claim, be it known or not.
    users: BTreeMap<Key, BTreeSet<Key>>,
    /// Which claims name a volume.
    by_volume: BTreeMap<Arc<str>, BTreeSet<Key>>,
}

impl Storage {
    /// Records that a pod uses its claims.
    pub(super) fn uses(&mut self, pod: &Key, claims: &[Arc<str>]) {
        for claim in claims {
            self.users
                .entry((Arc::clone(&pod.0), Arc::clone(claim)))
                .or_default()
                .insert(pod.clone());
        }
    }

    /// Records that a pod no longer uses its claims.
    pub(super) fn unuses(&mut self, pod: &Key, claims: &[Arc<str>]) {
        for claim in claims {
            let claim = (Arc::clone(&pod.0), Arc::clone(claim));
            remove(&mut self.users, &claim, pod);
        }
    }

    /// Updates which claim names which volume, for a claim that is about to be put in place or removed.
    pub(super) fn rebind(&mut self, claim: &Key, after: Option<&PvcFacts>) {
        let volume = |facts: Option<&PvcFacts>| facts.and_then(|facts| facts.volume.clone());
        let (before, after) = (volume(self.claims.get(claim)), volume(after));
        if before == after {
            return;
        }
        if let Some(volume) = before {
            remove(&mut self.by_volume, &volume, claim);
        }
        if let Some(volume) = after {
            self.by_volume.entry(volume).or_default().insert(claim.clone());
        }
    }

    /// The pods that use a claim.
    pub(super) fn users_of_claim(&self, claim: &Key) -> Vec<Key> {
        self.users.get(claim).into_iter().flatten().cloned().collect()
    }

    /// The pods whose claims are bound to a volume.
    pub(super) fn users_of_volume(&self, volume: &Arc<str>) -> Vec<Key> {
        let claims = self.by_volume.get(volume).into_iter().flatten();
        claims.flat_map(|claim| self.users_of_claim(claim)).collect()
    }

    /// The pods whose claims name a class. Classes change rarely, so all claims are looked through.
    pub(super) fn users_of_class(&self, class: &Arc<str>) -> Vec<Key> {
        let claims = self
            .claims
            .iter()
            .filter(|(_, facts)| facts.class.as_ref() == Some(class));
        claims.flat_map(|(claim, _)| self.users_of_claim(claim)).collect()
    }

    /// A pod's volumes and, for one that is not bound, why they cannot be used.
    pub(super) fn resolve(
        &self,
        pod: &Pod,
        claims: &[Arc<str>],
        converter: &Converter,
    ) -> (Vec<PodVolume>, Vec<PodFault>) {
        let (mut volumes, mut faults) = (Vec::with_capacity(claims.len()), Vec::new());
        let waiting = pod.node_name.is_none();
        for name in claims {
            let key = (Arc::clone(&pod.namespace), Arc::clone(name));
            let Some(claim) = self.claims.get(&key) else {
                // SCH-176: a claim that is not there uses nothing.
                faults.extend(waiting.then(|| missing_claim(name)));
                continue;
            };
            let source = VolumeSource {
                claim,
                volume: claim.volume.as_ref().and_then(|name| self.volumes.named(name)),
                class: claim.class.as_ref().and_then(|name| self.classes.named(name)),
            };
            if waiting {
                faults.extend(converter.volume_fault(source));
            }
            volumes.push(converter.volume(format!("{}/{name}", key.0).into(), source));
        }
        (volumes, faults)
    }
}

fn remove<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}
