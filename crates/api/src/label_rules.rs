//! Which labels users may set, what old keys mean, and which key a misspelt one was meant to be.
//!
//! The rules depend on the provider, which adds well-known labels and a restricted domain of its own. Admission judges
//! domains by their ending, this module by whole parts; the two differ on purpose (API-146, API-229).

use std::collections::{BTreeMap, BTreeSet};

use crate::labels;
use crate::names::domain_of;

/// The rules of one provider. Build one at start and hand it down.
#[derive(Clone, Debug)]
pub struct LabelRules {
    well_known: BTreeSet<String>,
    restricted_domains: BTreeSet<String>,
    restricted_keys: BTreeSet<String>,
    well_known_values: BTreeMap<String, BTreeSet<String>>,
    normalized: BTreeMap<String, String>,
    normalized_values: BTreeMap<String, BTreeMap<String, String>>,
}

/// A label that may not be set (API-071, SCH-108).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "using label {key} is not allowed as it might interfere with the internal provisioning logic; specify a well known label: [{well_known}], or a custom label that does not use a restricted domain: [{domains}]"
)]
pub struct RestrictedLabel {
    /// The label's key.
    pub key: String,
    /// All well-known keys, sorted and blank separated.
    pub well_known: String,
    /// All restricted domains, sorted and blank separated.
    pub domains: String,
}

fn owned<const N: usize>(keys: [&str; N]) -> BTreeSet<String> {
    keys.into_iter().map(str::to_owned).collect()
}

impl LabelRules {
    /// The rules all providers share.
    pub fn core() -> Self {
        Self {
            well_known: owned(labels::WELL_KNOWN),
            restricted_domains: owned(["karpenter.sh"]),
            restricted_keys: owned([labels::HOSTNAME]),
            well_known_values: [(labels::CAPACITY_TYPE.to_owned(), owned(labels::CAPACITY_TYPES))].into(),
            normalized: labels::NORMALIZED
                .map(|(old, new)| (old.to_owned(), new.to_owned()))
                .into(),
            normalized_values: BTreeMap::new(),
        }
    }

    /// The rules of the simulated provider; the labels of its catalogue's offerings are added (KWK-004).
    pub fn kwok() -> Self {
        Self::core()
            .with_restricted_domain("karpenter.kwok.sh")
            .with_well_known(labels::kwok::WELL_KNOWN)
    }

    /// Adds well-known labels.
    #[must_use]
    pub fn with_well_known<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.well_known.extend(keys.into_iter().map(Into::into));
        self
    }

    /// Adds a restricted domain.
    #[must_use]
    pub fn with_restricted_domain(mut self, domain: impl Into<String>) -> Self {
        self.restricted_domains.insert(domain.into());
        self
    }

    /// Closes the set of values of a well-known label.
    #[must_use]
    pub fn with_well_known_values<V: Into<String>>(
        mut self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.well_known_values
            .entry(key.into())
            .or_default()
            .extend(values.into_iter().map(Into::into));
        self
    }

    /// Reads an old key as another one.
    #[must_use]
    pub fn with_normalized(mut self, old: impl Into<String>, new: impl Into<String>) -> Self {
        self.normalized.insert(old.into(), new.into());
        self
    }

    /// Reads a value of a normalised key as another one.
    #[must_use]
    pub fn with_normalized_value(
        mut self,
        key: impl Into<String>,
        old: impl Into<String>,
        new: impl Into<String>,
    ) -> Self {
        self.normalized_values
            .entry(key.into())
            .or_default()
            .insert(old.into(), new.into());
        self
    }

    /// Labels that offerings and instance types may define, in byte order.
    pub fn well_known(&self) -> impl Iterator<Item = &str> {
        self.well_known.iter().map(String::as_str)
    }

    /// Whether the provider knows the label by itself.
    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known.contains(key)
    }

    /// The closed set of values of a label, if it has one.
    pub fn well_known_values(&self, key: &str) -> Option<&BTreeSet<String>> {
        self.well_known_values.get(key)
    }

    /// The key an old one stands for, or the key itself (API-162, SCH-099).
    pub fn normalize<'a>(&'a self, key: &'a str) -> &'a str {
        self.normalized.get(key).map_or(key, String::as_str)
    }

    /// The value an old one stands for; `key` is normalised already.
    pub fn normalize_value<'a>(&'a self, key: &str, value: &'a str) -> &'a str {
        self.normalized_values
            .get(key)
            .and_then(|values| values.get(value))
            .map_or(value, String::as_str)
    }

    /// Refuses keys that users may not set (API-144): not well-known and in a restricted domain or below one, or restricted
    /// themselves.
    pub fn check(&self, key: &str) -> Result<(), RestrictedLabel> {
        if self.is_well_known(key) {
            return Ok(());
        }
        if !self.restricted_keys.contains(key) && !self.in_restricted_domain(key) {
            return Ok(());
        }
        Err(RestrictedLabel {
            key: key.to_owned(),
            well_known: join(&self.well_known),
            domains: join(&self.restricted_domains),
        })
    }

    fn in_restricted_domain(&self, key: &str) -> bool {
        let Some(domain) = domain_of(key) else { return false };
        self.restricted_domains.iter().any(|restricted| {
            domain
                .strip_suffix(restricted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    }

    /// The well-known key, or else one of `defined`, that an undefined key was probably meant to be (SCH-105).
    pub fn hint<'a>(&'a self, key: &str, defined: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let name = key.split_once('/').map_or(key, |(_, name)| name);
        if key.is_empty() || name.is_empty() {
            return None;
        }
        let similar = |known: &&str| known.contains(key) || known.ends_with(name);
        self.well_known()
            .find(similar)
            .or_else(|| defined.into_iter().find(similar))
    }
}

fn join(keys: &BTreeSet<String>) -> String {
    keys.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}
