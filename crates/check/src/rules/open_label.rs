//! Labels of machines that are only planned: which values one may still get.

use crate::rules::expression::Expression;
use std::collections::BTreeSet;

/// A label that is not set yet: each source admits certain values, and the value will be one that all of them admit.
#[derive(Clone, Debug)]
pub(crate) struct OpenLabel<'a> {
    sources: Vec<Expression<'a>>,
}

impl<'a> OpenLabel<'a> {
    /// A label that these sources constrain. Without a source the label will be missing.
    pub(crate) fn new(sources: impl IntoIterator<Item = Expression<'a>>) -> Self {
        Self {
            sources: sources.into_iter().collect(),
        }
    }

    fn admits(&self, value: &str) -> bool {
        self.sources.iter().all(|source| source.holds(Some(value)))
    }

    /// The values that are left, where some source lists values; `None` where none does.
    pub(crate) fn listed(&self) -> Option<BTreeSet<&'a str>> {
        let list = self.sources.iter().find(|source| !source.excludes)?;
        Some(list.values.iter().copied().filter(|value| self.admits(value)).collect())
    }

    /// The value, where only one is left.
    pub(crate) fn only(&self) -> Option<&'a str> {
        let listed = self.listed()?;
        if listed.len() == 1 {
            listed.first().copied()
        } else {
            None
        }
    }

    /// The values to try: those listed, or where the label is open, one of every sort the expressions can tell apart.
    fn candidates(&self, wanted: &[Expression<'_>]) -> Vec<String> {
        match self.listed() {
            Some(listed) => listed.into_iter().map(str::to_owned).collect(),
            None => representatives(self.sources.iter().chain(wanted)),
        }
    }

    fn possible(&self, wanted: &[Expression<'_>]) -> Vec<String> {
        if self.sources.is_empty() {
            return Vec::new();
        }
        let mut candidates = self.candidates(wanted);
        candidates.retain(|value| self.admits(value));
        candidates
    }

    /// Whether the label can be there with some value.
    pub(crate) fn may_exist(&self) -> bool {
        !self.possible(&[]).is_empty()
    }

    /// Whether the expressions hold whatever the label becomes.
    pub(crate) fn always(&self, wanted: &[Expression<'_>]) -> bool {
        let hold = |label: Option<&str>| wanted.iter().all(|expression| expression.holds(label));
        let possible = self.possible(wanted);
        if possible.is_empty() {
            return hold(None);
        }
        possible.iter().all(|value| hold(Some(value)))
    }

    /// Whether the expressions may hold: for a value the sources admit, or for none where all of them admit that it is missing.
    pub(crate) fn may(&self, wanted: &[Expression<'_>]) -> bool {
        let hold = |label: Option<&str>| wanted.iter().all(|expression| expression.holds(label));
        let may_miss = self.sources.iter().all(|source| source.holds(None));
        (may_miss && hold(None)) || self.may_exist_with(wanted)
    }

    /// Whether the sources and the expressions admit one value together. Where one of them lists values, only these are tried, and those of
    /// the shortest list: users write lists of thousands.
    fn may_exist_with(&self, wanted: &[Expression<'_>]) -> bool {
        let all = || self.sources.iter().chain(wanted);
        let holds = |value: &str| all().all(|expression| expression.holds(Some(value)));
        let lists = all().filter(|expression| !expression.excludes);
        match lists.min_by_key(|list| list.values.len()) {
            _ if self.sources.is_empty() => false,
            Some(list) => list.values.iter().any(|value| holds(value)),
            None => representatives(all()).iter().any(|value| holds(value)),
        }
    }
}

/// Whether a machine may satisfy every expression of `wanted`, where `known` says what its labels may be. A label about which nothing is
/// known is missing, unless `may_be_undefined` allows the key: such a label may become anything.
pub(crate) fn may_satisfy(
    known: &[Expression<'_>],
    wanted: &[Expression<'_>],
    may_be_undefined: impl Fn(&str) -> bool,
) -> bool {
    let keys: BTreeSet<&str> = wanted.iter().map(|expression| expression.key).collect();
    keys.into_iter().all(|key| {
        let (own, asked) = (about(known, key), about(wanted, key));
        if own.is_empty() {
            return may_be_undefined(key) || asked.iter().all(|expression| expression.holds(None));
        }
        OpenLabel::new(own).may(&asked)
    })
}

fn about<'e>(all: &[Expression<'e>], key: &str) -> Vec<Expression<'e>> {
    all.iter().filter(|one| one.key == key).cloned().collect()
}

/// Values of every sort that expressions can tell apart: each value they list, integers at, just below and just above each number they
/// name, the same integers written longer than any listed value, and a text that is no integer and that no expression lists.
fn representatives<'e>(expressions: impl Iterator<Item = &'e Expression<'e>>) -> Vec<String> {
    let (mut texts, mut numbers) = (BTreeSet::new(), BTreeSet::from([0_i64]));
    for expression in expressions {
        texts.extend(expression.values.iter().map(|value| (*value).to_owned()));
        numbers.extend(expression.values.iter().filter_map(|value| value.parse::<i64>().ok()));
        numbers.extend(expression.at_least);
        numbers.extend(expression.at_most);
    }
    let longer = texts.iter().map(String::len).max().unwrap_or(0) + 20;
    let around = |number: i64| [number.saturating_sub(1), number, number.saturating_add(1)];
    let integers: BTreeSet<i64> = numbers.into_iter().flat_map(around).collect();
    for number in integers {
        texts.insert(number.to_string());
        texts.insert(format!("{number:0longer$}"));
    }
    texts.insert("x".repeat(longer));
    texts.into_iter().collect()
}
