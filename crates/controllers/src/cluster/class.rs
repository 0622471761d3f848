//! Node classes, of which controllers read metadata and readiness only, whatever their kind.

use kerf_api::{Condition, conditions};
use kerf_cloud::NodeClassKind;
use kube::api::DynamicObject;

use super::objects::{Kept, version};

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

/// The key node classes of all kinds are kept under.
pub(super) fn key(group: &str, kind: &str, name: &str) -> String {
    format!("{group}/{kind}/{name}")
}

impl Kept for NodeClass {
    fn key(&self) -> String {
        key(self.kind.group, self.kind.kind, &self.name)
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn version(&self) -> u64 {
        version(Some(&self.resource_version))
    }
}
