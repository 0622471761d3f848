//! Detects jumps of the wall clock, so that no age computed from it is trusted right after one.
//!
//! Ages are differences between the wall clock and timestamps of the API server. After the clock is set, or the machine was suspended, a
//! difference may be hours although minutes have passed, and every timeout would expire at once. The guard compares the wall clock with the
//! monotonic clock. After a jump, timeouts wait for as long as a claim may take to register. Longer times, such as `expireAfter`, rely on
//! the API server's clock instead ([`Clock::heard`]), which corrects a wrong wall clock within moments.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_runtime::Clock;
use tokio::time::Instant;

/// The smallest difference between the clocks that counts as a jump; NTP corrects smaller ones gradually.
const JUMP: SignedDuration = SignedDuration::from_secs(30);
/// How long decisions wait after a jump: the time a claim may take to register.
const HOLD: Duration = Duration::from_secs(15 * 60);

#[derive(Debug)]
struct Seen {
    wall: Timestamp,
    steady: Instant,
    held_until: Option<Instant>,
}

/// Compares the wall clock with the monotonic clock. Clones share their state.
#[derive(Clone, Debug)]
pub struct ClockJumpGuard {
    clock: Clock,
    seen: Arc<Mutex<Seen>>,
}

impl ClockJumpGuard {
    /// A guard that detects jumps from now on.
    pub fn new(clock: &Clock) -> Self {
        let seen = Seen {
            wall: clock.now(),
            steady: Instant::now(),
            held_until: None,
        };
        Self {
            clock: clock.clone(),
            seen: Arc::new(Mutex::new(seen)),
        }
    }

    /// Returns how long timeouts must still wait after a jump; `None` if ages can be trusted now. Each call compares the clocks once.
    pub fn hold(&self) -> Option<Duration> {
        let (wall, steady) = (self.clock.now(), Instant::now());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = SignedDuration::try_from(steady.duration_since(seen.steady)).unwrap_or(SignedDuration::MAX);
        let jump = wall.duration_since(seen.wall) - passed;
        (seen.wall, seen.steady) = (wall, steady);
        if jump.abs() > JUMP {
            tracing::warn!(by = ?jump, "the clock was set, nothing is ended for its age for {HOLD:?}");
            seen.held_until = Some(steady + HOLD);
        }
        let left = seen.held_until?.saturating_duration_since(steady);
        (!left.is_zero()).then_some(left)
    }

    /// Returns the time to compare deadlines with: now, or the Unix epoch after a jump, so that no deadline counts as passed.
    pub(crate) fn judged_at(&self) -> Timestamp {
        match self.hold() {
            Some(_) => Timestamp::UNIX_EPOCH,
            None => self.clock.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn decisions_wait_after_a_jump_in_either_direction() {
        for hours in [2, -2] {
            let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().expect("a timestamp"));
            let guard = ClockJumpGuard::new(&clock);
            assert_eq!(guard.hold(), None);
            tokio::time::advance(Duration::from_secs(36_000)).await;
            assert_eq!(guard.hold(), None, "much time is no jump");
            clock.jump(SignedDuration::from_secs(5));
            assert_eq!(guard.hold(), None, "a correction is no jump");
            clock.jump(SignedDuration::from_hours(hours));
            assert_eq!(guard.hold(), Some(HOLD));
            assert_eq!(guard.judged_at(), Timestamp::UNIX_EPOCH);
            tokio::time::advance(Duration::from_secs(600)).await;
            assert_eq!(guard.hold(), Some(HOLD - Duration::from_secs(600)));
            tokio::time::advance(Duration::from_secs(300)).await;
            assert_eq!(guard.hold(), None);
            assert_eq!(guard.judged_at(), clock.now());
        }
    }
}
