//! The option that says what part of a price replacements must save.

use std::fmt;
use std::str::FromStr;

/// What the replacements of a consolidation command must save of the price of the nodes they replace, in percent.
///
/// 10 by default (`docs/packing.md`): single nodes that are replaced by a type a few percent cheaper are a tenth of all evictions and save less than
/// a hundredth of the price. Each node that goes without a replacement saves its overhead, too. 0 accepts every saving, as Karpenter does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MinSavingsPercent(u8);

impl Default for MinSavingsPercent {
    fn default() -> Self {
        Self(10)
    }
}

impl MinSavingsPercent {
    /// The percentage. Returns `None` above 99: no replacement costs nothing.
    pub const fn new(percent: u8) -> Option<Self> {
        if percent < 100 { Some(Self(percent)) } else { None }
    }

    /// That part of an amount of 0 or more, rounded down.
    pub const fn of(self, amount: i64) -> i64 {
        let percent = self.0 as i64;
        amount / 100 * percent + amount % 100 * percent / 100
    }
}

impl fmt::Display for MinSavingsPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for MinSavingsPercent {
    type Err = InvalidPercent;

    fn from_str(text: &str) -> Result<Self, InvalidPercent> {
        let percent = text.parse().ok().and_then(Self::new);
        percent.ok_or_else(|| InvalidPercent(text.to_owned()))
    }
}

/// A text that is no such percentage.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a whole number of percent from 0 to 99, such as 5")]
pub struct InvalidPercent(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_and_printed() {
        for text in ["0", "10", "99"] {
            let read: Result<MinSavingsPercent, _> = text.parse();
            assert_eq!(read.map(|it| it.to_string()).as_deref(), Ok(text));
        }
        assert_eq!(MinSavingsPercent::default().to_string(), "10");
        for text in ["", "100", "-1", "10%", "0.1", "256", "ten"] {
            let refused: Result<MinSavingsPercent, _> = text.parse();
            let message = refused.expect_err(text).to_string();
            assert!(message.ends_with("from 0 to 99, such as 5"), "{message}");
        }
    }

    #[test]
    fn parts_of_any_price_are_exact() {
        let of = |percent, amount| MinSavingsPercent::new(percent).map(|it| it.of(amount));
        assert_eq!(of(10, 1_000), Some(100));
        assert_eq!(of(15, 199), Some(29));
        assert_eq!(of(0, 1_000), Some(0));
        assert_eq!(of(99, i64::MAX), Some(9_131_138_316_486_228_048));
        assert_eq!(of(100, 1), None);
    }
}
