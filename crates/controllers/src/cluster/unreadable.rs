//! Objects that exist but cannot be decoded, because admission accepts more than the types here do.
//!
//! The mirror keeps the last readable state of such an object. Code that acts on *missing* objects must check here first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use kerf_runtime::ObjectRef;
use kube::Resource;

use super::Cluster;
use super::fold::{Key, Keys};

/// One such object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unreadable {
    /// Which one.
    pub(crate) object: ObjectRef,
    /// The field and what is wrong with it.
    pub(crate) error: String,
}

/// The unreadable objects that a watch has shown, and those of a list that is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Unreadables {
    known: BTreeMap<Key, Unreadable>,
    listing: Option<BTreeMap<Key, Unreadable>>,
}

impl Unreadables {
    /// A list begins.
    pub(crate) fn begin(&mut self) {
        self.listing = Some(BTreeMap::new());
    }

    /// The list is complete: there are no others.
    pub(crate) fn complete(&mut self) {
        self.known = self.listing.take().unwrap_or_default();
    }

    /// Adds an object.
    pub(crate) fn note<K: Resource<DynamicType = ()>>(
        &mut self,
        namespace: String,
        name: String,
        uid: String,
        error: String,
    ) {
        tracing::error!(kind = %K::kind(&()), namespace, name, error, "object cannot be read, keeping its last state");
        let key = (namespace.clone(), name.clone());
        let object = ObjectRef {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: (!namespace.is_empty()).then_some(namespace),
            name,
            uid,
        };
        let all = self.listing.as_mut().unwrap_or(&mut self.known);
        all.insert(key, Unreadable { object, error });
    }

    /// Forgets an object that can be read again or is gone. Returns whether it was unreadable.
    pub(crate) fn forget<K: Resource>(&mut self, object: &K) -> bool {
        if self.known.is_empty() {
            return false;
        }
        let meta = object.meta();
        let key = (
            meta.namespace.clone().unwrap_or_default(),
            meta.name.clone().unwrap_or_default(),
        );
        self.known.remove(&key).is_some()
    }

    /// Their namespaces and names.
    pub(crate) fn keys(&self) -> Keys {
        self.known.keys().cloned().collect()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Unreadable> {
        self.known.values().cloned().collect()
    }
}

impl Cluster {
    /// Sets which objects of a kind cannot be read.
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

    /// Those of a kind, by namespace and name.
    pub(crate) fn unreadable_keys(&self, kind: &str) -> BTreeSet<(Arc<str>, Arc<str>)> {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = unreadable.get(kind).into_iter().flatten().map(|one| &one.object);
        objects
            .map(|object| {
                let namespace = object.namespace.as_deref().unwrap_or_default();
                (namespace.into(), object.name.as_str().into())
            })
            .collect()
    }

    /// Whether there are any of a kind.
    pub(crate) fn has_unreadable(&self, kind: &str) -> bool {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.contains_key(kind)
    }
}
