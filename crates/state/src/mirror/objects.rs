//! The API objects that controllers read and write, as the mirror keeps them.

use super::Mirror;
use crate::lean::LeanNode;
use crate::object::Mirrored;
use kerf_api::{NodeClaim, NodeOverlay, NodePool};
use std::sync::Arc;

/// A cluster-wide kind whose objects the mirror keeps as they are.
pub trait Stored: Mirrored {
    /// The object of a name.
    fn named(mirror: &Mirror, name: &str) -> Option<Arc<Self>>;
    /// All objects, by name.
    fn all(mirror: &Mirror) -> Vec<Arc<Self>>;
}

impl Stored for LeanNode {
    fn named(mirror: &Mirror, name: &str) -> Option<Arc<Self>> {
        mirror.machines.nodes.object(name)
    }
    fn all(mirror: &Mirror) -> Vec<Arc<Self>> {
        mirror.machines.nodes.objects()
    }
}

impl Stored for NodeClaim {
    fn named(mirror: &Mirror, name: &str) -> Option<Arc<Self>> {
        mirror.machines.claims.object(name)
    }
    fn all(mirror: &Mirror) -> Vec<Arc<Self>> {
        mirror.machines.claims.objects()
    }
}

impl Stored for NodePool {
    fn named(mirror: &Mirror, name: &str) -> Option<Arc<Self>> {
        mirror.pools.table.object(name)
    }
    fn all(mirror: &Mirror) -> Vec<Arc<Self>> {
        mirror.pools.table.objects()
    }
}

impl Stored for NodeOverlay {
    fn named(mirror: &Mirror, name: &str) -> Option<Arc<Self>> {
        mirror.overlays.object(name)
    }
    fn all(mirror: &Mirror) -> Vec<Arc<Self>> {
        mirror.overlays.objects()
    }
}

impl Mirror {
    /// The Nodes of an instance, by name; more than one is a fault to report.
    pub fn nodes_by_provider_id(&self, id: &str) -> Vec<Arc<LeanNode>> {
        self.machines.nodes_with(id)
    }

    /// The NodeClaims of an instance, by name; more than one is a fault to report.
    pub fn claims_by_provider_id(&self, id: &str) -> Vec<Arc<NodeClaim>> {
        self.machines.claims_with(id)
    }
}
