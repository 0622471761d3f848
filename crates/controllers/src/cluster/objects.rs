//! API objects of one cluster-wide kind, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_api::NodeOverlay;
use kube::Resource;

/// What can be kept.
pub(super) trait Kept {
    /// Its key: the name where that is enough.
    fn key(&self) -> String;
    /// Its unique id.
    fn uid(&self) -> &str;
    /// Its resource version as a number, 0 where there is none.
    fn version(&self) -> u64;
}

impl Kept for NodeOverlay {
    fn key(&self) -> String {
        self.meta().name.clone().unwrap_or_default()
    }
    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }
    fn version(&self) -> u64 {
        version(self.meta().resource_version.as_deref())
    }
}

/// A resource version as a number. They are opaque by contract, but every API server counts them up.
pub(super) fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[derive(Debug)]
pub(super) struct Objects<T> {
    objects: BTreeMap<String, Arc<T>>,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
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

    /// Puts an object in place and returns what was there.
    pub(super) fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        self.objects.insert(object.key(), object)
    }

    /// Removes an object.
    pub(super) fn take(&mut self, key: &str) -> Option<Arc<T>> {
        self.objects.remove(key)
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
