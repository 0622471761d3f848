//! All objects of one kind: their versions, the facts that decisions read, and the objects themselves where controllers need them.

use crate::key::Key;
use crate::object::Identity;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One object.
#[derive(Clone, Debug)]
pub(super) struct Entry<F, O> {
    pub(super) uid: Arc<str>,
    pub(super) version: u64,
    /// The object; `()` for kinds whose objects no controller needs.
    pub(super) object: O,
    /// The facts that decisions read.
    pub(super) facts: F,
}

impl<F, O> Entry<F, O> {
    /// Whether this is the object that is meant: a name may be used again with another unique id.
    pub(super) fn is(&self, id: &Identity) -> bool {
        self.uid == id.uid
    }

    /// The identity of the object under this key.
    pub(super) fn identity(&self, key: &Key) -> Identity {
        Identity {
            key: key.clone(),
            uid: Arc::clone(&self.uid),
            version: self.version,
        }
    }
}

/// How fresh a store is compared with its watch and with this process's own writes.
#[derive(Default, Debug)]
pub(super) struct Freshness {
    /// The highest version the watch has shown since the last complete list, the list included.
    seen: u64,
    /// The objects written here since a list was requested that is not complete yet.
    written: Option<BTreeSet<Key>>,
    /// The unique ids and versions of objects that the provider does not serve. They are not in the store; the comparison with fresh lists needs
    /// them.
    foreign: BTreeMap<Key, (Arc<str>, u64)>,
}

impl Freshness {
    /// Records the version of a watch event.
    pub(super) fn note_event(&mut self, id: &Identity) {
        self.seen = self.seen.max(id.version);
        self.foreign.remove(&id.key);
    }

    /// Records an object that the provider does not serve.
    pub(super) fn note_foreign(&mut self, id: &Identity) {
        self.foreign.insert(id.key.clone(), (Arc::clone(&id.uid), id.version));
    }

    /// The highest version the watch has shown since the last complete list, the list included.
    pub(super) const fn seen(&self) -> u64 {
        self.seen
    }

    /// The objects that the provider does not serve.
    pub(super) fn foreign(&self) -> impl Iterator<Item = Identity> {
        self.foreign.iter().map(|(key, (uid, version))| Identity {
            key: key.clone(),
            uid: Arc::clone(uid),
            version: *version,
        })
    }

    /// Records that a complete list was requested.
    pub(super) fn expect_list(&mut self) {
        self.written = Some(BTreeSet::new());
    }

    /// Records that an object was written here.
    pub(super) fn note_written(&mut self, key: &Key) {
        if let Some(written) = &mut self.written {
            written.insert(key.clone());
        }
    }

    /// Begins a complete list. The highest version seen starts again from it, because a restored etcd may have lower ones. Returns the objects
    /// written since the list was requested, since the list may be older. If such an object was deleted meanwhile, the next comparison with
    /// the API finds that.
    pub(super) fn begin_list(&mut self) -> BTreeSet<Key> {
        self.seen = 0;
        self.foreign.clear();
        self.written.take().unwrap_or_default()
    }

    /// Whether an object that was created here may be inserted: the watch has not delivered its version yet. A version of 0 is unknown.
    pub(super) fn may_insert(&self, version: u64) -> bool {
        version == 0 || version > self.seen
    }
}

/// All objects of a kind, with facts `F` and, where they are kept, the objects `O`.
#[derive(Debug)]
pub(super) struct Store<F, O = ()> {
    entries: BTreeMap<Key, Entry<F, O>>,
    pub(super) freshness: Freshness,
}

impl<F, O> Default for Store<F, O> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            freshness: Freshness::default(),
        }
    }
}

impl<F, O> Store<F, O> {
    /// The facts of a namespaced object.
    pub(super) fn get(&self, key: &Key) -> Option<&F> {
        self.entries.get(key).map(|entry| &entry.facts)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut F> {
        self.entries.get_mut(key).map(|entry| &mut entry.facts)
    }

    pub(super) fn entry(&self, key: &Key) -> Option<&Entry<F, O>> {
        self.entries.get(key)
    }

    /// The facts of a cluster-wide object.
    pub(super) fn named(&self, name: &Arc<str>) -> Option<&F> {
        self.get(&cluster_key(name))
    }

    /// Sets an object and returns the former entry.
    pub(super) fn put(&mut self, id: &Identity, object: O, facts: F) -> Option<Entry<F, O>> {
        let entry = Entry {
            uid: Arc::clone(&id.uid),
            version: id.version,
            object,
            facts,
        };
        self.entries.insert(id.key.clone(), entry)
    }

    /// Sets the version of an object whose facts did not change.
    pub(super) fn set_version(&mut self, key: &Key, version: u64) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.version = version;
        }
    }

    /// Removes an object; an object of the same name with another unique id stays (the name was used again).
    pub(super) fn take(&mut self, id: &Identity) -> Option<Entry<F, O>> {
        let is_meant = self.entries.get(&id.key)?.is(id);
        if is_meant { self.entries.remove(&id.key) } else { None }
    }

    /// The facts, by namespace and name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &F)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.facts))
    }

    /// The entries, by namespace and name.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Key, &Entry<F, O>)> {
        self.entries.iter()
    }

    pub(super) fn identities(&self) -> Vec<Identity> {
        self.entries().map(|(key, entry)| entry.identity(key)).collect()
    }

    /// The unique id and the version of an object.
    pub(super) fn identity(&self, key: &Key) -> Option<Identity> {
        self.entries.get(key).map(|entry| entry.identity(key))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl<F, T> Store<F, Arc<T>> {
    /// A cluster-wide object.
    pub(super) fn object(&self, name: &str) -> Option<Arc<T>> {
        self.entries
            .get(&cluster_key(&Arc::from(name)))
            .map(|entry| Arc::clone(&entry.object))
    }

    /// All objects, by name.
    pub(super) fn objects(&self) -> Vec<Arc<T>> {
        self.entries.values().map(|entry| Arc::clone(&entry.object)).collect()
    }
}

/// The key of a cluster-wide object.
pub(super) fn cluster_key(name: &Arc<str>) -> Key {
    (Arc::from(""), Arc::clone(name))
}
