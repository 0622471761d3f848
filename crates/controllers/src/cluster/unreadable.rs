//! Objects that exist but cannot be decoded, because admission accepts more than the types here do.
//!
//! The mirror keeps the last readable state of such an object. Code that acts on *missing* objects must check here first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_disruption::Unread;
use kerf_runtime::{ObjectRef, Unreadable as Found};
use kube::Resource;

use super::Cluster;
use super::fold::Keys;

/// One such object.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Unreadable {
    api_version: String,
    kind: String,
    found: Found,
}

impl Unreadable {
    fn of<K: Resource<DynamicType = ()>>(found: Found) -> Self {
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            found,
        }
    }

    /// Its kind.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// Its name, `None` if that cannot be read either.
    pub(crate) fn name(&self) -> Option<&str> {
        self.found.metadata.name.as_deref()
    }

    /// The field and what is wrong with it.
    pub(crate) fn error(&self) -> &str {
        &self.found.error
    }

    /// The reference to it; `None` without a readable name and unique id, which nobody could look it up by.
    pub(crate) fn reference(&self) -> Option<ObjectRef> {
        let meta = &self.found.metadata;
        Some(ObjectRef {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
        })
    }

    /// It as decisions see it; `None` for kinds that protect no node.
    fn unread(&self) -> Option<Unread> {
        let Found {
            metadata,
            node_name,
            phase,
            error,
        } = &self.found;
        Some(Unread {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            problem: error.clone(),
            ..Unread::of(&self.kind, node_name.as_deref(), phase.as_deref())?
        })
    }
}

/// What tells unreadable objects of one kind apart. The last one is the unique id of an object without a readable name.
type FoundKey = (Option<String>, Option<String>, Option<String>);

fn found_key(meta: &ObjectMeta) -> FoundKey {
    let uid = meta.uid.clone().filter(|_| meta.name.is_none());
    (meta.namespace.clone(), meta.name.clone(), uid)
}

/// The unreadable objects that a watch has shown, and those of a list that is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Unreadables {
    known: BTreeMap<FoundKey, Unreadable>,
    listing: Option<BTreeMap<FoundKey, Unreadable>>,
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
    pub(crate) fn note<K: Resource<DynamicType = ()>>(&mut self, found: Found) {
        let meta = &found.metadata;
        let (namespace, name, error) = (meta.namespace.as_deref(), meta.name.as_deref(), &found.error);
        tracing::error!(kind = %K::kind(&()), namespace, name, error, "object cannot be read, keeping its last state");
        let all = self.listing.as_mut().unwrap_or(&mut self.known);
        all.insert(found_key(meta), Unreadable::of::<K>(found));
    }

    /// Forgets an object that can be read again or is gone. Returns whether it was unreadable.
    pub(crate) fn forget<K: Resource>(&mut self, object: &K) -> bool {
        let before = self.known.len();
        if before == 0 {
            return false;
        }
        let meta = object.meta();
        let named = found_key(meta);
        self.known
            .retain(|key, one| *key != named && (meta.uid.is_none() || one.found.metadata.uid != meta.uid));
        self.known.len() < before
    }

    /// The namespaces and names of those with a readable name.
    pub(crate) fn keys(&self) -> Keys {
        let named = self.known.keys().filter_map(|(namespace, name, _)| {
            let namespace = namespace.clone().unwrap_or_default();
            Some((namespace, name.clone()?))
        });
        named.collect()
    }

    /// All of them. An object of a list counts as soon as the list shows it.
    pub(crate) fn all(&self) -> Vec<Unreadable> {
        let known = self.known.iter();
        let newer = self.listing.iter().flatten();
        let all: BTreeMap<_, _> = known.chain(newer).collect();
        all.into_values().cloned().collect()
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

    /// Those that may protect nodes. Of an object that becomes readable meanwhile, this or a snapshot taken later shows it.
    pub(crate) fn unread(&self) -> Vec<Unread> {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.values().flatten().filter_map(Unreadable::unread).collect()
    }

    /// Those of a kind with a readable name, by namespace and name.
    pub(crate) fn unreadable_keys(&self, kind: &str) -> BTreeSet<(Arc<str>, Arc<str>)> {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = unreadable.get(kind).into_iter().flatten();
        objects
            .filter_map(|one| {
                let namespace = one.found.metadata.namespace.as_deref().unwrap_or_default();
                Some((namespace.into(), one.name()?.into()))
            })
            .collect()
    }

    /// Whether there are any of a kind.
    pub(crate) fn has_unreadable(&self, kind: &str) -> bool {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.contains_key(kind)
    }
}

/// The object of this name and unique id, which lacks a spec.
#[cfg(test)]
pub(crate) fn found(name: &str) -> Found {
    Found {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        node_name: None,
        phase: None,
        error: "no spec".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kerf_state::lean::LeanPod;

    use super::*;

    fn pod(namespace: Option<&str>, name: Option<&str>, uid: &str) -> Found {
        let mut found = found(uid);
        found.metadata.namespace = namespace.map(str::to_owned);
        found.metadata.name = name.map(str::to_owned);
        found
    }

    fn readable(name: &str, uid: &str) -> LeanPod {
        let metadata = serde_json::json!({"namespace": "shop", "name": name, "uid": uid});
        serde_json::from_value(serde_json::json!({"metadata": metadata})).expect("a pod")
    }

    #[test]
    fn objects_without_a_readable_name_are_told_apart_and_forgotten_by_unique_id() {
        let mut unreadables = Unreadables::default();
        for found in [
            pod(Some("shop"), Some("a"), "1"),
            pod(Some("shop"), None, "2"),
            pod(Some("shop"), None, "3"),
            pod(None, Some("b"), "4"),
        ] {
            unreadables.note::<LeanPod>(found);
        }
        let left = |unreadables: &Unreadables| {
            let all = unreadables.all().into_iter();
            let mut all: Vec<_> = all.filter_map(|one| one.found.metadata.uid).collect();
            all.sort();
            all
        };
        assert_eq!(left(&unreadables), ["1", "2", "3", "4"]);
        let named = [("", "b"), ("shop", "a")].map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        assert_eq!(unreadables.keys(), Keys::from(named));
        assert_eq!(unreadables.all().iter().filter_map(Unreadable::reference).count(), 2);
        assert!(!unreadables.forget(&readable("c", "9")));
        // Its namespace could not be read.
        assert!(unreadables.forget(&readable("b", "4")));
        assert!(unreadables.forget(&readable("c", "3")));
        // Another object has its name now.
        assert!(unreadables.forget(&readable("a", "9")));
        assert_eq!(left(&unreadables), ["2"]);
    }

    #[test]
    fn an_object_of_a_list_counts_before_the_list_is_complete() {
        let mut unreadables = Unreadables::default();
        unreadables.note::<LeanPod>(found("old"));
        unreadables.begin();
        unreadables.note::<LeanPod>(found("new"));
        let names = |unreadables: &Unreadables| {
            let all = unreadables.all();
            all.iter()
                .map(|one| one.name().unwrap_or("-").to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&unreadables), ["new", "old"]);
        unreadables.complete();
        assert_eq!(names(&unreadables), ["new"]);
    }
}
