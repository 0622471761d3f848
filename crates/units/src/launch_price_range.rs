//! The option that says how much dearer than its cheapest the instance types of a launch may be.

use std::fmt;
use std::str::FromStr;

/// How much more than the cheapest one an instance type of a launch may cost, in percent.
///
/// Empty by default: a launch lists every type that fits its pods, as Karpenter does. EC2 launches spot capacity of any of them, by price and by
/// how likely an interruption is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaunchPriceRange(Option<u16>);

impl LaunchPriceRange {
    /// The largest percentage accepted: types that cost ten times as much are no choice.
    pub const PERCENT_MAX: u16 = 1_000;

    /// A percentage. Returns `None` above [`Self::PERCENT_MAX`].
    pub const fn new(percent: u16) -> Option<Self> {
        if percent <= Self::PERCENT_MAX {
            Some(Self(Some(percent)))
        } else {
            None
        }
    }

    /// The highest price where this is the lowest; `None` if every price is accepted.
    pub const fn highest(self, lowest: i64) -> Option<i64> {
        match self.0 {
            Some(percent) => {
                let (percent, hundredths) = (percent as i64, lowest / 100);
                let more = hundredths
                    .saturating_mul(percent)
                    .saturating_add(lowest % 100 * percent / 100);
                Some(lowest.saturating_add(more))
            }
            None => None,
        }
    }
}

impl fmt::Display for LaunchPriceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |percent| write!(f, "{percent}"))
    }
}

impl FromStr for LaunchPriceRange {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let percent = text.parse().ok().and_then(Self::new);
        percent.ok_or_else(|| InvalidRange(text.to_owned()))
    }
}

/// A text that is no such percentage.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is neither a whole number of percent from 0 to {max}, such as 20, nor empty", max = LaunchPriceRange::PERCENT_MAX)]
pub struct InvalidRange(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_printed() {
        for text in ["", "0", "20", "1000"] {
            let read: Result<LaunchPriceRange, _> = text.parse();
            assert_eq!(read.map(|it| it.to_string()).as_deref(), Ok(text));
        }
        for text in ["1001", "-1", "20%", "0.5", "all"] {
            let refused: Result<LaunchPriceRange, _> = text.parse();
            let message = refused.expect_err(text).to_string();
            assert!(message.contains("from 0 to 1000, such as 20"), "{message}");
        }
    }

    #[test]
    fn the_highest_price_is_exact() {
        let highest = |percent, lowest| LaunchPriceRange::new(percent).and_then(|range| range.highest(lowest));
        assert_eq!(LaunchPriceRange::default().highest(100), None);
        assert_eq!(highest(0, 199), Some(199));
        assert_eq!(highest(50, 199), Some(298));
        assert_eq!(highest(1_000, 1), Some(11));
        assert_eq!(highest(1_000, i64::MAX), Some(i64::MAX));
        assert_eq!(highest(1_001, 1), None);
    }
}
