//! Durations as Go writes them (`720h`, `1h30m`, `1.5s`), and the API's `Never`.
//!
//! A [`GoDuration`] is a signed count of nanoseconds. Fields of API objects use [`WrittenDuration`] or
//! [`NillableDuration`], which also keep the text they were read from: clients must get `60m` back, not `1h0m0s` (API-052).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use jiff::SignedDuration;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// The magnitude of the smallest 64-bit number, which has no positive counterpart.
const MAGNITUDE_MAX: u64 = 1 << 63;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not follow the grammar.
    #[error("invalid duration {text:?}; write numbers with units, such as 1h30m")]
    Syntax {
        /// The text as given.
        text: String,
    },
    /// A number has no unit.
    #[error("missing unit in duration {text:?}; append one of ns us ms s m h")]
    MissingUnit {
        /// The text as given.
        text: String,
    },
    /// A number has a unit that does not exist.
    #[error("unknown unit {unit:?} in duration {text:?}; use one of ns us ms s m h")]
    UnknownUnit {
        /// The text as given.
        text: String,
        /// The text in place of a unit.
        unit: String,
    },
    /// More than 64 bits of nanoseconds.
    #[error("duration {text:?} is out of range; the longest is about 292 years")]
    OutOfRange {
        /// The text as given.
        text: String,
    },
}

/// A signed span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// From nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// From seconds, clamped to the range.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND as i64))
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// In seconds, with fraction; for display and metrics.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a display value, off by less than a microsecond within a century"
    )]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / SECOND as f64
    }

    /// Whether the span is negative.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// As a span of the standard library; negative spans become zero.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// From a span of the standard library, clamped to the range.
    pub fn from_std(span: std::time::Duration) -> Self {
        Self(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
    }

    /// As a span that timestamps can be moved by.
    pub const fn to_signed(self) -> SignedDuration {
        SignedDuration::from_nanos(self.0)
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let syntax = || DurationError::Syntax { text: text.to_owned() };
        let range = || DurationError::OutOfRange { text: text.to_owned() };
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(syntax());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (whole, after) = split_while(rest, |b| b.is_ascii_digit());
            let (fraction, after) = match after.strip_prefix('.') {
                Some(after) => split_while(after, |b| b.is_ascii_digit()),
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(syntax());
            }
            let (unit, after) = split_while(after, |b| b != b'.' && !b.is_ascii_digit());
            let nanos = unit_nanos(unit).ok_or_else(|| match unit {
                "" => DurationError::MissingUnit { text: text.to_owned() },
                _ => DurationError::UnknownUnit {
                    text: text.to_owned(),
                    unit: unit.to_owned(),
                },
            })?;
            let count = if whole.is_empty() {
                0
            } else {
                whole.parse::<u64>().map_err(|_| range())?
            };
            let part = count
                .checked_mul(nanos)
                .and_then(|part| part.checked_add(fraction_nanos(fraction, nanos)));
            total = part
                .and_then(|part| total.checked_add(part))
                .filter(|t| *t <= MAGNITUDE_MAX)
                .ok_or_else(range)?;
            rest = after;
        }
        match i64::try_from(total) {
            Ok(nanos) => Ok(Self(if negative { -nanos } else { nanos })),
            Err(_) if negative => Ok(Self(i64::MIN)),
            Err(_) => Err(range()),
        }
    }
}

fn split_while(text: &str, take: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|b| !take(b)).unwrap_or(text.len()))
}

fn unit_nanos(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        // Both micro signs of Unicode are in use.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(SECOND),
        "m" => Some(MINUTE),
        "h" => Some(HOUR),
        _ => None,
    }
}

/// The fraction of a unit. Floating point on purpose: the last nanosecond must round as it does for every Go client.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value lies between zero and one hour, and its rounding is the one to reproduce"
)]
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for byte in digits.bytes() {
        let next = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(byte - b'0')));
        let Some(next) = next.filter(|v| *v <= MAGNITUDE_MAX) else {
            break;
        };
        value = next;
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write_fraction(f, nanos, 1_000, "\u{b5}s"),
            1_000_000..SECOND => write_fraction(f, nanos, 1_000_000, "ms"),
            _ => {
                let (hours, minutes) = (nanos / HOUR, nanos % HOUR / MINUTE);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if nanos >= MINUTE {
                    write!(f, "{minutes}m")?;
                }
                write_fraction(f, nanos % MINUTE, SECOND, "s")
            }
        }
    }
}

fn write_fraction(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    let rest = nanos % unit;
    if rest != 0 {
        let width = unit.ilog10() as usize;
        let digits = format!("{rest:0width$}");
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    f.write_str(name)
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text("a duration such as \"1h30m\""))
    }
}

/// Reads a string and parses it.
struct Text(&'static str);

impl Text {
    fn parse<T: FromStr<Err = DurationError>, E: de::Error>(text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! text_visitor {
    ($visitor:ident => $value:ty) => {
        impl Visitor<'_> for $visitor {
            type Value = $value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.0)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<$value, E> {
                Text::parse(text)
            }
        }
    };
}

text_visitor!(Text => GoDuration);

/// A duration together with the text it was read from. Equality and hash follow the value alone.
#[derive(Clone, Debug, Default)]
pub struct WrittenDuration {
    value: GoDuration,
    /// Set only where the canonical form differs.
    text: Option<Box<str>>,
}

impl WrittenDuration {
    /// The span.
    pub const fn value(&self) -> GoDuration {
        self.value
    }
}

impl From<GoDuration> for WrittenDuration {
    fn from(value: GoDuration) -> Self {
        Self { value, text: None }
    }
}

impl PartialEq for WrittenDuration {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for WrittenDuration {}

impl Hash for WrittenDuration {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl FromStr for WrittenDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let value: GoDuration = text.parse()?;
        let canonical = value.to_string() == text;
        Ok(Self {
            value,
            text: (!canonical).then(|| text.into()),
        })
    }
}

impl fmt::Display for WrittenDuration {
    /// The text as written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => self.value.fmt(f),
        }
    }
}

impl Serialize for WrittenDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WrittenDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(WrittenText("a duration such as \"1h30m\""))
    }
}

struct WrittenText(&'static str);
text_visitor!(WrittenText => WrittenDuration);

/// A duration that may be switched off with the word `Never`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NillableDuration {
    /// Not at any time; not the same as zero (API-228).
    Never,
    /// After this span.
    Duration(WrittenDuration),
}

impl NillableDuration {
    /// The span, `None` for `Never`.
    pub const fn value(&self) -> Option<GoDuration> {
        match self {
            Self::Never => None,
            Self::Duration(written) => Some(written.value()),
        }
    }

    /// Whether it is switched off.
    pub const fn is_never(&self) -> bool {
        matches!(self, Self::Never)
    }
}

impl From<GoDuration> for NillableDuration {
    fn from(value: GoDuration) -> Self {
        Self::Duration(value.into())
    }
}

impl FromStr for NillableDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "Never" {
            Ok(Self::Never)
        } else {
            text.parse().map(Self::Duration)
        }
    }
}

impl fmt::Display for NillableDuration {
    /// The text as written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("Never"),
            Self::Duration(written) => written.fmt(f),
        }
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NillableText("a duration such as \"1h30m\", or \"Never\""))
    }
}

struct NillableText(&'static str);
text_visitor!(NillableText => NillableDuration);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nanos(text: &str) -> i64 {
        text.parse::<GoDuration>().unwrap().as_nanos()
    }

    #[test]
    fn go_grammar() {
        let second = 1_000_000_000;
        for (text, want) in [
            ("0", 0),
            ("-0", 0),
            ("0s", 0),
            ("5s", 5 * second),
            ("+5s", 5 * second),
            ("-5s", -5 * second),
            ("1478s", 1478 * second),
            (".5s", second / 2),
            ("5.s", 5 * second),
            ("1.004s", 1_004_000_000),
            ("10ns", 10),
            ("11us", 11_000),
            ("12\u{b5}s", 12_000),
            ("12\u{3bc}s", 12_000),
            ("13ms", 13_000_000),
            ("3h30m", 12_600 * second),
            ("1m1h", 3_660 * second),
            ("9007199254.740993s", 9_007_199_254_740_993_000),
            ("0.3333333333333333333h", 1_200 * second),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(nanos(text), want, "{text}");
        }
        for text in [
            "",
            "3",
            "-",
            "s",
            ".",
            "-.",
            ".s",
            "+.s",
            "1d",
            "1h ",
            " 1h",
            "1hm",
            "Never",
            "9223372036854775808ns",
            "3000000h",
        ] {
            assert!(text.parse::<GoDuration>().is_err(), "{text:?}");
        }
        assert_eq!(
            "30".parse::<GoDuration>().unwrap_err().to_string(),
            "missing unit in duration \"30\"; append one of ns us ms s m h"
        );
    }

    #[test]
    fn canonical_form_is_the_one_of_go() {
        for (text, canonical) in [
            ("720h", "720h0m0s"),
            ("60m", "1h0m0s"),
            ("90s", "1m30s"),
            ("1500ms", "1.5s"),
            ("0h", "0s"),
            ("1100us", "1.1ms"),
            ("1001ns", "1.001\u{b5}s"),
            ("-90m", "-1h30m0s"),
            ("1h0.000000001s", "1h0m0.000000001s"),
        ] {
            assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), canonical);
        }
        assert_eq!(
            GoDuration::from_nanos(i64::MIN).to_string(),
            "-2562047h47m16.854775808s"
        );
    }

    #[test]
    fn fields_come_back_as_written_and_compare_by_value() {
        // API-052, API-198
        for json in ["\"60m\"", "\"720h\"", "\"1h0m0s\"", "\"0s\""] {
            let written: NillableDuration = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&written).unwrap(), json);
        }
        assert_eq!("60m".parse::<NillableDuration>(), "1h".parse());
    }

    #[test]
    fn never_is_no_duration_and_zero_is_one() {
        // API-228
        let never: NillableDuration = serde_json::from_str("\"Never\"").unwrap();
        assert_eq!(
            (never.value(), serde_json::to_string(&never).unwrap().as_str()),
            (None, "\"Never\"")
        );
        assert_eq!(
            "0s".parse::<NillableDuration>().unwrap().value(),
            Some(GoDuration::ZERO)
        );
        assert!(serde_json::from_str::<WrittenDuration>("\"Never\"").is_err());
        let error = serde_json::from_str::<NillableDuration>("5").unwrap_err().to_string();
        assert!(error.contains("expected a duration such as"), "{error}");
    }

    proptest! {
        #[test]
        fn canonical_form_reads_back(nanos in any::<i64>()) {
            let duration = GoDuration::from_nanos(nanos);
            let again: GoDuration = duration.to_string().parse().unwrap();
            // Fractions go through floating point, as in Go, which holds them exactly below 2^53 of the smallest unit.
            prop_assert_eq!(again, duration);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
