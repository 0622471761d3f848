//! Numbers for shared values.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Numbers equal values; equal pointers are recognised without looking at the value.
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

    pub(super) fn number(&mut self, value: &'a Arc<T>) -> u32 {
        let next = self.by_value.len() as u32;
        let by_value = &mut self.by_value;
        if Arc::strong_count(value) == 1 {
            return *by_value.entry(&**value).or_insert(next);
        }
        *self
            .by_pointer
            .entry(Arc::as_ptr(value))
            .or_insert_with(|| *by_value.entry(&**value).or_insert(next))
    }

    /// The values that were numbered, in no order.
    pub(super) fn distinct(&self) -> impl Iterator<Item = &'a T> {
        self.by_value.keys().copied()
    }
}
