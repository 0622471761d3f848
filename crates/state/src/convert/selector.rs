//! Label selectors.

use crate::lean::LeanLabelSelector;
use kerf_model::selector::{LabelSelector, Match};
use std::sync::Arc;

/// A selector as written; a missing or unparsable one selects nothing (SCH-191).
pub fn label_selector(selector: Option<&LeanLabelSelector>) -> LabelSelector {
    let conditions = selector.and_then(conditions);
    conditions.map_or(LabelSelector::Nothing, LabelSelector::all)
}

/// The conditions of a selector, `None` where one cannot be read.
pub(super) fn conditions(selector: &LeanLabelSelector) -> Option<Vec<Match>> {
    let mut all: Vec<Match> = selector
        .match_labels
        .iter()
        .map(|(key, value)| Match::any_of(key.as_str(), [Arc::from(value.as_str())]))
        .collect();
    for expression in &selector.match_expressions {
        let key = expression.key.as_str();
        let values = || expression.values.iter().map(|value| Arc::from(value.as_str()));
        all.push(match (expression.operator.as_str(), expression.values.is_empty()) {
            ("In", false) => Match::any_of(key, values()),
            ("NotIn", false) => Match::none_of(key, values()),
            ("Exists", true) => Match::Exists(key.into()),
            ("DoesNotExist", true) => Match::DoesNotExist(key.into()),
            _ => return None,
        });
    }
    Some(all)
}
