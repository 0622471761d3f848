//! Values for existing nodes that hold until a pod is placed there.

use crate::compile::targets::{Target, TargetId};
use crate::dense::ids::{Id, IdVec};
use std::fmt::Debug;

/// Per target: one more than the number of pods that were placed there.
#[derive(Clone)]
pub(crate) struct TargetVersions(IdVec<Target, u32>);

impl TargetVersions {
    /// The versions of targets before any pod is placed.
    pub(crate) fn new(targets: usize) -> Self {
        Self(IdVec::filled(1, targets))
    }

    /// Notes that a pod was placed on a target: no value holds any more that was made for it before.
    pub(crate) fn advance(&mut self, target: TargetId) {
        self.0[target] += 1;
    }
}

/// Values by key and target, each with the version of the target it was made for. Zero is the version of no target.
#[derive(Clone)]
pub(crate) struct TargetCache<K, V> {
    /// The values of a key, which are empty until it is first used.
    rows: IdVec<K, IdVec<Target, (u32, V)>>,
}

impl<K, V: Copy + Default> TargetCache<K, V> {
    /// No values for the keys `0..keys`.
    pub(crate) fn new(keys: usize) -> Self {
        Self {
            rows: IdVec::filled(IdVec::new(), keys),
        }
    }

    /// The values of a key.
    pub(crate) fn of<'x>(&'x mut self, key: Id<K>, versions: &'x TargetVersions) -> CachedValues<'x, V> {
        let versions = &versions.0;
        let values = &mut self.rows[key];
        if values.len() < versions.len() {
            *values = IdVec::filled((0, V::default()), versions.len());
        }
        CachedValues { versions, values }
    }
}

/// The values of one key, by target.
pub(crate) struct CachedValues<'x, V> {
    versions: &'x IdVec<Target, u32>,
    values: &'x mut IdVec<Target, (u32, V)>,
}

impl<V: Copy + PartialEq + Debug> CachedValues<'_, V> {
    /// The value of a target, computed with `make` if none holds.
    pub(crate) fn get_or_make(&mut self, target: TargetId, make: impl Fn() -> V) -> V {
        let version = self.versions[target];
        let (made_for, value) = &mut self.values[target];
        if *made_for == version {
            debug_assert_eq!(*value, make(), "a value of target {target:?} changed without a pod");
        } else {
            (*made_for, *value) = (version, make());
        }
        *value
    }

    /// The value of a target, computed with `make` if none holds. `None`, which is not kept, if there is none.
    pub(crate) fn get_or_try(&mut self, target: TargetId, make: impl Fn() -> Option<V>) -> Option<V> {
        let version = self.versions[target];
        let (made_for, value) = &mut self.values[target];
        if *made_for == version {
            debug_assert_eq!(
                Some(*value),
                make(),
                "a value of target {target:?} changed without a pod"
            );
        } else {
            (*made_for, *value) = (version, make()?);
        }
        Some(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_until_a_pod_is_placed() {
        let [placed, other] = [0, 1].map(TargetId::new);
        let mut versions = TargetVersions::new(2);
        let mut cache: TargetCache<(), i32> = TargetCache::new(1);
        let mut values = cache.of(Id::new(0), &versions);
        assert_eq!(values.get_or_try(placed, || None), None);
        assert_eq!(values.get_or_try(placed, || Some(1)), Some(1));
        assert_eq!(values.get_or_make(other, || 2), 2);
        versions.advance(placed);
        let mut values = cache.of(Id::new(0), &versions);
        assert_eq!(values.get_or_make(placed, || 3), 3);
        assert_eq!(values.get_or_make(other, || 2), 2);
    }
}
