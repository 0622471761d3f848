//! Label selectors, and the namespaces affinity terms look at.

use super::config;
use crate::rules::selector::{matches, term_selects};
use kerf_model::intern::{Interner, sym};
use kerf_model::pod::{AffinityTerm, NamespaceScope, Pod};
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use kerf_model::snapshot::Snapshot;
use proptest::prelude::*;
use std::sync::Arc;

const KEYS: [&str; 3] = ["app", "tier", "kubernetes.io/metadata.name"];
const VALUES: [&str; 3] = ["web", "db", ""];
const NAMESPACES: [&str; 3] = ["default", "prod", "unlisted"];

fn labels() -> impl Strategy<Value = LabelSet> {
    prop::collection::vec((0..KEYS.len(), 0..VALUES.len()), 0..4).prop_map(|pairs| {
        pairs
            .into_iter()
            .map(|(key, value)| (KEYS[key], VALUES[value]))
            .collect()
    })
}

fn condition() -> impl Strategy<Value = Match> {
    let values = prop::collection::vec(0..VALUES.len(), 0..3);
    (0..4, 0..KEYS.len(), values).prop_map(|(operator, key, values)| {
        let values = values.into_iter().map(|at| Arc::from(VALUES[at]));
        match operator {
            0 => Match::any_of(KEYS[key], values),
            1 => Match::none_of(KEYS[key], values),
            2 => Match::Exists(KEYS[key].into()),
            _ => Match::DoesNotExist(KEYS[key].into()),
        }
    })
}

fn selector() -> impl Strategy<Value = LabelSelector> {
    prop_oneof![
        1 => Just(LabelSelector::Nothing),
        9 => prop::collection::vec(condition(), 0..3).prop_map(LabelSelector::all),
    ]
}

fn labelled_pod(namespace: &str, labels: LabelSet) -> Pod {
    Pod {
        labels: Arc::new(labels),
        ..Pod::new(namespace, "pod")
    }
}

proptest! {
    #![proptest_config(config(2))]

    #[test]
    fn selectors_select_alike(selector in selector(), labels in labels()) {
        prop_assert_eq!(matches(&selector, &labels), selector.matches(&labels));
    }

    #[test]
    fn terms_select_alike(
        own in selector(), names in prop::collection::vec(0..NAMESPACES.len(), 0..3), by_labels in prop::option::of(selector()),
        namespaces in (labels(), labels()), namespace in 0..NAMESPACES.len(), labels in labels(),
    ) {
        let mut snapshot = Snapshot::new(Arc::new(Interner::default()));
        snapshot.namespaces = vec![("default".into(), Arc::new(namespaces.0)), ("prod".into(), Arc::new(namespaces.1))];
        let names = names.into_iter().map(|at| Arc::from(NAMESPACES[at])).collect();
        let term = AffinityTerm { key: sym::ZONE, selector: own, namespaces: NamespaceScope { names, selector: by_labels } };
        let pod = labelled_pod(NAMESPACES[namespace], labels);
        let expected = snapshot.in_scope(&term.namespaces, &pod.namespace) && term.selector.matches(&pod.labels);
        prop_assert_eq!(term_selects(&snapshot, &term, &pod), expected);
    }
}
