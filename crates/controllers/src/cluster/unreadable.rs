//! Objects that are there and cannot be read: admission lets more pass than the types here can hold.
//!
//! What was last read of them goes on to count. Whoever acts on objects that are *missing* has to ask here first.

use std::sync::PoisonError;

use kerf_runtime::ObjectRef;
use kube::Resource;

use super::Cluster;

/// One such object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unreadable {
    /// Which one.
    pub(crate) object: ObjectRef,
    /// The field and what is wrong with it.
    pub(crate) error: String,
}

impl Unreadable {
    /// Takes note of an object a watch told of.
    pub(crate) fn note<K: Resource<DynamicType = ()>>(
        namespace: String,
        name: String,
        uid: String,
        error: String,
    ) -> Self {
        tracing::error!(kind = %K::kind(&()), namespace, name, error, "object cannot be read, keeping its last state");
        let object = ObjectRef {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace,
            name,
            uid,
        };
        Self { object, error }
    }
}

impl Cluster {
    /// Notes all unreadable objects of a kind.
    pub(crate) fn set_unreadable(&self, kind: &str, objects: Vec<Unreadable>) {
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if objects.is_empty() {
            unreadable.remove(kind);
        } else {
            unreadable.insert(kind.to_owned(), objects);
        }
    }

    /// All of them, by kind.
    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.values().flatten().cloned().collect()
    }

    /// Whether there are any of a kind.
    pub(crate) fn has_unreadable(&self, kind: &str) -> bool {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.contains_key(kind)
    }
}
