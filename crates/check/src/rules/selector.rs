//! Label selectors over pods and namespaces.

use kerf_model::pod::{AffinityTerm, Pod};
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use kerf_model::snapshot::Snapshot;

/// Whether a selector selects labels: all of its conditions hold. A missing selector selects nothing, an empty one everything.
pub(crate) fn matches(selector: &LabelSelector, labels: &LabelSet) -> bool {
    let value = |wanted: &str| labels.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value);
    let listed = |values: &[std::sync::Arc<str>], value: &str| values.iter().any(|known| **known == *value);
    match selector {
        LabelSelector::Nothing => false,
        LabelSelector::All(conditions) => conditions.iter().all(|condition| match condition {
            Match::In(key, values) => value(key).is_some_and(|value| listed(values, value)),
            Match::NotIn(key, values) => value(key).is_none_or(|value| !listed(values, value)),
            Match::Exists(key) => value(key).is_some(),
            Match::DoesNotExist(key) => value(key).is_none(),
        }),
    }
}

/// Whether an affinity term selects a pod: its namespace is named or its namespace's labels are selected, and so are its own labels.
pub(crate) fn term_selects(snapshot: &Snapshot, term: &AffinityTerm, pod: &Pod) -> bool {
    let named = term.namespaces.names.contains(&pod.namespace);
    let by_labels = || {
        let selector = term.namespaces.selector.as_ref();
        let namespace = snapshot.namespaces.iter().find(|(name, _)| *name == pod.namespace);
        selector
            .zip(namespace)
            .is_some_and(|(selector, (_, labels))| matches(selector, labels))
    };
    matches(&term.selector, &pod.labels) && (named || by_labels())
}
