//! Memo tables: a value is computed when its key is first asked for, and kept.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// A memo table of a pure function. Threads may share it: every thread computes the same value.
#[derive(Debug)]
pub(crate) struct Memo<K, V>(Mutex<FxHashMap<K, Arc<V>>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V> Memo<K, V> {
    /// The number of values that are kept.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The value of `key`, if it was computed before.
    pub(crate) fn cached(&self, key: &K) -> Option<Arc<V>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).map(Arc::clone)
    }

    /// The value of `key`, computed with `make` if needed. No lock is held meanwhile, so that `make` may use other memo tables.
    pub(crate) fn get(&self, key: K, make: impl FnOnce(&K) -> V) -> Arc<V> {
        self.cached(&key).unwrap_or_else(|| {
            let made = Arc::new(make(&key));
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(key).or_insert(made))
        })
    }
}
