//! The option that says which plans nominate their pods to the nodes they are planned onto.

use std::fmt;
use std::str::FromStr;

/// The largest number of waiting pods in a plan that nominates them. Each nomination is a write to the API; the more pods a scale-up has, the
/// less it depends on single ones.
///
/// None by default: docs/packing.md has what nominations save and cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NominatedPodsMax(u32);

impl NominatedPodsMax {
    /// No pod is nominated.
    pub const NONE: Self = Self(0);

    /// Whether the pods of a plan for so many are nominated.
    pub const fn allows(self, pods: usize) -> bool {
        pods <= self.0 as usize
    }

    /// Whether no pod is ever nominated.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl From<u32> for NominatedPodsMax {
    fn from(pods: u32) -> Self {
        Self(pods)
    }
}

impl fmt::Display for NominatedPodsMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for NominatedPodsMax {
    type Err = InvalidCount;

    fn from_str(text: &str) -> Result<Self, InvalidCount> {
        text.parse().map(Self).map_err(|_| InvalidCount(text.to_owned()))
    }
}

/// A text that is no number of pods.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a number of pods; 0 nominates none")]
pub struct InvalidCount(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_whole_number_from_zero() {
        let parsed = |text: &str| text.parse::<NominatedPodsMax>().map_err(|error| error.to_string());
        assert_eq!(parsed("0"), Ok(NominatedPodsMax::NONE));
        assert_eq!(parsed("500"), Ok(NominatedPodsMax::from(500)));
        assert!(NominatedPodsMax::default().is_none());
        for text in ["", "-1", "true", "5000000000"] {
            let error = format!("{text:?} is not a number of pods; 0 nominates none");
            assert_eq!(parsed(text), Err(error));
        }
        assert_eq!(NominatedPodsMax::from(500).to_string(), "500");
        let max = NominatedPodsMax::from(2);
        assert_eq!([1, 2, 3].map(|pods| max.allows(pods)), [true, true, false]);
        assert!(NominatedPodsMax::NONE.is_none() && !max.is_none());
    }
}
