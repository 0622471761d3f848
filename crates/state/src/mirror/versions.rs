//! The versions of the objects in the mirror, for the comparison with the API server.

use super::Mirror;
use crate::object::{Identity, Kind};
use std::sync::Arc;

/// A version of an object in the mirror.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectVersion {
    /// Its namespace, empty for cluster-wide kinds.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its unique id.
    pub uid: Arc<str>,
    /// Its resource version as a number, 0 where there is none.
    pub version: u64,
}

impl From<Identity> for ObjectVersion {
    fn from(id: Identity) -> Self {
        Self {
            namespace: id.key.0,
            name: id.key.1,
            uid: id.uid,
            version: id.version,
        }
    }
}

impl Mirror {
    /// All objects of a kind that the watch has shown, those of other providers included.
    pub fn versions(&self, kind: Kind) -> Vec<ObjectVersion> {
        let foreign = self.freshness(kind).foreign();
        let all = self.identities(kind).into_iter().chain(foreign);
        all.map(ObjectVersion::from).collect()
    }

    /// The highest version that the watch of a kind has delivered since the last complete list, the list included.
    pub fn watch_position(&self, kind: Kind) -> u64 {
        self.freshness(kind).seen()
    }

    /// The pods that are not bound to a node, by namespace and name.
    pub fn versions_of_unbound_pods(&self) -> Vec<ObjectVersion> {
        let entries = self.pods.entries();
        let unbound = entries.filter(|(_, entry)| entry.facts.pod.node_name.is_none());
        unbound
            .map(|(key, entry)| ObjectVersion::from(entry.identity(key)))
            .collect()
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Pod => self.pods.len(),
            Kind::Node => self.machines.nodes.len(),
            Kind::NodeClaim => self.machines.claims.len(),
            Kind::NodePool => self.pools.table.len(),
            Kind::DaemonSet => self.daemons.table.len(),
            Kind::PersistentVolumeClaim => self.storage.claims.len(),
            Kind::PersistentVolume => self.storage.volumes.len(),
            Kind::StorageClass => self.storage.classes.len(),
            Kind::CsiNode => self.machines.limits.len(),
            Kind::PodDisruptionBudget => self.pdbs.len(),
            Kind::Namespace => self.namespaces.len(),
            Kind::NodeOverlay => self.overlays.len(),
            Kind::CapacityBuffer => self.capacity_buffers.objects.len(),
        }
    }
}
