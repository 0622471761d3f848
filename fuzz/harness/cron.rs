// Cron schedules: the next hit lies ahead, on a whole second, and a window that opened there is open.

use jiff::Timestamp;
use kerf_units::cron::CronSchedule;
use kerf_units::duration::GoDuration;

/// One input: eight bytes of time, then the schedule.
pub(crate) fn check(data: &[u8]) {
    let Some((time, text)) = data.split_first_chunk::<8>() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(schedule) = text.parse::<CronSchedule>() else {
        return;
    };
    // The years 0 to 6000 or so.
    let seconds = i64::from_le_bytes(*time).rem_euclid(190_000_000_000) - 62_000_000_000;
    let Ok(now) = Timestamp::from_second(seconds) else {
        return;
    };
    let minute = GoDuration::from_secs(60);
    let _ = schedule.window_active(now, minute);
    let Some(next) = schedule.next_after(now) else { return };
    assert!(next > now, "{text:?} at {now} gives {next}");
    assert_eq!(next.subsec_nanosecond(), 0, "{text:?} at {now} gives {next}");
    // A period counts from whenever it is asked about, so it has no windows of its own.
    let periodic = text.trim_start().starts_with("@every");
    assert!(
        periodic || schedule.window_active(next, minute) == Some(true),
        "{text:?} opens at {next} and is not open"
    );
}
