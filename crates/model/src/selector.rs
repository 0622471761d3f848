//! Label sets of pods and namespaces, and the selectors that match them.

use std::sync::Arc;

/// The labels that the controller of StatefulSets adds to pods.
const STATEFUL_SET_LABELS: [&str; 3] = [
    "apps.kubernetes.io/pod-index",
    "controller-revision-hash",
    "statefulset.kubernetes.io/pod-name",
];

/// Labels as written, sorted by key. Equal sets are shared, so comparing pointers first is worth while.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct LabelSet(Vec<(Arc<str>, Arc<str>)>);

impl LabelSet {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        self.0
            .binary_search_by(|(k, _)| (**k).cmp(key))
            .ok()
            .and_then(|at| self.0.get(at))
            .map(|(_, value)| value)
    }

    /// By key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The labels that a ReplicaSet or StatefulSet may select its pods by: all but those that the StatefulSet's controller adds to each.
    pub fn of_workload(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(|(key, _)| !STATEFUL_SET_LABELS.contains(key))
    }

    /// Whether there is no label.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for LabelSet {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(iter: T) -> Self {
        let mut labels: Vec<(Arc<str>, Arc<str>)> = iter.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.dedup_by(|a, b| a.0 == b.0);
        Self(labels)
    }
}

/// One condition of a selector.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Match {
    /// The key has one of the values (sorted, without duplicates: SCH-188).
    In(Arc<str>, Vec<Arc<str>>),
    /// The key is missing or has none of the values.
    NotIn(Arc<str>, Vec<Arc<str>>),
    /// The key is there.
    Exists(Arc<str>),
    /// The key is missing.
    DoesNotExist(Arc<str>),
}

impl Match {
    /// `key In values`, normalised.
    pub fn any_of(key: impl Into<Arc<str>>, values: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self::In(key.into(), normalised(values))
    }

    /// `key NotIn values`, normalised.
    pub fn none_of(key: impl Into<Arc<str>>, values: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self::NotIn(key.into(), normalised(values))
    }

    fn matches(&self, labels: &LabelSet) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.binary_search(value).is_ok()),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| values.binary_search(value).is_err()),
            Self::Exists(key) => labels.get(key).is_some(),
            Self::DoesNotExist(key) => labels.get(key).is_none(),
        }
    }
}

fn normalised(values: impl IntoIterator<Item = Arc<str>>) -> Vec<Arc<str>> {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort();
    values.dedup();
    values
}

/// A label selector. `Nothing` is a missing or unparsable one, an empty list of conditions matches everything (SCH-191).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum LabelSelector {
    /// Matches no object.
    Nothing,
    /// All conditions must hold (sorted, without duplicates).
    All(Vec<Match>),
}

impl LabelSelector {
    /// All of the conditions, normalised.
    pub fn all(conditions: impl IntoIterator<Item = Match>) -> Self {
        let mut conditions: Vec<_> = conditions.into_iter().collect();
        conditions.sort();
        conditions.dedup();
        Self::All(conditions)
    }

    /// Whether the labels are selected.
    pub fn matches(&self, labels: &LabelSet) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(conditions) => conditions.iter().all(|condition| condition.matches(labels)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> LabelSet {
        pairs.iter().copied().collect()
    }

    // SCH-188, SCH-191, SCH-476
    #[test]
    fn selectors_match_as_sets() {
        let web = labels(&[("app", "web"), ("tier", "front")]);
        let app = |values: &[&str]| Match::any_of("app", values.iter().map(|v| Arc::from(*v)));
        assert!(!LabelSelector::Nothing.matches(&web));
        assert!(LabelSelector::all([]).matches(&web));
        assert!(LabelSelector::all([app(&["db", "web"]), Match::Exists("tier".into())]).matches(&web));
        assert!(!LabelSelector::all([app(&["db"])]).matches(&web));
        assert!(LabelSelector::all([Match::DoesNotExist("zone".into())]).matches(&web));
        assert!(LabelSelector::all([Match::none_of("zone", [Arc::from("a")])]).matches(&web));
        assert_eq!(
            LabelSelector::all([app(&["b", "a", "a"]), app(&["a", "b"])]),
            LabelSelector::all([app(&["a", "b"])])
        );
    }
}
