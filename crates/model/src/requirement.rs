//! The algebra of node requirements (SCH-083 to SCH-106): one key's admitted values, and sets of such requirements.

use crate::intern::{Interner, Sym, sym};
use smallvec::SmallVec;
use std::sync::Arc;

/// The operator a requirement is written with in a manifest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    Gte,
    Lte,
}

impl Operator {
    /// From the name in the API.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            "Gte" => Self::Gte,
            "Lte" => Self::Lte,
            _ => return None,
        })
    }

    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }
}

/// The values of a set: sorted by id, without duplicates.
pub type Values = SmallVec<[Sym; 2]>;

/// Which values of one key are admitted (SCH-083). `DoesNotExist` is the empty plain set, `Exists` the complement of nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Requirement {
    /// The label key.
    pub key: Sym,
    /// Whether `values` are the excluded ones.
    pub complement: bool,
    /// The admitted values, or the excluded ones of a complement.
    pub values: Values,
    /// Inclusive lower bound; only complements carry bounds.
    pub gte: Option<i64>,
    /// Inclusive upper bound; only complements carry bounds.
    pub lte: Option<i64>,
    /// The least number of distinct values a claim's instance types must offer together (section 18 of `docs/behaviour/scheduling.md`).
    pub min_values: Option<u32>,
}

impl Requirement {
    /// `key In [value]`.
    pub fn is(key: Sym, value: Sym) -> Self {
        Self::any_of(key, [value])
    }

    /// `key In values`.
    pub fn any_of(key: Sym, values: impl IntoIterator<Item = Sym>) -> Self {
        Self {
            key,
            complement: false,
            values: sorted(values),
            gte: None,
            lte: None,
            min_values: None,
        }
    }

    /// `key NotIn values`.
    pub fn none_of(key: Sym, values: impl IntoIterator<Item = Sym>) -> Self {
        Self {
            complement: true,
            ..Self::any_of(key, values)
        }
    }

    /// `key Exists`.
    pub fn exists(key: Sym) -> Self {
        Self::none_of(key, [])
    }

    /// `key DoesNotExist`.
    pub fn does_not_exist(key: Sym) -> Self {
        Self::any_of(key, [])
    }

    /// `gte ≤ key ≤ lte`, either bound optional; contradictory bounds are `DoesNotExist` (SCH-088).
    pub fn between(key: Sym, gte: Option<i64>, lte: Option<i64>) -> Self {
        // SCH-479: no integer of zero or more is at most −1.
        if gte.zip(lte).is_some_and(|(gte, lte)| gte > lte) || lte.is_some_and(|lte| lte < 0) {
            return Self::does_not_exist(key);
        }
        Self {
            gte,
            lte,
            ..Self::exists(key)
        }
    }

    /// `key Gt n`; greater than the maximum integer is `DoesNotExist` (SCH-084).
    pub fn greater(key: Sym, n: i64) -> Self {
        n.checked_add(1)
            .map_or_else(|| Self::does_not_exist(key), |gte| Self::between(key, Some(gte), None))
    }

    /// `key Lt n` (SCH-084).
    pub fn less(key: Sym, n: i64) -> Self {
        n.checked_sub(1)
            .map_or_else(|| Self::does_not_exist(key), |lte| Self::between(key, None, Some(lte)))
    }

    /// The same with `minValues`.
    #[must_use]
    pub fn with_min_values(mut self, min_values: Option<u32>) -> Self {
        self.min_values = min_values;
        self
    }

    /// The reported operator (SCH-085).
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (false, false) => Operator::In,
            (false, true) => Operator::DoesNotExist,
            (true, false) => Operator::NotIn,
            (true, true) => Operator::Exists,
        }
    }

    /// Whether nothing can satisfy it but the key's absence.
    pub fn is_does_not_exist(&self) -> bool {
        !self.complement && self.values.is_empty()
    }

    /// `NotIn` or `DoesNotExist`: satisfied by a missing key.
    pub fn admits_absence(&self) -> bool {
        matches!(self.operator(), Operator::NotIn | Operator::DoesNotExist)
    }

    fn within_bounds(&self, value: Sym, interner: &Interner) -> bool {
        if self.gte.is_none() && self.lte.is_none() {
            return true;
        }
        interner
            .integer(value)
            .is_some_and(|n| self.gte.is_none_or(|gte| n >= gte) && self.lte.is_none_or(|lte| n <= lte))
    }

    /// Whether `value` is admitted (SCH-087).
    pub fn has(&self, value: Sym, interner: &Interner) -> bool {
        (self.values.binary_search(&value).is_ok() != self.complement) && self.within_bounds(value, interner)
    }

    /// The single admitted value, if there is exactly one.
    pub fn single(&self) -> Option<Sym> {
        match (self.complement, self.values.as_slice()) {
            (false, [only]) => Some(*only),
            _ => None,
        }
    }

    /// What both admit (SCH-088 to SCH-092).
    #[must_use]
    pub fn intersect(&self, other: &Self, interner: &Interner) -> Self {
        let min_values = self.min_values.max(other.min_values);
        let gte = self.gte.max(other.gte);
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if gte.zip(lte).is_some_and(|(gte, lte)| gte > lte) {
            return Self::does_not_exist(self.key).with_min_values(min_values);
        }
        let values: Values = match (self.complement, other.complement) {
            (true, true) => sorted(self.values.iter().chain(&other.values).copied()),
            (true, false) => other
                .values
                .iter()
                .filter(|v| self.values.binary_search(v).is_err())
                .copied()
                .collect(),
            (false, true) => self
                .values
                .iter()
                .filter(|v| other.values.binary_search(v).is_err())
                .copied()
                .collect(),
            (false, false) => self
                .values
                .iter()
                .filter(|v| other.values.binary_search(v).is_ok())
                .copied()
                .collect(),
        };
        let complement = self.complement && other.complement;
        let mut result = Self {
            key: self.key,
            complement,
            values,
            gte,
            lte,
            min_values,
        };
        if gte.is_some() || lte.is_some() {
            let bounds = result.clone();
            result.values.retain(|value| bounds.within_bounds(*value, interner));
        }
        if !complement {
            (result.gte, result.lte) = (None, None);
        }
        result
    }

    /// Whether some value is admitted by both.
    pub fn intersects(&self, other: &Self, interner: &Interner) -> bool {
        !self.intersect(other, interner).is_does_not_exist()
    }

    /// The text form (SCH-094): at most five values, then how many more.
    pub fn print(&self, interner: &Interner) -> String {
        let operator = self.operator();
        let mut text = format!("{} {}", interner.text(self.key), operator.as_str());
        if matches!(operator, Operator::In | Operator::NotIn) {
            let mut values: Vec<&str> = self.values.iter().map(|value| interner.text(*value)).collect();
            values.sort_unstable();
            let rest = values.len().saturating_sub(5);
            values.truncate(5);
            let more = if rest > 0 {
                format!(" and {rest} others")
            } else {
                String::new()
            };
            text.push_str(&format!(" [{}{more}]", values.join(" ")));
        }
        if let Some(gte) = self.gte {
            text.push_str(&format!(" >={gte}"));
        }
        if let Some(lte) = self.lte {
            text.push_str(&format!(" <={lte}"));
        }
        if let Some(min_values) = self.min_values {
            text.push_str(&format!(" minValues {min_values}"));
        }
        text
    }
}

fn sorted(values: impl IntoIterator<Item = Sym>) -> Values {
    let mut values: Values = values.into_iter().collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Requirements by key: at most one per key, sorted by key id (SCH-096). Clones share memory until one of them changes: thousands of offerings
/// are in the same zones, and classes have the same instance types.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Requirements(Arc<Vec<Requirement>>);

/// Why two sets of requirements do not go together (SCH-100, SCH-101).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Incompatibility {
    /// The key is neither defined by the candidate nor allowed to be undefined.
    UndefinedKey(Sym),
    /// Both define the key and no value is left.
    Conflict {
        /// What was asked for.
        wanted: Box<Requirement>,
        /// What the candidate offers.
        offered: Box<Requirement>,
    },
}

impl Requirements {
    /// No requirements: everything is admitted.
    pub fn new() -> Self {
        Self::default()
    }

    /// `In [value]` for each label (SCH-098).
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = &'a (Sym, Sym)>, interner: &Interner) -> Self {
        let mut all = Self::new();
        for (key, value) in labels {
            all.add(Requirement::is(*key, *value), interner);
        }
        all
    }

    /// From single requirements, intersecting those on the same key.
    pub fn from_all(requirements: impl IntoIterator<Item = Requirement>, interner: &Interner) -> Self {
        let mut all = Self::new();
        for requirement in requirements {
            all.add(requirement, interner);
        }
        all
    }

    /// The requirement on a key, if defined.
    pub fn get(&self, key: Sym) -> Option<&Requirement> {
        let at = self.0.binary_search_by_key(&key, |r| r.key).ok()?;
        self.0.get(at)
    }

    /// Adds one, intersecting with what is there on its key (SCH-096).
    pub fn add(&mut self, requirement: Requirement, interner: &Interner) {
        match self.0.binary_search_by_key(&requirement.key, |r| r.key) {
            Ok(at) => {
                if let Some(known) = Arc::make_mut(&mut self.0).get_mut(at) {
                    *known = known.intersect(&requirement, interner);
                }
            }
            Err(at) => Arc::make_mut(&mut self.0).insert(at, requirement),
        }
    }

    /// Adds all of another set.
    pub fn add_all(&mut self, other: &Self, interner: &Interner) {
        for requirement in other {
            self.add(requirement.clone(), interner);
        }
    }

    /// Puts one in place of whatever its key had.
    pub fn replace(&mut self, requirement: Requirement) {
        match self.0.binary_search_by_key(&requirement.key, |r| r.key) {
            Ok(at) => {
                if let Some(known) = Arc::make_mut(&mut self.0).get_mut(at) {
                    *known = requirement;
                }
            }
            Err(at) => Arc::make_mut(&mut self.0).insert(at, requirement),
        }
    }

    /// Removes the requirement on a key.
    pub fn remove(&mut self, key: Sym) {
        if self.get(key).is_some() {
            Arc::make_mut(&mut self.0).retain(|requirement| requirement.key != key);
        }
    }

    /// By key id.
    pub fn iter(&self) -> std::slice::Iter<'_, Requirement> {
        self.0.iter()
    }

    /// How many keys are constrained.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is constrained.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any requirement carries `minValues`.
    pub fn has_min_values(&self) -> bool {
        self.0.iter().any(|requirement| requirement.min_values.is_some())
    }

    /// The conflict on the first key by text that both define (SCH-100); `NotIn` and `DoesNotExist` never conflict with each other.
    pub fn intersects(&self, wanted: &Self, interner: &Interner) -> Result<(), Incompatibility> {
        let mut first: Option<(&Requirement, &Requirement)> = None;
        for want in wanted {
            let Some(have) = self.get(want.key) else { continue };
            if have.intersects(want, interner) || (have.admits_absence() && want.admits_absence()) {
                continue;
            }
            if first.is_none_or(|(known, _)| interner.text(want.key) < interner.text(known.key)) {
                first = Some((want, have));
            }
        }
        first.map_or(Ok(()), |(wanted, offered)| {
            Err(Incompatibility::Conflict {
                wanted: Box::new(wanted.clone()),
                offered: Box::new(offered.clone()),
            })
        })
    }

    /// Whether a candidate with these requirements can satisfy `wanted` (SCH-101); `allowed_undefined` says which keys may stay undefined.
    pub fn compatible(
        &self,
        wanted: &Self,
        allowed_undefined: impl Fn(Sym) -> bool,
        interner: &Interner,
    ) -> Result<(), Incompatibility> {
        let undefined = wanted
            .0
            .iter()
            .filter(|want| self.get(want.key).is_none() && !allowed_undefined(want.key) && !want.admits_absence());
        // Which of several is named follows their text, not the order in which keys were met first.
        if let Some(want) = undefined.min_by_key(|want| interner.text(want.key)) {
            return Err(Incompatibility::UndefinedKey(want.key));
        }
        self.intersects(wanted, interner)
    }

    /// The text form (SCH-094): sorted, joined by `, `, hostname omitted.
    pub fn print(&self, interner: &Interner) -> String {
        let mut parts: Vec<String> = self
            .0
            .iter()
            .filter(|r| r.key != sym::HOSTNAME)
            .map(|r| r.print(interner))
            .collect();
        parts.sort_unstable();
        parts.join(", ")
    }
}

impl<'a> IntoIterator for &'a Requirements {
    type Item = &'a Requirement;
    type IntoIter = std::slice::Iter<'a, Requirement>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
