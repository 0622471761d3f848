//! Answers worth keeping: what a key maps to is computed when it is first asked for.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// A memory of a pure function. Threads may share it: whoever comes first, the answer is the same.
#[derive(Debug)]
pub(crate) struct Memo<K, V>(Mutex<FxHashMap<K, Arc<V>>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V> Memo<K, V> {
    /// How many answers are kept.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// What `key` maps to, if that was asked before.
    pub(crate) fn known(&self, key: &K) -> Option<Arc<V>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).map(Arc::clone)
    }

    /// What `key` maps to. Nothing is locked while it is computed, so that `make` may ask other memories.
    pub(crate) fn get(&self, key: K, make: impl FnOnce(&K) -> V) -> Arc<V> {
        self.known(&key).unwrap_or_else(|| {
            let made = Arc::new(make(&key));
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(key).or_insert(made))
        })
    }
}
