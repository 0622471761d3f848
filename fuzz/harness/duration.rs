// Durations: the canonical form reads as the same span, and fields come back as they were written.

use kerf_units::duration::{GoDuration, NillableDuration, WrittenDuration};

/// One input.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(duration) = text.parse::<GoDuration>() {
        let shown = duration.to_string();
        let again: GoDuration = shown.parse().expect("a printed duration reads");
        assert_eq!(again, duration, "{text:?} prints as {shown:?}");
        let _ = (duration.to_std(), duration.to_signed(), duration.as_secs_f64());
    }
    if let Ok(written) = text.parse::<WrittenDuration>() {
        assert_eq!(written.to_string(), text);
    }
    if let Ok(nillable) = text.parse::<NillableDuration>() {
        let again: NillableDuration = nillable.to_string().parse().expect("a printed duration reads");
        assert_eq!(again.value(), nillable.value(), "{text:?}");
        assert_eq!(nillable.is_never(), nillable.value().is_none(), "{text:?}");
    }
}
