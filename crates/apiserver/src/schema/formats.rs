//! String formats the API server checks. Formats it does not know are ignored, as the real one does.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;

/// Whether `text` has the format; true for formats that are not checked.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(text),
        "duration" => is_go_duration(text),
        "hostname" => is_hostname(text),
        "email" => text
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && is_hostname(host)),
        "uri" => text.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme)),
        "mac" => {
            text.len() == 17
                && text
                    .split([':', '-'])
                    .all(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()))
        }
        _ => true,
    }
}

fn is_date_time(text: &str) -> bool {
    let shaped = text.as_bytes().get(10).is_some_and(|t| matches!(t, b'T' | b't' | b' '));
    shaped && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32) || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn is_uuid(text: &str) -> bool {
    let hex = text.bytes().filter(u8::is_ascii_hexdigit).count();
    hex == 32 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') && matches!(text.len(), 32 | 36)
}

fn is_hostname(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

/// A Go duration such as `1h30m` or `-1.5s`; a bare `0` counts.
fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (digits, tail) = rest.split_at(number);
        if !digits.bytes().any(|b| b.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return false;
        }
        let Some(unit) = ["ns", "us", "µs", "ms", "s", "m", "h"]
            .iter()
            .find_map(|u| tail.strip_prefix(u))
        else {
            return false;
        };
        rest = unit;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn formats_accept_and_refuse() {
        for (format, text, good) in [
            ("date-time", "2024-01-01T01:01:01Z", true),
            ("date-time", "2024-01-01T01:01:01.123456+02:00", true),
            ("date-time", "2024-01-01", false),
            ("date-time", "soon", false),
            ("duration", "1h30m", true),
            ("duration", "-1.5s", true),
            ("duration", "0", true),
            ("duration", "5", false),
            ("duration", "", false),
            ("ipv4", "10.0.0.1", true),
            ("ipv4", "10.0.0.256", false),
            ("cidr", "10.0.0.0/33", false),
            ("cidr", "fd00::/8", true),
            ("byte", "aGk=", true),
            ("byte", "%", false),
            ("hostname", "a-b.c", true),
            ("hostname", "-a", false),
            ("unheard-of", "anything", true),
        ] {
            assert_eq!(matches(format, text), good, "{format} {text}");
        }
    }
}
