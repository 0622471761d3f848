//! Policies: the options that change what is decided, as their flags and variables spell them.
//!
//! They live in this leaf crate because the crate that parses options and the crates that decide share nothing else.

use crate::dollars::{InvalidAmount, pico};
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

/// How nodes are chosen among those the constraints allow. Neither `Balanced` nor `Cheapest` is ever dearer than `Upstream` for as many
/// pods. Where limits leave pods over, their launches offer fewer types, so that less of the limits is set aside for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Packing {
    /// Several strategies within an effort limit. The plan that schedules most pods wins, then the one with the lowest price plus node
    /// overhead cost, with few more nodes than `Upstream`.
    #[default]
    Balanced,
    /// The same strategies. The plan that schedules most pods wins, then the cheapest, whatever the number of nodes.
    Cheapest,
    /// The greedy of upstream alone (section 16 of `docs/behaviour/scheduling.md`).
    Upstream,
}

policy!(Packing: Balanced = "balanced", Cheapest = "cheapest", Upstream = "upstream");

/// What a node costs per hour besides its price, such as licences and agents, in 10⁻¹² dollars.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeOverheadCost(i64);

impl NodeOverheadCost {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount accepted, in dollars per hour. No node costs that much besides its price; a larger amount is a mistake.
    pub const PER_HOUR_MAX: f64 = 100.0;

    /// The amount in 10⁻¹² dollars per hour.
    pub const fn pico(self) -> i64 {
        self.0
    }

    /// An amount in dollars per hour. Returns `None` where it is negative, not finite or above [`Self::PER_HOUR_MAX`].
    pub fn from_per_hour(dollars: f64) -> Option<Self> {
        pico(dollars, Self::PER_HOUR_MAX).map(Self)
    }

    /// The amount in dollars per hour.
    pub fn per_hour(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl Default for NodeOverheadCost {
    /// 0.02 dollars per hour, about 15 dollars per month: docs/packing.md shows the curve it was chosen from.
    fn default() -> Self {
        Self(20_000_000_000)
    }
}

impl fmt::Display for NodeOverheadCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.per_hour())
    }
}

impl FromStr for NodeOverheadCost {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let amount = text.trim().parse().ok().and_then(Self::from_per_hour);
        amount.ok_or_else(|| InvalidAmount::new(text, Self::PER_HOUR_MAX, "0.02"))
    }
}

/// Whether plans are chosen by what they cost after kube-scheduler has bound their pods; Kerf's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ForecastBinding {
    /// Plans are chosen by what they cost as planned.
    Off,
    /// The machines that will be launched for pods left over count too.
    #[default]
    On,
}

policy!(ForecastBinding: Off = "Off", On = "On");

/// How kube-scheduler's plugin `NodeResourcesFit` scores nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NodeScoring {
    /// The emptiest node scores highest, as in the default profile.
    #[default]
    LeastAllocated,
    /// The fullest node scores highest.
    MostAllocated,
}

policy!(NodeScoring: LeastAllocated = "LeastAllocated", MostAllocated = "MostAllocated");

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

/// How many commands of consolidation a pass may start; Kerf's own (DIS-171, DIS-178).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CommandsPerPass {
    /// All that touch different nodes and move pods to different nodes, up to ten.
    Independent,
    /// One if the method consolidates, as upstream.
    #[default]
    One,
}

policy!(CommandsPerPass: Independent = "Independent", One = "One");

/// How many nodes may replace those of a consolidation command; Kerf's own (DIS-131).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replacements {
    /// One, as upstream.
    #[default]
    One,
    /// Several that cost less together, where no single one does.
    Several,
}

policy!(Replacements: One = "One", Several = "Several");

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
        for text in ["-1", "nan", "inf", "101", "", "two"] {
            let error = text.parse::<NodeOverheadCost>().expect_err("no amount");
            assert!(error.to_string().ends_with("from 0 to 100, such as 0.02"), "{error}");
        }
        let half = NodeOverheadCost::from_per_hour(0.5);
        assert_eq!("0.5".parse().ok(), half);
        assert_eq!(half.map(|half| half.to_string()).as_deref(), Some("0.5"));
        let error = "any".parse::<Destinations>().expect_err("the case differs");
        assert_eq!(error.to_string(), "\"any\" is not one of Settled, Any");
    }
}
