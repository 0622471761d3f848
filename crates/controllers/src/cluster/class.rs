//! Node classes, of which controllers read metadata and readiness only, whatever their kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::{Condition, NodeClassRef, conditions};
use kerf_cloud::NodeClassKind;
use kube::api::DynamicObject;

/// What is read of a node class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeClass {
    /// Its kind.
    pub kind: NodeClassKind,
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
    /// Its resource version.
    pub resource_version: String,
    /// Its generation, which rises with every change of its spec.
    pub generation: i64,
    /// It is being deleted.
    pub deleting: bool,
    /// Its Ready condition.
    pub ready: Option<Condition>,
}

impl NodeClass {
    /// Reads an object of that kind.
    pub fn read(kind: NodeClassKind, object: &DynamicObject) -> Self {
        let meta = &object.metadata;
        let conditions = object
            .data
            .pointer("/status/conditions")
            .and_then(|list| list.as_array());
        let conditions = conditions.into_iter().flatten();
        let ready = conditions.filter_map(|one| serde_json::from_value::<Condition>(one.clone()).ok());
        Self {
            kind,
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or(0),
            deleting: meta.deletion_timestamp.is_some(),
            ready: ready.into_iter().find(|condition| condition.type_ == conditions::READY),
        }
    }

    /// Whether a reference means this class.
    pub fn is(&self, reference: &kerf_api::NodeClassRef) -> bool {
        self.kind.group == reference.group && self.kind.kind == reference.kind && self.name == reference.name
    }
}

/// The node classes of all kinds. They are not in the mirror, since decisions read them through NodePools and catalogues only.
#[derive(Debug, Default)]
pub(super) struct NodeClasses(BTreeMap<Key, Arc<NodeClass>>);

/// Group, kind and name.
type Key = (String, String, String);

fn key(class: &NodeClass) -> Key {
    let kind = class.kind;
    (kind.group.to_owned(), kind.kind.to_owned(), class.name.clone())
}

impl NodeClasses {
    /// The class that is referred to.
    pub(super) fn get(&self, reference: &NodeClassRef) -> Option<Arc<NodeClass>> {
        let NodeClassRef { group, kind, name } = reference;
        self.0.get(&(group.clone(), kind.clone(), name.clone())).cloned()
    }

    /// All classes, by group, kind and name.
    pub(super) fn all(&self) -> Vec<Arc<NodeClass>> {
        self.0.values().cloned().collect()
    }

    /// The classes of one kind, by name.
    pub(super) fn of_kind(&self, kind: NodeClassKind) -> impl Iterator<Item = &Arc<NodeClass>> {
        self.0.values().filter(move |class| class.kind == kind)
    }

    /// Puts a class in place and returns what was there.
    pub(super) fn put(&mut self, class: Arc<NodeClass>) -> Option<Arc<NodeClass>> {
        self.0.insert(key(&class), class)
    }

    /// Removes a class unless its name is used again by then, and returns it.
    pub(super) fn remove(&mut self, class: &NodeClass) -> Option<Arc<NodeClass>> {
        let key = key(class);
        let known = self.0.get(&key)?;
        let is_other = !class.uid.is_empty() && known.uid != class.uid;
        if is_other { None } else { self.0.remove(&key) }
    }

    /// Replaces all classes of one kind and returns those that were there.
    pub(super) fn reset(&mut self, kind: NodeClassKind, classes: &[Arc<NodeClass>]) -> Vec<Arc<NodeClass>> {
        let before = self.0.extract_if(.., |_, class| class.kind == kind);
        let before = before.map(|(_, class)| class).collect();
        self.0
            .extend(classes.iter().map(|class| (key(class), Arc::clone(class))));
        before
    }
}
