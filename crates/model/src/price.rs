//! Prices, exact: integers of 10⁻¹² currency units per hour.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

/// A price per hour in 10⁻¹² of the currency unit (dollars, as a rule). Sums saturate at about nine million per hour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Price(i64);

const SCALE: f64 = 1e12;

impl Price {
    /// Nothing per hour.
    pub const ZERO: Self = Self(0);
    /// Dearer than anything real: how a type without a usable offering sorts (SCH-132).
    pub const MAX: Self = Self(i64::MAX);

    /// From currency units per hour; `None` where that is no finite, non-negative number below nine million.
    pub fn from_per_hour(value: f64) -> Option<Self> {
        (value.is_finite() && (0.0..9.0e6).contains(&value)).then(|| Self((value * SCALE).round() as i64))
    }

    /// In currency units per hour, for people and reports.
    pub fn per_hour(self) -> f64 {
        self.0 as f64 / SCALE
    }

    /// The raw integer, in 10⁻¹² currency units per hour.
    pub const fn pico(self) -> i64 {
        self.0
    }

    /// From the raw integer, in 10⁻¹² currency units per hour.
    pub const fn from_pico(pico: i64) -> Self {
        Self(pico)
    }
}

impl Add for Price {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Price {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Price {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4}", self.per_hour())
    }
}

impl fmt::Debug for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${self}/h")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_order() {
        let prices: Vec<_> = [0.1, 0.2, 0.0271, 8.599_023]
            .iter()
            .filter_map(|p| Price::from_per_hour(*p))
            .collect();
        let forward: Price = prices.iter().copied().sum();
        let backward: Price = prices.iter().rev().copied().sum();
        assert_eq!(forward, backward);
        assert_eq!(
            Price::from_per_hour(0.085).map(|p| p.to_string()),
            Some("0.0850".to_owned())
        );
    }

    #[test]
    fn nonsense_is_no_price() {
        for value in [f64::NAN, f64::INFINITY, -0.5, 1e300] {
            assert_eq!(Price::from_per_hour(value), None);
        }
    }
}
