//! Ids for values that many pods share.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Assigns one id to equal values. A value behind a known pointer is not hashed again; the id depends on the value alone.
pub(super) struct Numbering<'a, T> {
    by_pointer: FxHashMap<*const T, u32>,
    by_value: FxHashMap<&'a T, u32>,
}

impl<'a, T: Hash + Eq> Numbering<'a, T> {
    pub(super) fn new() -> Self {
        Self {
            by_pointer: FxHashMap::default(),
            by_value: FxHashMap::default(),
        }
    }

    /// The id of a value.
    pub(super) fn number(&mut self, value: &'a Arc<T>) -> u32 {
        let next = self.by_value.len() as u32;
        let by_value = &mut self.by_value;
        if Arc::strong_count(value) == 1 {
            return *by_value.entry(&**value).or_insert(next);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the address only spares a look-up by value, which gives the same id"
        )]
        let pointer = Arc::as_ptr(value);
        *self
            .by_pointer
            .entry(pointer)
            .or_insert_with(|| *by_value.entry(&**value).or_insert(next))
    }

    /// The distinct values, in no particular order.
    pub(super) fn distinct(&self) -> impl Iterator<Item = &'a T> {
        self.by_value.keys().copied()
    }
}
