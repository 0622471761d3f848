//! Label profiles: all that selectors can see of a pod.

use kerf_model::pod::{Pod, PodShape};
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The label keys that selectors look at: two pods that agree on them look alike to every group.
pub(crate) fn selector_keys<'a>(pods: impl Iterator<Item = &'a PodShape>) -> FxHashSet<&'a str> {
    let mut keys = FxHashSet::default();
    let mut add = |selector: &'a LabelSelector| {
        if let LabelSelector::All(conditions) = selector {
            keys.extend(conditions.iter().map(|condition| match condition {
                Match::In(key, _) | Match::NotIn(key, _) | Match::Exists(key) | Match::DoesNotExist(key) => &**key,
            }));
        }
    };
    for shape in pods {
        shape.spread.iter().for_each(|constraint| add(&constraint.selector));
        let preferred = shape
            .preferred_affinity
            .iter()
            .chain(&shape.preferred_anti_affinity)
            .map(|term| &term.1);
        for term in shape.affinity.iter().chain(&shape.anti_affinity).chain(preferred) {
            add(&term.selector);
        }
    }
    keys
}

/// The distinct profiles: namespace and the labels selectors look at.
pub(super) struct Profiles<'a> {
    keys: Vec<&'a str>,
    by_pointer: FxHashMap<(*const LabelSet, &'a str), u32>,
    by_value: FxHashMap<&'a str, FxHashMap<Vec<Option<&'a str>>, u32>>,
    labels: Vec<Option<&'a str>>,
}

impl<'a> Profiles<'a> {
    pub(super) fn new(keys: Vec<&'a str>) -> Self {
        Self {
            keys,
            by_pointer: FxHashMap::default(),
            by_value: FxHashMap::default(),
            labels: Vec::new(),
        }
    }

    pub(super) fn number(&mut self, pod: &'a Arc<Pod>, profiles: &mut Vec<Arc<Pod>>) -> u32 {
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
            let number = profiles.len() as u32;
            profiles.push(Arc::clone(pod));
            by_value.insert(self.labels.clone(), number);
            number
        });
        if shared {
            self.by_pointer.insert(key, number);
        }
        number
    }
}
