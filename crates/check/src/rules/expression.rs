//! Node selector expressions: whether a label satisfies one.

use kerf_model::intern::Interner;
use kerf_model::pod::PodShape;
use kerf_model::requirement::Requirement;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One expression over a label, with its values as text.
#[derive(Clone, Debug)]
pub(crate) struct Expression<'a> {
    /// The label's key.
    pub(crate) key: &'a str,
    /// The values listed: the admitted ones, or the excluded ones where `excludes` is set.
    pub(crate) values: Arc<BTreeSet<&'a str>>,
    /// `NotIn`, `Exists`, `Gt` and `Lt` admit every value but those listed; `In` and `DoesNotExist` admit the listed ones only.
    pub(crate) excludes: bool,
    /// The value must be an integer of at least this.
    pub(crate) at_least: Option<i64>,
    /// The value must be an integer of at most this.
    pub(crate) at_most: Option<i64>,
}

impl<'a> Expression<'a> {
    /// Reads a requirement of the model.
    pub(crate) fn read(requirement: &Requirement, interner: &'a Interner) -> Self {
        Self {
            key: interner.text(requirement.key),
            values: Arc::new(requirement.values.iter().map(|value| interner.text(*value)).collect()),
            excludes: requirement.complement,
            at_least: requirement.gte,
            at_most: requirement.lte,
        }
    }

    /// `key In [value]`, what a label that is there says.
    pub(crate) fn is(key: &'a str, value: &'a str) -> Self {
        Self {
            key,
            values: Arc::new(BTreeSet::from([value])),
            excludes: false,
            at_least: None,
            at_most: None,
        }
    }

    /// Whether the label with this value, or without any, satisfies the expression.
    ///
    /// `In`: the value is listed. `NotIn`: the label is missing or its value is not listed. `Exists`: the label is there.
    /// `DoesNotExist`: it is missing. `Gt`, `Lt`: the value is an integer and compares so.
    pub(crate) fn holds(&self, label: Option<&str>) -> bool {
        let bounded = self.at_least.is_some() || self.at_most.is_some();
        let Some(value) = label else {
            let does_not_exist = !self.excludes && self.values.is_empty();
            let not_in = self.excludes && !self.values.is_empty() && !bounded;
            return does_not_exist || not_in;
        };
        if self.values.contains(value) == self.excludes {
            return false;
        }
        if !bounded {
            return true;
        }
        let Ok(number) = value.parse::<i64>() else { return false };
        self.at_least.is_none_or(|least| number >= least) && self.at_most.is_none_or(|most| number <= most)
    }
}

/// Reads every requirement of a set.
pub(crate) fn read_all<'a, 'r>(
    requirements: impl IntoIterator<Item = &'r Requirement>,
    interner: &'a Interner,
) -> Vec<Expression<'a>> {
    let all = requirements.into_iter();
    all.map(|requirement| Expression::read(requirement, interner)).collect()
}

/// Whether labels satisfy every requirement of a list.
pub(crate) fn all_hold<'r, 'l>(
    wanted: impl IntoIterator<Item = &'r Requirement>,
    interner: &Interner,
    label: impl Fn(&str) -> Option<&'l str>,
) -> bool {
    wanted.into_iter().all(|requirement| {
        let expression = Expression::read(requirement, interner);
        expression.holds(label(expression.key))
    })
}

/// Whether labels satisfy the node selector, and any one term of the required node affinity where there is one.
pub(crate) fn selects<'l>(shape: &PodShape, interner: &Interner, label: impl Fn(&str) -> Option<&'l str>) -> bool {
    all_hold(&shape.node_selector, interner, &label)
        && (shape.required_terms.is_empty() || shape.required_terms.iter().any(|term| all_hold(term, interner, &label)))
}
