//! Policies: the options that change what is decided, as their flags and variables spell them.
//!
//! They live in this leaf crate because the crate that parses options and the crates that decide share nothing else.

use std::fmt;
use std::str::FromStr;

/// A policy, one value of a closed set.
pub trait Policy: Sized + Copy + PartialEq + 'static {
    /// Every value with the text that stands for it.
    const VALUES: &'static [(&'static str, Self)];

    /// The text that stands for the value.
    fn name(self) -> &'static str {
        let mut values = Self::VALUES.iter();
        values.find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }

    /// Every text that is accepted.
    fn names() -> impl Iterator<Item = &'static str> {
        Self::VALUES.iter().map(|(name, _)| *name)
    }
}

/// A text that stands for no value of a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownPolicy {
    /// The text.
    pub text: String,
    /// The texts that are accepted.
    pub accepted: Vec<&'static str>,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not one of {}", self.text, self.accepted.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

fn parse<P: Policy>(text: &str) -> Result<P, UnknownPolicy> {
    let mut values = P::VALUES.iter();
    let found = values.find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| UnknownPolicy {
        text: text.to_owned(),
        accepted: P::names().collect(),
    })
}

macro_rules! policy {
    ($policy:ident: $($value:ident = $text:literal),+) => {
        impl Policy for $policy {
            const VALUES: &'static [(&'static str, Self)] = &[$(($text, Self::$value)),+];
        }

        impl FromStr for $policy {
            type Err = UnknownPolicy;

            fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
                parse(text)
            }
        }

        impl fmt::Display for $policy {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

/// Whether preferences of pods are honoured until they stand in the way, or not at all (SCH-266, SCH-272, OPS-020).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PreferencePolicy {
    /// Honour them; relax one at a time where a pod could not be scheduled otherwise.
    #[default]
    Respect,
    /// Schedule as if they were not written.
    Ignore,
}

policy!(PreferencePolicy: Respect = "Respect", Ignore = "Ignore");

/// Whether `minValues` of a requirement may be lowered (SCH-282, OPS-021).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MinValuesPolicy {
    /// Never.
    #[default]
    Strict,
    /// On new claims, to as many values as there are.
    BestEffort,
}

policy!(MinValuesPolicy: Strict = "Strict", BestEffort = "BestEffort");

/// How nodes are chosen among those the constraints allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Packing {
    /// Several strategies within an effort limit; the plan that schedules most pods wins, then the cheapest. Never dearer than `Upstream` for
    /// as many pods. Where limits leave pods over, launches offer fewer types, so that less of the limits is set aside for each.
    #[default]
    Cheapest,
    /// The greedy of upstream alone (section 16 of the scheduling behaviour).
    Upstream,
}

policy!(Packing: Cheapest = "cheapest", Upstream = "upstream");

/// Where consolidation may move pods; Kerf's own (DIS-104).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Destinations {
    /// Not onto nodes within their own `consolidateAfter`, as upstream from 1.14 on.
    #[default]
    Settled,
    /// Onto every node that is initialised, as upstream before.
    Any,
}

policy!(Destinations: Settled = "Settled", Any = "Any");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_read_by_its_own_text_alone() {
        assert_eq!("BestEffort".parse(), Ok(MinValuesPolicy::BestEffort));
        assert_eq!(Packing::Upstream.to_string(), "upstream");
        for (name, value) in PreferencePolicy::VALUES {
            assert_eq!(name.parse(), Ok(*value));
        }
        let error = "any".parse::<Destinations>().expect_err("the case differs");
        assert_eq!(error.to_string(), "\"any\" is not one of Settled, Any");
    }
}
