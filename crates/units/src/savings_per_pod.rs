//! The option that says what consolidation must save.

use crate::dollars::{InvalidAmount, pico};
use std::fmt;
use std::str::FromStr;

/// What a command of consolidation must save per hour for each plain pod it moves, in 10⁻¹² dollars. The default accepts every saving, as
/// upstream does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct SavingsPerPod(i64);

impl SavingsPerPod {
    /// The largest amount accepted, in dollars per hour: a million, which no node costs and whose sums still fit into integers.
    pub const PER_HOUR_MAX: f64 = 1.0e6;

    /// An amount in dollars per hour. Returns `None` where it is negative, not finite or above [`Self::PER_HOUR_MAX`].
    pub fn from_per_hour(dollars: f64) -> Option<Self> {
        pico(dollars, Self::PER_HOUR_MAX).map(Self)
    }

    /// The amount in 10⁻¹² dollars per hour.
    pub const fn pico(self) -> i64 {
        self.0
    }
}

impl fmt::Display for SavingsPerPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 as f64 / 1e12)
    }
}

impl FromStr for SavingsPerPod {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let amount = text.parse().ok().and_then(Self::from_per_hour);
        amount.ok_or_else(|| InvalidAmount::new(text, Self::PER_HOUR_MAX, "0.002"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_printed_in_dollars_per_hour() {
        let pico = |text: &str| text.parse().map(SavingsPerPod::pico);
        assert_eq!(pico("0.002"), Ok(2_000_000_000));
        assert_eq!(pico("1000000"), Ok(1_000_000_000_000_000_000));
        assert_eq!(
            SavingsPerPod::from_per_hour(0.25).map(|it| it.to_string()).as_deref(),
            Some("0.25")
        );
        assert_eq!(SavingsPerPod::default().to_string(), "0");
        for text in ["", "-1", "NaN", "inf", "1000001", "a lot", "0.1$"] {
            assert!(pico(text).is_err(), "{text}");
        }
    }
}
