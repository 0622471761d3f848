//! The one source of wall time.
//!
//! Durations come from tokio's time; only times that are compared with timestamps of the API are read here. In a
//! simulation the clock is a start instant plus the runtime's (virtual) elapsed time plus jumps made on purpose.
//!
//! Ages are computed from timestamps the API server writes. So where the machine's clock differs much from the server's, the server's
//! time is used.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a wait on the system clock sleeps before it reads the time again: the clock may be set meanwhile.
const SYSTEM_RECHECK: Duration = Duration::from_secs(60);

/// How far the machine's clock may differ from the API server's: more than rounding, latency and the differences between servers.
const OFFSET_MAX: SignedDuration = SignedDuration::from_secs(60);
/// How far it may differ to be used again: clearly less, so that a clock at the limit does not change the source all the time.
const OFFSET_AGREED: SignedDuration = SignedDuration::from_secs(30);
/// Differences between two measurements up to this many seconds are rounding.
const ROUNDING_S: u64 = 5;
/// How many answers in a row must agree before a correction is made: one of several servers may be wrong. A process gets more answers than
/// that before its first decision.
const CONFIRMING_ANSWERS: u32 = 10;

/// Wall time. Cloning is cheap and all clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    /// What is added to what the source shows, in seconds.
    correction_s: Arc<AtomicI64>,
    pending: Arc<Mutex<PendingCorrection>>,
}

/// The correction in seconds that the latest answers suggest, and how many did so in a row.
#[derive(Clone, Copy, Debug, Default)]
struct PendingCorrection {
    correction_s: i64,
    answers: u32,
}

#[derive(Clone, Debug)]
enum Source {
    System,
    Simulated(Arc<Simulated>),
}

#[derive(Debug)]
struct Simulated {
    start: Timestamp,
    base: Instant,
    jumped_nanos: AtomicI64,
    jumped: Notify,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::of(Source::System)
    }

    /// A clock that shows `start` now and moves with tokio's time, so a paused runtime moves it virtually.
    pub fn simulated(start: Timestamp) -> Self {
        Self::of(Source::Simulated(Arc::new(Simulated {
            start,
            base: Instant::now(),
            jumped_nanos: AtomicI64::new(0),
            jumped: Notify::new(),
        })))
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            correction_s: Arc::default(),
            pending: Arc::default(),
        }
    }

    /// The current wall time.
    pub fn now(&self) -> Timestamp {
        let correction = SignedDuration::from_secs(self.correction_s.load(Ordering::SeqCst));
        let shown = self.source.now();
        shown.saturating_add(correction).unwrap_or(shown)
    }

    /// Takes the API server's time from an answer. Once several answers in a row differ from the machine's clock by more than a minute, the
    /// clock shows the server's time.
    pub fn observe_server_time(&self, server: Timestamp) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let off = server.duration_since(self.source.now());
        let current = self.correction_s.load(Ordering::SeqCst);
        let tolerance = if current == 0 { OFFSET_MAX } else { OFFSET_AGREED };
        let wanted = if off.abs() > tolerance { off.as_secs() } else { 0 };
        if wanted.abs_diff(current) <= ROUNDING_S {
            pending.answers = 0;
            return;
        }
        if pending.answers > 0 && wanted.abs_diff(pending.correction_s) <= ROUNDING_S {
            pending.answers += 1;
        } else {
            *pending = PendingCorrection {
                correction_s: wanted,
                answers: 1,
            };
        }
        if pending.answers < CONFIRMING_ANSWERS {
            return;
        }
        pending.answers = 0;
        self.correction_s.store(wanted, Ordering::SeqCst);
        if wanted == 0 {
            tracing::info!("this machine's clock agrees with the API server's again");
        } else {
            tracing::warn!(
                seconds = wanted,
                "this machine's clock differs from the API server's, whose time is used: it dates all objects"
            );
        }
        if let Source::Simulated(sim) = &self.source {
            sim.jumped.notify_waiters();
        }
    }

    /// Moves a simulated clock by `by` (backwards when negative) without any time passing: what an NTP step or a
    /// suspended machine does. The system clock is not ours to set and stays as it is.
    pub fn jump(&self, by: SignedDuration) {
        if let Source::Simulated(sim) = &self.source {
            let nanos = i64::try_from(by.as_nanos()).unwrap_or(if by.is_negative() { i64::MIN } else { i64::MAX });
            // Saturating: two absurd jumps must not wrap around into the past.
            let mut current = sim.jumped_nanos.load(Ordering::SeqCst);
            while let Err(seen) = sim.jumped_nanos.compare_exchange(
                current,
                current.saturating_add(nanos),
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                current = seen;
            }
            sim.jumped.notify_waiters();
        }
    }

    /// How long until the clock shows `at`; zero when that has passed.
    pub fn until(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.now())).unwrap_or(Duration::ZERO)
    }

    /// Sleeps until the clock shows `at` or later, jumps included.
    pub async fn sleep_until(&self, at: Timestamp) {
        loop {
            match &self.source {
                Source::System => {
                    let left = self.until(at);
                    if left.is_zero() {
                        return;
                    }
                    tokio::time::sleep(left.min(SYSTEM_RECHECK)).await;
                }
                Source::Simulated(sim) => {
                    // Registered before the clock is read, so a jump in between is not missed.
                    let jumped = sim.jumped.notified();
                    let left = self.until(at);
                    if left.is_zero() {
                        return;
                    }
                    tokio::select! {
                        biased;
                        () = jumped => {}
                        () = tokio::time::sleep(left) => {}
                    }
                }
            }
        }
    }
}

impl Source {
    fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            Self::Simulated(sim) => sim.now(),
        }
    }
}

impl Simulated {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.base.elapsed()).unwrap_or(SignedDuration::MAX);
        let moved = elapsed.saturating_add(SignedDuration::from_nanos(self.jumped_nanos.load(Ordering::SeqCst)));
        self.start.saturating_add(moved).unwrap_or(if moved.is_negative() {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a timestamp")
    }

    /// Enough answers to count, with a time `seconds` after the start.
    fn hear(clock: &Clock, seconds: i64) {
        for _ in 0..CONFIRMING_ANSWERS {
            clock.observe_server_time(start() + SignedDuration::from_secs(seconds));
        }
    }

    /// What the clock shows, in seconds after the start.
    fn shown(clock: &Clock) -> i64 {
        clock.now().duration_since(start()).as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_time_follows_virtual_time_and_jumps() {
        let clock = Clock::simulated(start());
        assert_eq!(clock.now(), start());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now(), start() + SignedDuration::from_hours(1));
        clock.clone().jump(SignedDuration::from_hours(-2));
        assert_eq!(clock.now(), start() - SignedDuration::from_hours(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_server_s_time_counts_where_the_machine_s_is_far_off() {
        let clock = Clock::simulated(start());
        hear(&clock, 59);
        assert_eq!(shown(&clock), 0, "no clocks agree exactly");
        clock.clone().jump(SignedDuration::from_hours(48));
        hear(&clock, 1);
        assert_eq!(shown(&clock), 1);
        tokio::time::sleep(Duration::from_secs(10)).await;
        hear(&clock, 8);
        assert_eq!(shown(&clock), 11, "rounding moves nothing");
        clock.jump(SignedDuration::from_hours(-48));
        hear(&clock, 10);
        assert_eq!(shown(&clock), 10, "it is right again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_off_by_about_as_much_as_it_may_is_not_set_to_and_fro() {
        let clock = Clock::simulated(start());
        let mut seen = Vec::new();
        for off in [58, 62, 59, 61, 40, 60, 31, 29, 40, 59, 62] {
            hear(&clock, off);
            seen.push(shown(&clock));
        }
        assert_eq!(seen, [0, 62, 62, 62, 40, 60, 31, 0, 0, 0, 62]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_wrong_among_others_does_not_count() {
        let clock = Clock::simulated(start());
        let off = |seconds| start() + SignedDuration::from_secs(seconds);
        for _ in 0..100 {
            for _ in 1..CONFIRMING_ANSWERS {
                clock.observe_server_time(off(7200));
            }
            clock.observe_server_time(off(1));
            assert_eq!(shown(&clock), 0);
        }
        hear(&clock, 600);
        assert_eq!(shown(&clock), 600);
        for wrong in 0..100 {
            clock.observe_server_time(off(wrong * 1000));
            assert_eq!(shown(&clock), 600, "each says something else");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_wakes_who_waits_for_wall_time() {
        let clock = Clock::simulated(start());
        let began = Instant::now();
        let waiter = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(start() + SignedDuration::from_hours(10)).await }
        });
        tokio::time::sleep(Duration::from_secs(60)).await;
        clock.jump(SignedDuration::from_hours(10));
        waiter.await.expect("the waiter ends");
        assert_eq!(began.elapsed(), Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_backwards_prolongs_the_wait() {
        let clock = Clock::simulated(start());
        let began = Instant::now();
        clock.jump(SignedDuration::from_mins(-5));
        clock.sleep_until(start() + SignedDuration::from_mins(1)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(360));
    }
}
