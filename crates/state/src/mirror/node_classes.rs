//! Node classes, one store per kind. Decisions read them through NodePools and catalogues only.

use super::Mirror;
use super::store::Store;
use super::versions::ObjectVersion;
use crate::node_class::NodeClass;
use kerf_api::{NodeClassKind, NodeClassRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The node classes by kind.
pub(super) type NodeClasses = BTreeMap<NodeClassKind, Store<(), Arc<NodeClass>>>;

impl Mirror {
    /// The class that a reference names.
    pub fn node_class(&self, reference: &NodeClassRef) -> Option<Arc<NodeClass>> {
        let NodeClassRef { group, kind, name } = reference;
        let mut stores = self.node_classes.iter();
        let is_meant = |(known, _): &(&NodeClassKind, _)| known.group == group && known.kind == kind;
        stores.find(is_meant)?.1.object(name)
    }

    /// All classes, by kind and name.
    pub fn node_classes(&self) -> Vec<Arc<NodeClass>> {
        self.node_classes.values().flat_map(Store::objects).collect()
    }

    /// The versions of the classes of one kind.
    pub fn versions_of_node_classes(&self, kind: NodeClassKind) -> Vec<ObjectVersion> {
        let store = self.node_classes.get(&kind);
        let identities = store.map(Store::identities).unwrap_or_default();
        identities.into_iter().map(ObjectVersion::from).collect()
    }

    /// The highest version that the watch of one kind of class has delivered.
    pub fn watch_position_of_node_classes(&self, kind: NodeClassKind) -> u64 {
        self.node_classes.get(&kind).map_or(0, |store| store.freshness.seen())
    }

    /// Applies the watch event of a new or changed class. Returns the former object.
    pub fn apply_node_class(&mut self, class: &Arc<NodeClass>) -> Option<Arc<NodeClass>> {
        let store = self.node_classes.entry(class.kind).or_default();
        let id = class.identity();
        store.freshness.note_event(&id);
        let before = store.put(&id, Arc::clone(class), ());
        before.map(|entry| entry.object)
    }

    /// Applies the watch event of a deleted class. Returns the removed object; `None` if its name is used again by then.
    pub fn delete_node_class(&mut self, class: &NodeClass) -> Option<Arc<NodeClass>> {
        let store = self.node_classes.get_mut(&class.kind)?;
        let id = class.identity();
        store.freshness.note_event(&id);
        store.take(&id).map(|entry| entry.object)
    }

    /// Applies a complete list of the classes of one kind. Returns the former ones.
    pub fn reset_node_classes(&mut self, kind: NodeClassKind, classes: &[Arc<NodeClass>]) -> Vec<Arc<NodeClass>> {
        let mut store = Store::default();
        for class in classes {
            let id = class.identity();
            store.freshness.note_event(&id);
            store.put(&id, Arc::clone(class), ());
        }
        let before = self.node_classes.insert(kind, store);
        before.map(|before| before.objects()).unwrap_or_default()
    }
}
