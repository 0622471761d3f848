//! CapacityBuffers and the virtual pods that keep their room.

use super::Mirror;
use super::store::Store;
use crate::capacity_buffer::{Referent, TooManyReplicas, replicas, virtual_pods};
use crate::key::{Key, MachineKey};
use crate::object::{Identity, Kind};
use jiff::Timestamp;
use kerf_api::CapacityBuffer;
use kerf_model::pod::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The buffers, and the virtual pods of those that were resolved.
#[derive(Default, Debug)]
pub(super) struct CapacityBuffers {
    pub(super) objects: Store<(), Arc<CapacityBuffer>>,
    /// By buffer; a buffer without virtual pods is not in it.
    virtual_pods: BTreeMap<Key, Vec<Arc<Pod>>>,
}

impl CapacityBuffers {
    /// These pods, sorted by namespace and name, and all virtual ones, in the same order (SCH-388).
    pub(super) fn with_virtual_pods<'a>(&self, pods: impl Iterator<Item = &'a Arc<Pod>>) -> Vec<Arc<Pod>> {
        let mut all: Vec<Arc<Pod>> = pods.cloned().collect();
        if !self.virtual_pods.is_empty() {
            all.extend(self.virtual_pods.values().flatten().cloned());
            all.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        }
        all
    }
}

impl Mirror {
    /// A CapacityBuffer.
    pub fn capacity_buffer(&self, namespace: &str, name: &str) -> Option<Arc<CapacityBuffer>> {
        let key = (Arc::from(namespace), Arc::from(name));
        let entry = self.capacity_buffers.objects.entry(&key)?;
        Some(Arc::clone(&entry.object))
    }

    /// All CapacityBuffers, by namespace and name.
    pub fn capacity_buffers(&self) -> Vec<Arc<CapacityBuffer>> {
        self.capacity_buffers.objects.objects()
    }

    /// How many virtual pods a buffer asks for (SCH-381); an error if it asks for more than are kept.
    pub fn buffer_replicas(&mut self, buffer: &CapacityBuffer, referent: &Referent) -> Result<i32, TooManyReplicas> {
        replicas(&mut self.converter, buffer, referent)
    }

    /// Keeps room for `replicas` pods of a buffer from now on. Nothing is kept for a buffer that is gone (SCH-390).
    pub fn keep_buffer(&mut self, buffer: &CapacityBuffer, referent: &Referent, replicas: i32, now: Timestamp) {
        let Some(Identity { key, .. }) = Identity::of(Kind::CapacityBuffer, &buffer.metadata) else {
            return;
        };
        let pods = virtual_pods(&mut self.converter, buffer, referent, replicas, now);
        let is_there = self.capacity_buffers.objects.entry(&key).is_some();
        self.set_buffer_pods(&key, if is_there { pods } else { Vec::new() });
    }

    /// Keeps no room for a buffer any more.
    pub fn drop_buffer(&mut self, namespace: &str, name: &str) {
        self.set_buffer_pods(&(Arc::from(namespace), Arc::from(name)), Vec::new());
    }

    pub(super) fn set_buffer_pods(&mut self, key: &Key, pods: Vec<Arc<Pod>>) {
        let kept = &mut self.capacity_buffers.virtual_pods;
        // The time of creation is new each time a buffer is resolved.
        let unaged = |pod: &Arc<Pod>| Pod {
            created: Timestamp::UNIX_EPOCH,
            ..Pod::clone(pod)
        };
        let before = kept.get(key).map_or(&[][..], Vec::as_slice);
        if before.iter().map(unaged).eq(pods.iter().map(unaged)) {
            return;
        }
        match pods.is_empty() {
            true => drop(kept.remove(key)),
            false => drop(kept.insert(key.clone(), pods)),
        }
        self.dirty.pending = true;
        self.reconsider_consolidation();
    }

    /// Records how many virtual pods the last provisioning pass placed on each machine, by its name in snapshots. All earlier figures are
    /// replaced (SCH-394, LIF-206).
    pub fn set_buffer_pods_on_machines<'a>(&mut self, figures: impl IntoIterator<Item = (&'a str, u32)>) {
        let by_key = figures
            .into_iter()
            .filter_map(|(name, count)| Some((self.key_shown(name)?, count)));
        let by_key: BTreeMap<MachineKey, u32> = by_key.collect();
        let changed = self.in_flight.buffer_pods.replace(by_key);
        self.dirty.machines.extend(changed);
    }

    /// Frees as much of a NodeClaim that is not launched yet as was requested for virtual pods, which are never promised to it.
    pub fn free_buffer_room<'a>(&mut self, claim: &str, virtual_pods: impl IntoIterator<Item = &'a Arc<Pod>>) {
        let name = self.converter.text(claim);
        let mut free = kerf_model::resources::Resources::new();
        for pod in virtual_pods {
            free.add(&pod.shape.requests);
        }
        if !free.is_empty() && self.in_flight.promises.free(&name, &free) {
            self.dirty.machines.insert(MachineKey::Planned(name));
        }
    }
}
