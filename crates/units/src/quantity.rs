//! Kubernetes quantities: exact decimal numbers with a unit suffix, such as `250m`, `1.5Gi` or `1e3`.
//!
//! The input is text or a JSON number, the output is exact comparisons, sums and whole numbers in a fixed unit. A quantity remembers
//! how it was written, so that an object read and written again is the same object (API-052, LIF-080).
//!
//! The value is kept as a count of 10⁻⁹ units in an `i128`. Kubernetes itself rounds anything finer up to that step, so
//! nothing is lost, and sums and comparisons are plain integer operations. The range is ±10²⁹ units; text beyond it
//! reads as the bound, because such a number can only mean "no limit".

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Count of stored steps in one unit.
const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// Exponent of ten of one stored step.
const STEP_EXPONENT: i64 = -9;
/// The bound of the range: a power of ten, so that its own text reads back as the same value.
const NANOS_MAX: i128 = 10_i128.pow(38);
/// The largest value Kubernetes lets a binary suffix express: 2⁶³ − 1 units.
const BINARY_NANOS_MAX: i128 = (i64::MAX as i128) * NANOS_PER_UNIT;
/// Digits that fit an `i128` whatever they are.
const DIGITS_MAX_DECIMAL: usize = 38;
/// Digits that fit an `i128` after multiplication by 2⁶⁰; later ones round up.
const DIGITS_MAX_BINARY: usize = 20;

/// The suffix family a quantity is printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// `n u m k M G T P E` and plain numbers.
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`.
    BinarySi,
    /// `e3`, `E-3`.
    DecimalExponent,
}

/// A unit to convert a quantity into, as a power of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scale {
    /// 10⁻⁹.
    Nano,
    /// 10⁻⁶.
    Micro,
    /// 10⁻³, the unit CPU is counted in.
    Milli,
    /// 1, the unit of bytes and counts.
    Unit,
    /// 10³.
    Kilo,
}

impl Scale {
    const fn nanos(self) -> i128 {
        match self {
            Self::Nano => 1,
            Self::Micro => 1_000,
            Self::Milli => 1_000_000,
            Self::Unit => NANOS_PER_UNIT,
            Self::Kilo => 1_000 * NANOS_PER_UNIT,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Nano => "nano-units",
            Self::Micro => "micro-units",
            Self::Milli => "milli-units",
            Self::Unit => "units",
            Self::Kilo => "kilo-units",
        }
    }
}

/// Why a text is no quantity, or a quantity not a number of the asked kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is empty.
    #[error("quantity is empty; write a number with an optional suffix, such as 500m or 2Gi")]
    Empty,
    /// The text does not begin with a number.
    #[error("quantity {text:?} does not begin with a number; write one such as 500m or 2Gi")]
    Number {
        /// The text as given.
        text: String,
    },
    /// What follows the number is no suffix.
    #[error(
        "quantity {text:?} has the unknown suffix {suffix:?}; use one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent such as e3"
    )]
    Suffix {
        /// The text as given.
        text: String,
        /// Everything after the number.
        suffix: String,
    },
    /// A JSON number that is not finite.
    #[error("quantity is not a finite number; write one such as 0.5")]
    NotFinite,
    /// The value does not fit 64 bits in the asked unit.
    #[error("quantity {quantity} does not fit a 64-bit count of {unit}; use a smaller value")]
    Overflow {
        /// The value in canonical form.
        quantity: String,
        /// The unit asked for.
        unit: &'static str,
    },
}

/// How the quantity was written in its object.
#[derive(Clone, Debug, Default)]
enum Written {
    /// Computed, or written canonically: the canonical form is what goes out.
    #[default]
    Canonical,
    Text(Box<str>),
    Integer(i64),
}

/// An exact decimal number of units. Equality, order and hash follow the value alone.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    written: Written,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self {
        nanos: 0,
        format: Format::DecimalSi,
        written: Written::Canonical,
    };

    const fn computed(nanos: i128, format: Format) -> Self {
        Self {
            nanos,
            format,
            written: Written::Canonical,
        }
    }

    /// Whole units, printed with decimal suffixes.
    pub const fn from_units(units: i64) -> Self {
        Self::computed(units as i128 * NANOS_PER_UNIT, Format::DecimalSi)
    }

    /// Thousandths of a unit, printed with decimal suffixes.
    pub const fn from_millis(millis: i64) -> Self {
        Self::computed(millis as i128 * 1_000_000, Format::DecimalSi)
    }

    /// Bytes, printed with binary suffixes.
    pub const fn from_bytes(bytes: i64) -> Self {
        Self::computed(bytes as i128 * NANOS_PER_UNIT, Format::BinarySi)
    }

    /// The suffix family it prints in.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Whether the value is nothing.
    pub const fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether the value is below nothing.
    pub const fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// The sum in the suffix family of the left side, or of the right side when the left one is zero; `None` beyond the range.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let sum = self.saturating_add(other);
        (sum.nanos == self.nanos.checked_add(other.nanos)?).then_some(sum)
    }

    /// The difference; `None` beyond the range.
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        let difference = self.saturating_sub(other);
        (difference.nanos == self.nanos.checked_sub(other.nanos)?).then_some(difference)
    }

    /// The sum, at most the bound of the range.
    pub fn saturating_add(&self, other: &Self) -> Self {
        Self::computed(bounded(self.nanos.saturating_add(other.nanos)), self.format_with(other))
    }

    /// The difference, at most the bound of the range.
    pub fn saturating_sub(&self, other: &Self) -> Self {
        Self::computed(bounded(self.nanos.saturating_sub(other.nanos)), self.format_with(other))
    }

    fn format_with(&self, other: &Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }

    /// The least whole number of `scale` that is not below the value, clamped to 64 bits.
    pub fn ceil_to(&self, scale: Scale) -> i64 {
        clamp(self.ceil_wide(scale))
    }

    /// The greatest whole number of `scale` that is not above the value, clamped to 64 bits.
    pub fn floor_to(&self, scale: Scale) -> i64 {
        clamp(self.nanos.div_euclid(scale.nanos()))
    }

    /// As [`Quantity::ceil_to`], with an error where that one clamps.
    pub fn try_ceil_to(&self, scale: Scale) -> Result<i64, QuantityError> {
        self.narrow(self.ceil_wide(scale), scale)
    }

    /// As [`Quantity::floor_to`], with an error where that one clamps.
    pub fn try_floor_to(&self, scale: Scale) -> Result<i64, QuantityError> {
        self.narrow(self.nanos.div_euclid(scale.nanos()), scale)
    }

    fn ceil_wide(&self, scale: Scale) -> i128 {
        let step = scale.nanos();
        self.nanos.div_euclid(step) + i128::from(self.nanos.rem_euclid(step) != 0)
    }

    fn narrow(&self, wide: i128, scale: Scale) -> Result<i64, QuantityError> {
        i64::try_from(wide).map_err(|_| QuantityError::Overflow {
            quantity: self.to_string(),
            unit: scale.name(),
        })
    }

    /// Thousandths of a unit, rounded up: what a request needs.
    pub fn milli_ceil(&self) -> i64 {
        self.ceil_to(Scale::Milli)
    }

    /// Thousandths of a unit, rounded down: what a node can give.
    pub fn milli_floor(&self) -> i64 {
        self.floor_to(Scale::Milli)
    }

    /// Whole units, rounded up: what a request needs.
    pub fn units_ceil(&self) -> i64 {
        self.ceil_to(Scale::Unit)
    }

    /// Whole units, rounded down: what a node can give.
    pub fn units_floor(&self) -> i64 {
        self.floor_to(Scale::Unit)
    }

    /// The nearest floating-point number of units; for metrics and reports, never for decisions (SCH-123).
    #[expect(
        clippy::cast_precision_loss,
        reason = "a display value; callers are told not to decide with it"
    )]
    pub fn to_f64(&self) -> f64 {
        let whole = self.nanos / NANOS_PER_UNIT;
        let rest = self.nanos % NANOS_PER_UNIT;
        whole as f64 + rest as f64 / NANOS_PER_UNIT as f64
    }

    /// The text the quantity was written with; the canonical form for a computed one.
    pub fn as_written(&self) -> String {
        match &self.written {
            Written::Canonical => self.to_string(),
            Written::Text(text) => text.to_string(),
            Written::Integer(number) => number.to_string(),
        }
    }
}

fn bounded(nanos: i128) -> i128 {
    nanos.clamp(-NANOS_MAX, NANOS_MAX)
}

fn clamp(wide: i128) -> i64 {
    i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

/// A number's text taken apart: `digits × 10^exponent`, and whether digits beyond the kept ones were not all zero.
struct Digits {
    value: i128,
    exponent: i64,
    more: bool,
}

impl Digits {
    fn read(whole: &[u8], fraction: &[u8], digits_max: usize) -> Self {
        let mut read = Self {
            value: 0,
            exponent: 0,
            more: false,
        };
        let mut kept = 0;
        let whole_len = whole.len();
        for (at, byte) in whole.iter().chain(fraction).enumerate() {
            let digit = i128::from(byte - b'0');
            let fractional = at >= whole_len;
            if kept < digits_max {
                read.value = read.value * 10 + digit;
                kept += usize::from(read.value != 0);
                read.exponent -= i64::from(fractional);
            } else {
                read.more |= digit != 0;
                read.exponent += i64::from(!fractional);
            }
        }
        read
    }

    /// The magnitude in stored steps, rounded away from zero; `None` beyond the range.
    fn to_nanos(&self, exponent: i64, factor: i128) -> Option<i128> {
        let value = self.value.checked_mul(factor)?;
        if value == 0 {
            return Some(0);
        }
        let shift = self.exponent.saturating_add(exponent).saturating_sub(STEP_EXPONENT);
        let power = power_of_ten(shift.unsigned_abs());
        if shift >= 0 {
            let steps = value.checked_mul(power?)?;
            return steps.checked_add(i128::from(self.more));
        }
        let Some(power) = power else { return Some(1) };
        Some(value / power + i128::from(self.more || value % power != 0))
    }
}

fn power_of_ten(exponent: u64) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(exponent).ok()?)
}

/// What a suffix stands for.
enum Suffix {
    Ten(i64, Format),
    Two(u32),
}

fn suffix(text: &str) -> Option<Suffix> {
    let si = |exponent| Some(Suffix::Ten(exponent, Format::DecimalSi));
    match text {
        "" => si(0),
        "n" => si(-9),
        "u" => si(-6),
        "m" => si(-3),
        "k" => si(3),
        "M" => si(6),
        "G" => si(9),
        "T" => si(12),
        "P" => si(15),
        "E" => si(18),
        "Ki" => Some(Suffix::Two(10)),
        "Mi" => Some(Suffix::Two(20)),
        "Gi" => Some(Suffix::Two(30)),
        "Ti" => Some(Suffix::Two(40)),
        "Pi" => Some(Suffix::Two(50)),
        "Ei" => Some(Suffix::Two(60)),
        _ => {
            let exponent = text.strip_prefix(['e', 'E'])?;
            let (sign, digits) = match exponent.as_bytes() {
                [b'-', ..] => (-1, exponent.get(1..)?),
                [b'+', ..] => (1, exponent.get(1..)?),
                _ => (1, exponent),
            };
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            // An exponent too long for 64 bits only says "out of range", which the conversion finds by itself.
            let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
            Some(Suffix::Ten(sign * magnitude, Format::DecimalExponent))
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = split_digits(unsigned);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(after_point) => split_digits(after_point),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Number { text: text.to_owned() });
        }
        let Some(suffix) = suffix(rest) else {
            return Err(QuantityError::Suffix {
                text: text.to_owned(),
                suffix: rest.to_owned(),
            });
        };
        let (whole, fraction) = (whole.as_bytes(), fraction.as_bytes());
        let (magnitude, format) = match suffix {
            Suffix::Ten(exponent, format) => {
                let digits = Digits::read(whole, fraction, DIGITS_MAX_DECIMAL);
                (digits.to_nanos(exponent, 1).unwrap_or(i128::MAX), format)
            }
            Suffix::Two(bits) => {
                let digits = Digits::read(whole, fraction, DIGITS_MAX_BINARY);
                let nanos = digits.to_nanos(0, 1 << bits).unwrap_or(i128::MAX).min(BINARY_NANOS_MAX);
                // Kubernetes prints fractions of a single unit with decimal suffixes, whatever they were written with.
                let tiny = nanos > 0 && nanos < NANOS_PER_UNIT;
                (nanos, if tiny { Format::DecimalSi } else { Format::BinarySi })
            }
        };
        let nanos = bounded(if text.starts_with('-') { -magnitude } else { magnitude });
        let mut quantity = Self::computed(nanos, format);
        if quantity.to_string() != text {
            quantity.written = Written::Text(text.into());
        }
        Ok(quantity)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, the largest suffix of its family that needs none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let units = self.nanos / NANOS_PER_UNIT;
        let whole = self.nanos % NANOS_PER_UNIT == 0;
        match self.format {
            Format::BinarySi if whole && units.unsigned_abs() >= 1024 => write_binary(f, units),
            Format::BinarySi | Format::DecimalSi => write_decimal(f, self.nanos, Format::DecimalSi),
            Format::DecimalExponent => write_decimal(f, self.nanos, Format::DecimalExponent),
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut units: i128) -> fmt::Result {
    const SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut suffix = "";
    for next in SUFFIXES {
        if units % 1024 != 0 {
            break;
        }
        units /= 1024;
        suffix = next;
    }
    write!(f, "{units}{suffix}")
}

fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: i128, format: Format) -> fmt::Result {
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let (mut mantissa, mut exponent) = (nanos, STEP_EXPONENT);
    let mut suffix = "n";
    let mut larger = SUFFIXES.iter().skip(1);
    while mantissa % 1_000 == 0 {
        match (larger.next(), format) {
            (Some(next), _) => suffix = next,
            (None, Format::DecimalExponent) => {}
            (None, Format::DecimalSi | Format::BinarySi) => break,
        }
        mantissa /= 1_000;
        exponent += 3;
    }
    match format {
        Format::DecimalExponent if exponent == 0 => write!(f, "{mantissa}"),
        Format::DecimalExponent => write!(f, "{mantissa}e{exponent}"),
        Format::DecimalSi | Format::BinarySi => write!(f, "{mantissa}{suffix}"),
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.written {
            Written::Canonical => serializer.collect_str(self),
            Written::Text(text) => serializer.serialize_str(text),
            Written::Integer(number) => serializer.serialize_i64(*number),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as 2, \"500m\" or \"2Gi\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity {
            written: Written::Integer(number),
            ..Quantity::from_units(number)
        })
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => self.visit_str(&number.to_string()),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        if number.is_finite() {
            self.visit_str(&number.to_string())
        } else {
            Err(E::custom(QuantityError::NotFinite))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn q(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn canonical_form_keeps_the_suffix_family() {
        // KWK-023, SCH-123
        for (written, canonical) in [
            ("0", "0"),
            ("0Ki", "0"),
            ("-0", "0"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("0.5Gi", "512Mi"),
            ("2048Gi", "2Ti"),
            ("1023Ki", "1023Ki"),
            ("1024Ki", "1Mi"),
            ("1000Ki", "1000Ki"),
            ("1000000", "1M"),
            ("50000", "50k"),
            ("12000", "12k"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("100e-3", "100e-3"),
            ("1e0", "1"),
            ("12e4", "120e3"),
            ("+7", "7"),
            (".5", "500m"),
            ("5.", "5"),
            ("-1.5", "-1500m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("1.0000000001", "1000000001n"),
            ("0.0001Ki", "102400u"),
            ("0.5Ki", "512"),
            ("1.00000000000000000000000000000Ki", "1Ki"),
            ("1000E", "1000E"),
            ("9Ei", "9223372036854775807"),
            ("007", "7"),
        ] {
            assert_eq!(q(written).to_string(), canonical, "{written}");
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_refused() {
        for text in [
            "", " ", " 1", "1 ", "m", ".", "-", "+", "--1", "1.2.3", "1i", "1K", "1KI", "1ee3", "1e", "1e1.5", "0x10",
            "1,5", "５",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
        assert_eq!(
            "4GiB".parse::<Quantity>().unwrap_err().to_string(),
            "quantity \"4GiB\" has the unknown suffix \"GiB\"; use one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent such as e3"
        );
    }

    #[test]
    fn absurd_magnitudes_stay_at_the_bounds() {
        assert_eq!(q("1e99999999999999999999").units_ceil(), i64::MAX);
        assert_eq!(q("-1e400").units_floor(), i64::MIN);
        assert_eq!(q("1e-99999999999999999999").to_string(), "1e-9");
        assert_eq!(q(&"9".repeat(500)).milli_ceil(), i64::MAX);
        assert_eq!(q(&format!("0.{}1", "0".repeat(500))).to_string(), "1n");
        assert_eq!(
            q("1E")
                .saturating_add(&q("1e20"))
                .try_ceil_to(Scale::Milli)
                .unwrap_err()
                .to_string(),
            "quantity 101E does not fit a 64-bit count of milli-units; use a smaller value"
        );
    }

    #[test]
    fn conversions_round_in_the_named_direction() {
        assert_eq!((q("1500u").milli_ceil(), q("1500u").milli_floor()), (2, 1));
        assert_eq!((q("-1500u").milli_ceil(), q("-1500u").milli_floor()), (-1, -2));
        assert_eq!(
            (q("2Gi").units_ceil(), q("2Gi").units_floor()),
            (2_147_483_648, 2_147_483_648)
        );
        assert_eq!((q("100m").units_ceil(), q("100m").units_floor()), (1, 0));
        assert_eq!(q("1.5k").try_floor_to(Scale::Kilo), Ok(1));
    }

    #[test]
    fn sums_take_the_first_family_that_is_not_zero() {
        assert_eq!(q("1Gi").saturating_add(&q("1Gi")).to_string(), "2Gi");
        assert_eq!(Quantity::ZERO.saturating_add(&q("1Gi")).to_string(), "1Gi");
        assert_eq!(q("1").checked_sub(&q("250m")).unwrap().to_string(), "750m");
        assert_eq!(q("1e29").checked_add(&q("1n")), None);
    }

    #[test]
    fn json_comes_back_as_it_was() {
        // API-052, LIF-080
        for json in [
            "\"1000m\"",
            "\"0.5Gi\"",
            "1000",
            "-3",
            "\"50000\"",
            "\"1e3\"",
            "\"18446744073709551615\"",
        ] {
            let quantity: Quantity = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&quantity).unwrap(), json);
        }
        assert_eq!(serde_json::from_str::<Quantity>("0.5").unwrap(), q("500m"));
        assert_eq!(
            serde_json::from_str::<Quantity>("18446744073709551615").unwrap(),
            q("18446744073709551615")
        );
        let error = serde_json::from_str::<Quantity>("[]").unwrap_err().to_string();
        assert!(error.contains("expected a quantity such as 2"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            let _ = text.parse::<Quantity>();
        }

        #[test]
        fn quantity_like_text_survives_canonical_form(text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[+-]?[0-9]{1,2})?") {
            let first = q(&text);
            let second = q(&first.to_string());
            prop_assert_eq!(&first, &second);
            prop_assert_eq!(first.to_string(), second.to_string());
            prop_assert_eq!(first.as_written(), text);
        }

        #[test]
        fn order_and_sum_follow_the_value(a in any::<i32>(), b in any::<i32>()) {
            let (x, y) = (Quantity::from_millis(a.into()), q(&format!("{b}m")));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(x.saturating_add(&y).milli_ceil(), i64::from(a) + i64::from(b));
        }

        #[test]
        fn ceil_and_floor_enclose(nano in any::<i64>()) {
            let quantity = q(&format!("{nano}n"));
            for scale in [Scale::Nano, Scale::Micro, Scale::Milli, Scale::Unit, Scale::Kilo] {
                let (floor, ceil) = (quantity.floor_to(scale), quantity.ceil_to(scale));
                prop_assert!(ceil - floor <= 1);
                prop_assert!(i128::from(floor) * scale.nanos() <= i128::from(nano));
                prop_assert!(i128::from(ceil) * scale.nanos() >= i128::from(nano));
            }
        }
    }
}
