//! What the mirror knows objects as, for those who compare it with the API server.

use super::Mirror;
use crate::object::{Identity, Kind};
use std::sync::Arc;

/// An object as the mirror knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// Its namespace, empty for cluster-wide kinds.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its unique id.
    pub uid: Arc<str>,
    /// Its resource version as a number, 0 where there is none.
    pub version: u64,
}

impl From<Identity> for Known {
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
    /// All objects of a kind, by namespace and name.
    pub fn known(&self, kind: Kind) -> Vec<Known> {
        self.identities(kind).into_iter().map(Known::from).collect()
    }

    /// The pods that are not bound to a node, by namespace and name.
    pub fn known_unbound(&self) -> Vec<Known> {
        let unbound = self
            .pods
            .entries()
            .filter(|(_, entry)| entry.facts.pod.node_name.is_none());
        unbound.map(|(key, entry)| Known::from(entry.identity(key))).collect()
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
        }
    }
}
