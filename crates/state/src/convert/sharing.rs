//! Pools of shared values: equal pods hold one shape, equal label sets are one allocation.

#![expect(
    clippy::disallowed_types,
    reason = "the keys are made by pod authors, so the hash is keyed; nothing depends on the order of the sets"
)]

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// How many values a pool holds before it first looks for unused ones.
const SWEEP_MIN: usize = 1024;

/// One shared copy of each distinct value. Unused values are removed whenever the pool has doubled, so that values of old rollouts do not pile
/// up, and removal costs a constant per insertion.
pub(super) struct Pool<T> {
    values: HashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self {
            values: HashSet::new(),
            sweep_at: SWEEP_MIN,
        }
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} values)", self.values.len())
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// The pool's copy of an equal value; the value itself where it is the first.
    pub(super) fn share(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = (self.values.len() * 2).max(SWEEP_MIN);
        }
        let value = Arc::new(value);
        self.values.insert(Arc::clone(&value));
        value
    }
}

/// A pool of texts.
#[derive(Default)]
pub(super) struct SharedText {
    texts: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedText({} texts)", self.texts.len())
    }
}

impl SharedText {
    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        if self.texts.len() >= self.sweep_at {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = (self.texts.len() * 2).max(SWEEP_MIN);
        }
        let text: Arc<str> = Arc::from(text);
        self.texts.insert(Arc::clone(&text));
        text
    }
}
