//! Just enough of quantities to refuse bad ones and to compare a request with its limit.

/// The amount in billionths, rounded up like the real parser; `None` when the text is no quantity.
pub(crate) fn parse(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(digits.len());
    let (number, suffix) = digits.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (factor, ten_exponent) = scale(suffix)?;
    let mut mantissa: i128 = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        mantissa = mantissa.checked_mul(10)?.checked_add(i128::from(digit.to_digit(10)?))?;
    }
    let exponent = 9 + ten_exponent - i32::try_from(fraction.len()).ok()?;
    let scaled = mantissa.checked_mul(factor)?;
    let amount = if exponent >= 0 {
        scaled.checked_mul(10_i128.checked_pow(u32::try_from(exponent).ok()?)?)?
    } else {
        match 10_i128.checked_pow(exponent.unsigned_abs()) {
            Some(divisor) => scaled / divisor + i128::from(scaled % divisor != 0),
            None => i128::from(scaled != 0),
        }
    };
    Some(if negative { -amount } else { amount })
}

/// Binary factor and decimal exponent of a suffix.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (-18..=18).contains(&exponent).then_some((1, exponent))?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        const ONE: i128 = 1_000_000_000;
        for (text, expected) in [
            ("1", Some(ONE)),
            ("100m", Some(ONE / 10)),
            ("0.5", Some(ONE / 2)),
            ("-1", Some(-ONE)),
            ("1Ki", Some(1024 * ONE)),
            ("1.5Gi", Some(1_610_612_736 * ONE)),
            ("1e3", Some(1000 * ONE)),
            ("2E", Some(2_000_000_000_000_000_000 * ONE)),
            (".5", Some(ONE / 2)),
            ("0.1n", Some(1)),
            ("", None),
            ("x", None),
            ("1 Gi", None),
            ("1..5", None),
            ("1KiB", None),
            ("-", None),
            ("1e99", None),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
