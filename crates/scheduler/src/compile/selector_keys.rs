//! The label keys that pod selectors read.

use kerf_model::pod::PodShape;
use kerf_model::selector::{LabelSelector, Match};
use rustc_hash::FxHashSet;

/// The label keys that selectors read. Two pods with equal values of these keys are equal to every group.
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
