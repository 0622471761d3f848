//! What a node overlay does to a price, in exact arithmetic (SCH-358, SCH-359).

use kerf_model::price::Price;

/// Decimal places of a written number that count; later ones are far below the unit of prices.
const PLACES: u32 = 12;
const ONE: i128 = 10_i128.pow(PLACES);
/// A bound no real number reaches, so that sums of two numbers cannot overflow.
const NUMBER_MAX: i128 = 10_i128.pow(24);

/// A change of a price. Numbers are in 10⁻¹² of the currency unit, or of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PriceChange {
    /// The price is this.
    Set(Price),
    /// The price rises by this much (falls, where negative).
    Add(i128),
    /// The price is multiplied by this, which is never negative.
    Scale(i128),
}

/// Why a price or an adjustment cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PriceChangeError {
    /// The price is no plain number.
    #[error("price {0:?} is not a plain decimal number; write one such as 0.25")]
    Price(String),
    /// The adjustment is no signed number or percentage.
    #[error(
        "price adjustment {0:?} is not a signed number or percentage; write one such as +0.05, -0.05, +10% or -10%"
    )]
    Adjustment(String),
}

impl PriceChange {
    /// Reads `spec.price`.
    pub fn price(text: &str) -> Result<Self, PriceChangeError> {
        let plain = text.bytes().next().is_some_and(|b| b.is_ascii_digit()) && !text.ends_with('.');
        let number = plain.then(|| decimal(text)).flatten();
        let number = number.ok_or_else(|| PriceChangeError::Price(text.to_owned()))?;
        Ok(Self::Set(clamp(number)))
    }

    /// Reads `spec.priceAdjustment`; an empty one changes nothing.
    pub fn adjustment(text: &str) -> Result<Option<Self>, PriceChangeError> {
        if text.is_empty() {
            return Ok(None);
        }
        let fault = || PriceChangeError::Adjustment(text.to_owned());
        let (sign, rest) = match text.split_at_checked(1) {
            Some(("+", rest)) => (1, rest),
            Some(("-", rest)) => (-1, rest),
            _ => return Err(fault()),
        };
        let Some(percent) = rest.strip_suffix('%') else {
            return Ok(Some(Self::Add(sign * decimal(rest).ok_or_else(fault)?)));
        };
        let factor = ONE + sign * decimal(percent).ok_or_else(fault)? / 100;
        if factor < 0 {
            return Err(fault());
        }
        Ok(Some(Self::Scale(factor)))
    }

    /// The price after the change, never below zero (SCH-359); halves of the last digit round up.
    pub fn apply(self, price: Price) -> Price {
        let pico = i128::from(price.pico());
        match self {
            Self::Set(set) => set,
            Self::Add(amount) => clamp(pico + amount),
            Self::Scale(factor) => clamp(
                pico.checked_mul(factor)
                    .map_or(NUMBER_MAX, |wide| (wide + ONE / 2) / ONE),
            ),
        }
    }
}

fn clamp(number: i128) -> Price {
    // One below the maximum, which stands for "cannot be had".
    let most = Price::MAX.pico() - 1;
    Price::from_pico(i64::try_from(number.max(0)).unwrap_or(most).min(most))
}

/// `12`, `12.5`, `.5` in 10⁻¹²; anything else is none. Places beyond the twelfth are dropped.
fn decimal(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let kept: String = whole
        .chars()
        .chain(fraction.chars().chain(std::iter::repeat('0')).take(PLACES as usize))
        .collect();
    Some(kept.parse().unwrap_or(NUMBER_MAX).min(NUMBER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(text: &str) -> Price {
        clamp(decimal(text).expect("a number"))
    }

    // SCH-358, SCH-359
    #[test]
    fn prices_change_exactly_and_never_go_below_zero() {
        let table = [
            ("+0.5", "0.1", "0.6"),
            ("-2", "0.1", "0"),
            ("-0.05", "0.1", "0.05"),
            ("+.5", "1", "1.5"),
            ("+10%", "0.1", "0.11"),
            ("+12.5%", "0.08", "0.09"),
            ("-50%", "0.0356352311", "0.01781761555"),
            ("-100%", "12.3", "0"),
            ("+900%", "0.027147483648", "0.27147483648"),
        ];
        for (text, before, after) in table {
            let change = PriceChange::adjustment(text)
                .expect("a valid adjustment")
                .expect("a change");
            assert_eq!(change.apply(dollars(before)), dollars(after), "{text} of {before}");
        }
        assert_eq!(PriceChange::adjustment(""), Ok(None));
        assert_eq!(
            PriceChange::price("0.01").map(|change| change.apply(dollars("5"))),
            Ok(dollars("0.01"))
        );
    }

    // SCH-357, SCH-358
    #[test]
    fn what_the_patterns_refuse_is_an_error() {
        for text in [
            "5", "+", "-", "10%", "+%", "-100.5%", "-150%", "+1e3", "+ 1", "+1.2.3", "−5",
        ] {
            assert!(PriceChange::adjustment(text).is_err(), "{text}");
        }
        for text in ["", "-1", ".5", "1.", "1,5", "1e3", "free"] {
            assert!(PriceChange::price(text).is_err(), "{text}");
        }
    }

    #[test]
    fn absurd_numbers_stay_in_range() {
        let huge = format!("+{}", "9".repeat(60));
        let add = PriceChange::adjustment(&huge).expect("valid").expect("a change");
        let scale = PriceChange::adjustment(&format!("{huge}%"))
            .expect("valid")
            .expect("a change");
        for change in [add, scale] {
            let price = change.apply(dollars("1"));
            assert!(price < Price::MAX && price > dollars("1"));
        }
    }
}
