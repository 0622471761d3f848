//! API objects of one cluster-wide kind by name, and by one more value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_api::{NodeClaim, NodeOverlay, NodePool};
use kerf_state::Known;
use kerf_state::lean::LeanNode;
use kube::Resource;

/// What can be kept.
pub(super) trait Kept {
    /// Its key: the name where that is enough.
    fn key(&self) -> String;
    /// Another value it is looked up by.
    fn indexed(&self) -> Option<&str> {
        None
    }
    /// Its unique id.
    fn uid(&self) -> &str;
    /// Its resource version as a number, 0 where there is none.
    fn version(&self) -> u64;
}

macro_rules! kept {
    ($kind:ty, $indexed:expr) => {
        impl Kept for $kind {
            fn key(&self) -> String {
                self.meta().name.clone().unwrap_or_default()
            }
            fn indexed(&self) -> Option<&str> {
                let indexed: fn(&$kind) -> Option<&str> = $indexed;
                indexed(self).filter(|value| !value.is_empty())
            }
            fn uid(&self) -> &str {
                self.meta().uid.as_deref().unwrap_or_default()
            }
            fn version(&self) -> u64 {
                version(self.meta().resource_version.as_deref())
            }
        }
    };
}

kept!(LeanNode, |node| Some(&node.spec.provider_id));
kept!(NodeClaim, |claim| claim.status.as_ref()?.provider_id.as_deref());
kept!(NodePool, |_| None);
kept!(NodeOverlay, |_| None);

/// A resource version as a number. They are opaque by contract, but every API server counts them up.
pub(super) fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[derive(Debug)]
pub(super) struct Objects<T> {
    objects: BTreeMap<String, Arc<T>>,
    index: BTreeMap<String, BTreeSet<String>>,
    /// Objects that the provider does not serve. Only their unique ids and versions are kept, for the comparison with fresh lists.
    foreign: BTreeMap<String, (Arc<str>, u64)>,
    /// The highest version a watch has shown.
    seen: u64,
    /// What was written here since a list was asked for that has not come yet.
    written: Option<BTreeSet<String>>,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            index: BTreeMap::new(),
            foreign: BTreeMap::new(),
            seen: 0,
            written: None,
        }
    }
}

impl<T: Kept> Objects<T> {
    pub(super) fn get(&self, key: &str) -> Option<Arc<T>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<T>> {
        self.objects.values().cloned().collect()
    }

    pub(super) fn by_index(&self, value: &str) -> Vec<Arc<T>> {
        let keys = self.index.get(value).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key)).cloned().collect()
    }

    /// The objects that the provider does not serve; cluster-wide kinds only.
    pub(super) fn foreign(&self) -> impl Iterator<Item = Known> {
        self.foreign.iter().map(|(name, (uid, version))| Known {
            namespace: Arc::from(""),
            name: Arc::from(name.as_str()),
            uid: Arc::clone(uid),
            version: *version,
        })
    }

    /// Notes an object that the provider does not serve.
    pub(super) fn note_foreign(&mut self, object: &T) {
        self.foreign
            .insert(object.key(), (object.uid().into(), object.version()));
    }

    /// Forgets an object that the provider does not serve: it is gone, or it is served now.
    pub(super) fn forget_foreign(&mut self, key: &str) {
        self.foreign.remove(key);
    }

    /// Takes the objects that the provider does not serve from a complete list.
    pub(super) fn reset_foreign(&mut self, objects: &[T]) {
        self.foreign.clear();
        for object in objects {
            self.note_foreign(object);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether this state is older than the known one of the same object.
    pub(super) fn is_stale(&self, object: &T) -> bool {
        let known = self.objects.get(&object.key());
        known.is_some_and(|known| known.uid() == object.uid() && object.version() < known.version())
    }

    /// Whether this is a newer state of an object that is known.
    pub(super) fn is_newer(&self, object: &T) -> bool {
        let known = self.objects.get(&object.key());
        known.is_some_and(|known| known.uid() == object.uid() && object.version() > known.version())
    }

    /// Whether an object we wrote ourselves may be inserted: the watch is not past it.
    pub(super) fn may_insert(&self, object: &T) -> bool {
        self.objects.contains_key(&object.key()) || object.version() > self.seen
    }

    /// Notes how far the watch has come.
    pub(super) fn note_seen(&mut self, object: &T) {
        self.seen = self.seen.max(object.version());
    }

    /// A complete list says anew how far the watch has come; after a restored etcd that is less far.
    pub(super) fn forget_seen(&mut self) {
        self.seen = 0;
    }

    /// A complete list was asked for.
    pub(super) fn expect_list(&mut self) {
        self.written = Some(BTreeSet::new());
    }

    /// Notes that an object was written here.
    pub(super) fn note_written(&mut self, key: String) {
        if let Some(written) = &mut self.written {
            written.insert(key);
        }
    }

    /// A complete list with what was written here since it was asked for: it may be older than that. Should somebody have deleted such an
    /// object meanwhile, the next comparison with the API shows it.
    pub(super) fn with_written(&mut self, mut listed: Vec<T>) -> Vec<T>
    where
        T: Clone,
    {
        for key in self.written.take().into_iter().flatten() {
            let Some(known) = self.objects.get(&key) else { continue };
            match listed.iter_mut().find(|object| object.key() == key) {
                Some(object) if object.uid() == known.uid() && object.version() < known.version() => {
                    *object = T::clone(known);
                }
                Some(_) => {}
                None => listed.push(T::clone(known)),
            }
        }
        listed
    }

    /// Puts an object in place and gives back what was there.
    pub(super) fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        let key = object.key();
        let before = self.take(&key);
        if let Some(value) = object.indexed() {
            self.index.entry(value.to_owned()).or_default().insert(key.clone());
        }
        self.objects.insert(key, object);
        before
    }

    /// Removes an object.
    pub(super) fn take(&mut self, key: &str) -> Option<Arc<T>> {
        let before = self.objects.remove(key)?;
        if let Some(value) = before.indexed()
            && let Some(keys) = self.index.get_mut(value)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.index.remove(value);
            }
        }
        Some(before)
    }

    /// Removes an object unless its name is used again by then.
    pub(super) fn take_same(&mut self, object: &T) -> Option<Arc<T>> {
        let key = object.key();
        let known = self.objects.get(&key)?;
        let other = !object.uid().is_empty() && known.uid() != object.uid();
        if other { None } else { self.take(&key) }
    }

    /// All keys.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        self.objects.keys().cloned().collect()
    }
}
