//! Node classes, of which only metadata and readiness are read, whatever their kind.

use crate::object::{Identity, name_and_uid};
use jiff::Timestamp;
use kerf_api::{Condition, NodeClassKind, NodeClassRef, conditions::READY};
use kube::core::DynamicObject;
use serde::Deserialize;
use std::sync::Arc;

/// The fields of a node class that are read.
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
    /// The fields that only reports read.
    pub reported: ReportedClass,
}

/// The fields of a node class that metrics and events show.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReportedClass {
    /// Since when it is being deleted.
    pub deleted: Option<Timestamp>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// All its conditions.
    pub conditions: Vec<Condition>,
}

impl NodeClass {
    /// Reads an object of that kind; `None` without a name or unique id, which no API server has.
    pub fn read(kind: NodeClassKind, object: &DynamicObject) -> Option<Self> {
        let meta = &object.metadata;
        let (name, uid) = name_and_uid(meta)?;
        let conditions = object
            .data
            .pointer("/status/conditions")
            .and_then(|list| list.as_array());
        let conditions = conditions.into_iter().flatten();
        let conditions: Vec<Condition> = conditions.filter_map(|one| Condition::deserialize(one).ok()).collect();
        Some(Self {
            kind,
            name: name.to_owned(),
            uid: uid.to_owned(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or(0),
            deleting: meta.deletion_timestamp.is_some(),
            ready: conditions.iter().find(|condition| condition.type_ == READY).cloned(),
            reported: ReportedClass {
                deleted: meta.deletion_timestamp.as_ref().map(|time| time.0),
                finalizers: meta.finalizers.clone().unwrap_or_default(),
                conditions,
            },
        })
    }

    /// Whether a reference means this class.
    pub fn is(&self, reference: &NodeClassRef) -> bool {
        self.kind.group == reference.group && self.kind.kind == reference.kind && self.name == reference.name
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity {
            key: (Arc::from(""), Arc::from(self.name.as_str())),
            uid: Arc::from(self.uid.as_str()),
            version: self.resource_version.parse().unwrap_or(0),
        }
    }
}
