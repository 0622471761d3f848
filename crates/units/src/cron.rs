//! Cron schedules of disruption budgets, in UTC.
//!
//! The input is the five-field text (or an `@` descriptor), the output is the next time it names. The grammar and the texts of its
//! errors are those users know from Karpenter's budgets (DEP-071, API-206): `?` is `*`, `N/step` runs to the maximum, names
//! are case-insensitive, and a day matches both day fields, or either when both are restricted.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

use crate::duration::{DurationError, GoDuration};

/// How far ahead a hit is searched; a date like 30 February does not exist.
const YEARS_AHEAD_MAX: i16 = 5;
/// Marks a field that was left open, which matters to how the two day fields combine.
const OPEN: u64 = 1 << 63;

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Nothing but blanks.
    #[error("empty spec string")]
    Empty,
    /// Not five fields.
    #[error("expected exactly 5 fields, found {found}: [{fields}]")]
    FieldCount {
        /// Number of fields.
        found: usize,
        /// The fields, blank separated.
        fields: String,
    },
    /// An `@` word that does not exist.
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
    /// `@every` with something that is no duration.
    #[error("failed to parse duration {text}: {source}")]
    Every {
        /// The whole descriptor.
        text: String,
        /// What is wrong with the duration.
        source: DurationError,
    },
    /// More than one `-` in an element.
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    /// More than one `/` in an element.
    #[error("too many slashes: {0}")]
    Slashes(String),
    /// Neither a number nor a name of the field.
    #[error("failed to parse int from {0}: not a whole number or a name of this field")]
    Number(String),
    /// A number below zero.
    #[error("negative number ({number}) not allowed: {text}")]
    Negative {
        /// The number.
        number: i64,
        /// The text it was read from.
        text: String,
    },
    /// The first value lies below the field's range.
    #[error("beginning of range ({start}) below minimum ({min}): {text}")]
    BelowMinimum {
        /// First value.
        start: u32,
        /// Least value of the field.
        min: u32,
        /// The element.
        text: String,
    },
    /// The last value lies above the field's range.
    #[error("end of range ({end}) above maximum ({max}): {text}")]
    AboveMaximum {
        /// Last value.
        end: u32,
        /// Greatest value of the field.
        max: u32,
        /// The element.
        text: String,
    },
    /// The range runs backwards.
    #[error("beginning of range ({start}) beyond end of range ({end}): {text}")]
    Backwards {
        /// First value.
        start: u32,
        /// Last value.
        end: u32,
        /// The element.
        text: String,
    },
    /// A step of zero.
    #[error("step of range should be a positive number: {0}")]
    ZeroStep(String),
}

/// When something starts, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronSchedule(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Fields(Fields),
    /// A fixed distance in whole seconds, at least one.
    Every(i64),
}

/// One bit per admitted value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    minute: u64,
    hour: u64,
    day_of_month: u64,
    month: u64,
    day_of_week: u64,
}

struct Bounds {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const MINUTE: Bounds = Bounds {
    min: 0,
    max: 59,
    names: &[],
};
const HOUR: Bounds = Bounds {
    min: 0,
    max: 23,
    names: &[],
};
const DAY_OF_MONTH: Bounds = Bounds {
    min: 1,
    max: 31,
    names: &[],
};
const MONTH: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const DAY_OF_WEEK: Bounds = Bounds {
    min: 0,
    max: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl FromStr for CronSchedule {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.is_empty() {
            return Err(CronError::Empty);
        }
        if text.starts_with('@') {
            return descriptor(text);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day_of_month, month, day_of_week] = fields.as_slice() else {
            return Err(CronError::FieldCount {
                found: fields.len(),
                fields: fields.join(" "),
            });
        };
        Ok(Self(Kind::Fields(Fields {
            minute: MINUTE.parse(minute)?,
            hour: HOUR.parse(hour)?,
            day_of_month: DAY_OF_MONTH.parse(day_of_month)?,
            month: MONTH.parse(month)?,
            day_of_week: DAY_OF_WEEK.parse(day_of_week)?,
        })))
    }
}

fn descriptor(text: &str) -> Result<CronSchedule, CronError> {
    match text {
        "@yearly" | "@annually" => "0 0 1 1 *".parse(),
        "@monthly" => "0 0 1 * *".parse(),
        "@weekly" => "0 0 * * 0".parse(),
        "@daily" | "@midnight" => "0 0 * * *".parse(),
        "@hourly" => "0 * * * *".parse(),
        _ => {
            let Some(every) = text.strip_prefix("@every ") else {
                return Err(CronError::Descriptor(text.to_owned()));
            };
            let every: GoDuration = every.parse().map_err(|source| CronError::Every {
                text: text.to_owned(),
                source,
            })?;
            Ok(CronSchedule(Kind::Every((every.as_nanos() / 1_000_000_000).max(1))))
        }
    }
}

impl Bounds {
    /// The values a field admits; empty elements between commas count for nothing.
    fn parse(&self, field: &str) -> Result<u64, CronError> {
        field
            .split(',')
            .filter(|element| !element.is_empty())
            .try_fold(0, |bits, element| Ok(bits | self.element(element)?))
    }

    fn element(&self, text: &str) -> Result<u64, CronError> {
        let mut parts = text.split('/');
        let range = parts.next().unwrap_or_default();
        let step = parts.next();
        let mut ends = range.split('-');
        let first = ends.next().unwrap_or_default();
        let last = ends.next();
        let (start, mut end, mut open) = if matches!(first, "*" | "?") {
            (self.min, self.max, OPEN)
        } else {
            let start = self.value(first)?;
            let end = last.map_or(Ok(start), |last| self.value(last))?;
            if ends.next().is_some() {
                return Err(CronError::Hyphens(text.to_owned()));
            }
            (start, end, 0)
        };
        let step = match step {
            None => 1,
            Some(step) => {
                let step = number(step)?;
                if last.is_none() {
                    end = self.max;
                }
                if step > 1 {
                    open = 0;
                }
                step
            }
        };
        let text = || text.to_owned();
        if parts.next().is_some() {
            return Err(CronError::Slashes(text()));
        }
        if start < self.min {
            return Err(CronError::BelowMinimum {
                start,
                min: self.min,
                text: text(),
            });
        }
        if end > self.max {
            return Err(CronError::AboveMaximum {
                end,
                max: self.max,
                text: text(),
            });
        }
        if start > end {
            return Err(CronError::Backwards {
                start,
                end,
                text: text(),
            });
        }
        if step == 0 {
            return Err(CronError::ZeroStep(text()));
        }
        let values = (start..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        Ok(values.fold(open, |bits, value| bits | 1 << value))
    }

    fn value(&self, text: &str) -> Result<u32, CronError> {
        let named = self
            .names
            .iter()
            .zip(self.min..)
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        named.map_or_else(|| number(text), |(_, value)| Ok(value))
    }
}

fn number(text: &str) -> Result<u32, CronError> {
    let number: i64 = text.parse().map_err(|_| CronError::Number(text.to_owned()))?;
    if number < 0 {
        return Err(CronError::Negative {
            number,
            text: text.to_owned(),
        });
    }
    u32::try_from(number).map_err(|_| CronError::Number(text.to_owned()))
}

impl CronSchedule {
    /// The first hit strictly after `after`, or `None` when the next five years have none.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.0 {
            Kind::Every(seconds) => Timestamp::from_second(floor_second(after).checked_add(*seconds)?).ok(),
            Kind::Fields(fields) => fields.next_after(after),
        }
    }

    /// Whether a window of `duration` that opens at every hit is open at `now`: some hit lies in `(now - duration, now]`
    /// (API-207). A hit exactly `duration` ago no longer counts, one exactly now does (DIS-077). `None` for a schedule without any date.
    pub fn window_active(&self, now: Timestamp, duration: GoDuration) -> Option<bool> {
        let from = now.checked_sub(duration.to_signed()).unwrap_or(Timestamp::MIN);
        self.next_after(from).map(|hit| hit <= now)
    }
}

fn floor_second(at: Timestamp) -> i64 {
    at.as_second() - i64::from(at.subsec_nanosecond() < 0)
}

impl Fields {
    fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        // The next whole minute is the earliest instant a field schedule can name.
        let start = Timestamp::from_second(
            floor_second(after)
                .checked_div_euclid(60)?
                .checked_add(1)?
                .checked_mul(60)?,
        )
        .ok()?;
        let start = Offset::UTC.to_datetime(start);
        let last_year = start.year().saturating_add(YEARS_AHEAD_MAX);
        let mut date = start.date();
        while date.year() <= last_year {
            if !admits(self.month, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
                continue;
            }
            if self.day_matches(date) {
                let from = if date == start.date() {
                    (start.hour(), start.minute())
                } else {
                    (0, 0)
                };
                if let Some((hour, minute)) = self.time_from(from) {
                    return Offset::UTC.to_timestamp(date.at(hour, minute, 0, 0)).ok();
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn day_matches(&self, date: Date) -> bool {
        let in_month = admits(self.day_of_month, date.day());
        let in_week = admits(self.day_of_week, date.weekday().to_sunday_zero_offset());
        if (self.day_of_month | self.day_of_week) & OPEN != 0 {
            in_month && in_week
        } else {
            in_month || in_week
        }
    }

    /// The first admitted hour and minute of a day that is not before `from`.
    fn time_from(&self, (hour, minute): (i8, i8)) -> Option<(i8, i8)> {
        if admits(self.hour, hour)
            && let Some(minute) = (minute..60).find(|m| admits(self.minute, *m))
        {
            return Some((hour, minute));
        }
        let hour = (hour + 1..24).find(|h| admits(self.hour, *h))?;
        let minute = (0..60).find(|m| admits(self.minute, *m))?;
        Some((hour, minute))
    }
}

/// Whether a field has the bit of a calendar value, which is never negative.
fn admits(bits: u64, value: i8) -> bool {
    u32::try_from(value)
        .ok()
        .and_then(|value| bits.checked_shr(value))
        .is_some_and(|bits| bits & 1 == 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn schedule(text: &str) -> CronSchedule {
        text.parse().unwrap()
    }

    #[test]
    fn next_hit() {
        // API-206, DIS-076
        for (text, after, next) in [
            ("0 9 * * mon-fri", "2024-06-07T09:00:00Z", "2024-06-10T09:00:00Z"),
            ("0 9 * * MON-FRI", "2024-06-07T08:59:59.5Z", "2024-06-07T09:00:00Z"),
            ("0 0 * * sat,sun", "2024-06-07T00:00:00Z", "2024-06-08T00:00:00Z"),
            ("5/15 * * * *", "2024-06-07T00:21:00Z", "2024-06-07T00:35:00Z"),
            ("*/40 * * * ?", "2024-06-07T00:40:00Z", "2024-06-07T01:00:00Z"),
            ("0 0 29 2 *", "2024-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 1 1 *", "2024-12-31T23:59:59Z", "2025-01-01T00:00:00Z"),
            ("30 2 31 * *", "2024-04-01T00:00:00Z", "2024-05-31T02:30:00Z"),
            // Both day fields restricted: either suffices; `*/2` counts as restricted, `*/1` does not.
            ("0 0 13 * fri", "2024-06-07T00:00:00Z", "2024-06-13T00:00:00Z"),
            ("0 0 */2 * mon", "2024-06-07T00:00:00Z", "2024-06-09T00:00:00Z"),
            ("0 0 */1 * mon", "2024-06-07T00:00:00Z", "2024-06-10T00:00:00Z"),
            ("@yearly", "2024-06-07T00:00:00Z", "2025-01-01T00:00:00Z"),
            ("@annually", "2024-06-07T00:00:00Z", "2025-01-01T00:00:00Z"),
            ("@monthly", "2024-06-07T00:00:00Z", "2024-07-01T00:00:00Z"),
            ("@weekly", "2024-06-07T00:00:00Z", "2024-06-09T00:00:00Z"),
            ("@daily", "2024-06-07T00:00:00Z", "2024-06-08T00:00:00Z"),
            ("@midnight", "2024-06-06T23:00:00Z", "2024-06-07T00:00:00Z"),
            ("@hourly", "2024-06-07T00:00:00Z", "2024-06-07T01:00:00Z"),
            ("@every 90m", "2024-06-07T00:00:00.7Z", "2024-06-07T01:30:00Z"),
            (" 0  0 * * , ", "2024-06-07T00:00:00Z", ""),
            ("0 0 30 2 *", "2024-06-07T00:00:00Z", ""),
            ("0 0 * * *", "1960-01-01T00:00:00.5Z", "1960-01-02T00:00:00Z"),
        ] {
            let want = (!next.is_empty()).then(|| at(next));
            assert_eq!(schedule(text).next_after(at(after)), want, "{text} after {after}");
        }
        assert_eq!(schedule("@daily").next_after(Timestamp::MAX), None);
        assert_eq!(schedule("@every 1h").next_after(Timestamp::MAX), None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        // API-208, DIS-079
        for (text, error) in [
            ("", "empty spec string"),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            (
                "TZ=UTC 0 0 * * *",
                "expected exactly 5 fields, found 6: [TZ=UTC 0 0 * * *]",
            ),
            ("@annuallyfoo", "unrecognized descriptor: @annuallyfoo"),
            ("@Daily", "unrecognized descriptor: @Daily"),
            (
                "0 0 * * tue-mon",
                "beginning of range (2) beyond end of range (1): tue-mon",
            ),
            ("60 0 * * *", "end of range (60) above maximum (59): 60"),
            ("0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("0 0 * * 7", "end of range (7) above maximum (6): 7"),
            ("0 0 1-2-3 * *", "too many hyphens: 1-2-3"),
            ("0 0 1/2/3 * *", "too many slashes: 1/2/3"),
            ("0/0 0 * * *", "step of range should be a positive number: 0/0"),
            (
                "0 0 * * L",
                "failed to parse int from L: not a whole number or a name of this field",
            ),
        ] {
            assert_eq!(text.parse::<CronSchedule>().unwrap_err().to_string(), error, "{text}");
        }
        for text in [
            "a b c d e",
            "0 0 * * 5#2",
            "@every",
            "@every x",
            "0 0 * * 99999999999999999999",
            "-1 0 * * *",
        ] {
            assert!(text.parse::<CronSchedule>().is_err(), "{text}");
        }
    }

    #[test]
    fn window_includes_its_start_and_not_its_end() {
        // API-207, DIS-076, DIS-077
        let hour = GoDuration::from_secs(3_600);
        let daily = schedule("0 9 * * *");
        for (now, active) in [
            ("2024-06-07T08:59:59.999999999Z", false),
            ("2024-06-07T09:00:00Z", true),
            ("2024-06-07T09:59:59.999999999Z", true),
            ("2024-06-07T10:00:00Z", false),
        ] {
            assert_eq!(daily.window_active(at(now), hour), Some(active), "{now}");
        }
        let two_days = GoDuration::from_secs(48 * 3_600);
        assert_eq!(
            daily.window_active(at("2024-06-07T08:00:00Z"), two_days),
            Some(true),
            "longer than the recurrence"
        );
        let never = schedule("0 0 31 2 *");
        assert_eq!(never.window_active(at("2024-06-07T08:00:00Z"), two_days), None);
        assert_eq!(daily.window_active(Timestamp::MIN, two_days), Some(false));
    }

    /// A field of the common grammar, with the values it stands for.
    fn field(min: u32, max: u32) -> impl Strategy<Value = (String, Vec<u32>)> {
        prop_oneof![
            Just(("*".to_owned(), (min..=max).collect())),
            (min..=max).prop_map(|v| (v.to_string(), vec![v])),
            (min..=max, min..=max)
                .prop_map(|(a, b)| (format!("{}-{}", a.min(b), a.max(b)), (a.min(b)..=a.max(b)).collect())),
            (min..=max, 2..20_u32)
                .prop_map(move |(a, step)| (format!("{a}/{step}"), (a..=max).step_by(step as usize).collect())),
            (min..=max, min..=max).prop_map(|(a, b)| (format!("{a},{b}"), vec![a, b])),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // DEP-072: a scan over every minute finds the same hit.
        #[test]
        fn equals_a_minute_scan(
            minute in field(0, 59), hour in field(0, 23), day in field(1, 31), week in field(0, 6),
            start in 1_600_000_000_i64..1_900_000_000,
        ) {
            let cron = schedule(&format!("{} {} {} * {}", minute.0, hour.0, day.0, week.0));
            let open = day.0 == "*" || week.0 == "*";
            let after = Timestamp::from_second(start).unwrap();
            let mut scan = start.div_euclid(60) * 60;
            let found = (0..40 * 24 * 60).find_map(|_| {
                scan += 60;
                let civil = Offset::UTC.to_datetime(Timestamp::from_second(scan).unwrap());
                let has = |values: &[u32], value: i8| values.contains(&(value as u32));
                let (d, w) = (has(&day.1, civil.day()), has(&week.1, civil.weekday().to_sunday_zero_offset()));
                let days = if open { d && w } else { d || w };
                (days && has(&minute.1, civil.minute()) && has(&hour.1, civil.hour())).then_some(scan)
            });
            let next = cron.next_after(after).map(Timestamp::as_second);
            match found {
                Some(found) => prop_assert_eq!(next, Some(found)),
                None => prop_assert!(next.is_none_or(|next| next > scan)),
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            if let Ok(cron) = text.parse::<CronSchedule>() {
                let _ = cron.next_after(Timestamp::UNIX_EPOCH);
            }
        }
    }
}
