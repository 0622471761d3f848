//! Label profiles: the part of a pod that selectors can see.

use kerf_model::pod::Pod;
use kerf_model::selector::LabelSet;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The distinct profiles: a namespace and the values of the labels that selectors read.
pub(super) struct LabelProfiles<'a> {
    keys: Vec<&'a str>,
    by_pointer: FxHashMap<(*const LabelSet, &'a str), u32>,
    by_value: FxHashMap<&'a str, FxHashMap<Vec<Option<&'a str>>, u32>>,
    labels: Vec<Option<&'a str>>,
    count: u32,
}

impl<'a> LabelProfiles<'a> {
    pub(super) fn new(keys: Vec<&'a str>) -> Self {
        Self {
            keys,
            by_pointer: FxHashMap::default(),
            by_value: FxHashMap::default(),
            labels: Vec::new(),
            count: 0,
        }
    }

    /// The number of a pod's profile, in the order in which profiles are first asked for.
    pub(super) fn number(&mut self, pod: &'a Pod) -> u32 {
        #[expect(
            clippy::disallowed_methods,
            reason = "the address only spares a look-up by value, which gives the same id"
        )]
        let key = (Arc::as_ptr(&pod.labels), &*pod.namespace);
        let shared = Arc::strong_count(&pod.labels) > 1;
        if let Some(known) = self.by_pointer.get(&key).filter(|_| shared) {
            return *known;
        }
        self.labels.clear();
        let values = self.keys.iter().map(|key| pod.labels.get(key).map(|value| &**value));
        self.labels.extend(values);
        let by_value = self.by_value.entry(key.1).or_default();
        let number = by_value.get(self.labels.as_slice()).copied().unwrap_or_else(|| {
            let number = self.count;
            self.count += 1;
            by_value.insert(self.labels.clone(), number);
            number
        });
        if shared {
            self.by_pointer.insert(key, number);
        }
        number
    }
}
