//! CapacityBuffers in the cluster's memory.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::CapacityBuffer;
use kerf_model::pod::Pod;
use kerf_runtime::ObjectKey;
use kerf_state::capacity_buffer::{Referent, TooManyReplicas};
use kerf_state::{Kind, Mirror};

use super::fold::{Keys, diff, log, relisted, reset};
use super::{CheckedKind, Cluster, Watched};
use crate::changes::{Change, Diff};

/// Namespace and name; `None` without a name.
pub(crate) fn key(buffer: &CapacityBuffer) -> Option<ObjectKey> {
    let meta = &buffer.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    Some(ObjectKey::new(namespace, meta.name.as_deref()?))
}

/// Changes the mirror by `act` and returns the change of the buffer.
fn change(cluster: &Cluster, buffer: &CapacityBuffer, act: impl FnOnce(&mut Mirror)) -> Vec<Change> {
    let Some(ObjectKey { namespace, name }) = key(buffer) else {
        return Vec::new();
    };
    let mut inner = cluster.lock();
    let before = inner.mirror.capacity_buffer(&namespace, &name);
    act(&mut inner.mirror);
    let after = inner.mirror.capacity_buffer(&namespace, &name);
    diff(name, before, after).map(Change::Buffer).into_iter().collect()
}

impl Watched for CapacityBuffer {
    const CHECKED: CheckedKind = CheckedKind::Mirrored(Kind::CapacityBuffer);
    type Listed = Arc<Self>;

    fn apply(cluster: &Cluster, object: Self) -> Vec<Change> {
        let object = Arc::new(object);
        change(cluster, &object, |mirror| mirror.apply_shared(&object))
    }

    fn delete(cluster: &Cluster, object: &Self) -> Vec<Change> {
        change(cluster, object, |mirror| mirror.delete(object))
    }

    fn expect_list(cluster: &Cluster) {
        cluster.lock().mirror.expect_list(Kind::CapacityBuffer);
    }

    fn listed(_cluster: &Cluster, object: Self) -> Option<Arc<Self>> {
        Some(Arc::new(object))
    }

    fn reset(cluster: &Cluster, objects: Vec<Arc<Self>>, unreadable: &Keys) -> Vec<Change> {
        let mut inner = cluster.lock();
        let before = inner.mirror.capacity_buffers();
        let report = reset(&mut inner.mirror, &objects, unreadable);
        let after = inner.mirror.capacity_buffers();
        drop(inner);
        log(&report);
        relisted(before, after, key).map(Change::Buffer).collect()
    }
}

impl Diff<CapacityBuffer> {
    /// Namespace and name of the buffer.
    pub(crate) fn buffer_key(&self) -> Option<ObjectKey> {
        key(self.last()?)
    }
}

impl Cluster {
    /// A CapacityBuffer.
    pub fn capacity_buffer(&self, namespace: &str, name: &str) -> Option<Arc<CapacityBuffer>> {
        self.read().mirror.capacity_buffer(namespace, name)
    }

    /// All CapacityBuffers, by namespace and name; none with the gate off.
    pub fn capacity_buffers(&self) -> Vec<Arc<CapacityBuffer>> {
        self.read().mirror.capacity_buffers()
    }

    /// Stores the answer to a write of a CapacityBuffer.
    pub(crate) fn wrote_buffer(&self, buffer: CapacityBuffer) {
        let shown = buffer.clone();
        let changes = change(self, &shown, |mirror| {
            mirror.wrote(buffer);
        });
        self.notify(changes);
    }

    /// How many virtual pods a buffer asks for; see [`Mirror::buffer_replicas`].
    pub(crate) fn buffer_replicas(&self, buffer: &CapacityBuffer, referent: &Referent) -> Result<i32, TooManyReplicas> {
        self.lock().mirror.buffer_replicas(buffer, referent)
    }

    /// Keeps room for a buffer; see [`Mirror::keep_buffer`].
    pub(crate) fn keep_buffer(&self, buffer: &CapacityBuffer, referent: &Referent, replicas: i32, now: Timestamp) {
        self.lock().mirror.keep_buffer(buffer, referent, replicas, now);
    }

    /// Keeps no room for a buffer any more.
    pub(crate) fn drop_buffer(&self, namespace: &str, name: &str) {
        self.lock().mirror.drop_buffer(namespace, name);
    }

    /// Records where the last pass placed virtual pods; see [`Mirror::set_buffer_pods_on_machines`].
    pub(crate) fn set_buffer_pods<'a>(&self, figures: impl IntoIterator<Item = (&'a str, u32)>) {
        self.lock().mirror.set_buffer_pods_on_machines(figures);
    }

    /// Leaves room for virtual pods on a claim that is not launched yet; see [`Mirror::free_buffer_room`].
    pub(crate) fn free_buffer_room<'a>(&self, claim: &str, pods: impl IntoIterator<Item = &'a Arc<Pod>>) {
        self.lock().mirror.free_buffer_room(claim, pods);
    }
}
