//! Objects of one kind by key.

use crate::key::Key;
use crate::object::Identity;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of an object.
#[derive(Clone, Debug)]
pub(super) struct Entry<T> {
    pub(super) uid: Arc<str>,
    pub(super) version: u64,
    pub(super) facts: T,
}

impl<T> Entry<T> {
    /// What the object under this key is known as.
    pub(super) fn identity(&self, key: &Key) -> Identity {
        Identity {
            key: key.clone(),
            uid: Arc::clone(&self.uid),
            version: self.version,
        }
    }
}

/// All objects of a kind.
#[derive(Clone, Debug)]
pub(super) struct Table<T> {
    entries: BTreeMap<Key, Entry<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
        }
    }
}

impl<T> Table<T> {
    /// The facts of a namespaced object.
    pub(super) fn get(&self, key: &Key) -> Option<&T> {
        self.entries.get(key).map(|entry| &entry.facts)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut T> {
        self.entries.get_mut(key).map(|entry| &mut entry.facts)
    }

    pub(super) fn entry(&self, key: &Key) -> Option<&Entry<T>> {
        self.entries.get(key)
    }

    /// The facts of a cluster-wide object.
    pub(super) fn named(&self, name: &Arc<str>) -> Option<&T> {
        self.get(&cluster_key(name))
    }

    /// Puts facts in place and gives back those that were there.
    pub(super) fn put(&mut self, id: &Identity, facts: T) -> Option<Entry<T>> {
        let entry = Entry {
            uid: Arc::clone(&id.uid),
            version: id.version,
            facts,
        };
        self.entries.insert(id.key.clone(), entry)
    }

    /// Notes a version of an object that has the same facts as the one before.
    pub(super) fn set_version(&mut self, key: &Key, version: u64) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.version = version;
        }
    }

    /// Removes an object; an object of the same name with another unique id stays (the name was used again).
    pub(super) fn take(&mut self, id: &Identity) -> Option<Entry<T>> {
        let known = self.entries.get(&id.key)?;
        let other = !id.uid.is_empty() && !known.uid.is_empty() && known.uid != id.uid;
        if other { None } else { self.entries.remove(&id.key) }
    }

    /// By namespace and name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.facts))
    }

    /// By namespace and name.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Key, &Entry<T>)> {
        self.entries.iter()
    }

    pub(super) fn identities(&self) -> Vec<Identity> {
        self.entries().map(|(key, entry)| entry.identity(key)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// The key of a cluster-wide object.
pub(super) fn cluster_key(name: &Arc<str>) -> Key {
    (Arc::from(""), Arc::clone(name))
}
