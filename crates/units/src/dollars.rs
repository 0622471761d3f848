//! Amounts of dollars per hour that options and annotations set.

use std::fmt;

/// An amount in 10⁻¹² dollars. Returns `None` where it is negative, not finite or above `most`, both in dollars.
pub(crate) fn pico(dollars: f64, most: f64) -> Option<i64> {
    (0.0..=most).contains(&dollars).then(|| (dollars * 1e12).round() as i64)
}

/// A text that is no such amount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidAmount {
    text: String,
    wanted: String,
}

impl InvalidAmount {
    /// The amount would be from 0 to `most` dollars per hour, such as `example`.
    pub(crate) fn new(text: &str, most: f64, example: &str) -> Self {
        Self {
            text: text.to_owned(),
            wanted: format!("an amount of dollars per hour from 0 to {most}, such as {example}"),
        }
    }
}

impl fmt::Display for InvalidAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.text, self.wanted)
    }
}

impl std::error::Error for InvalidAmount {}
