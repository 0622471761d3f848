//! Whether wall time may be taken for time that has passed.
//!
//! The API's timestamps are compared with our wall clock to find out what has taken too long. When that clock is set, or the machine was
//! suspended, the comparison says that hours have passed where none have, and everything that ends claims for their age would end
//! all of them. So a jump is looked for against the clock that does not jump, and after one, such decisions wait: as long as a claim may take
//! to register. Longer times, such as the age at which claims expire, that alone would not save: for them the API server's clock counts
//! where the machine's is wrong ([`Clock::heard`]), which shows within moments of a jump.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_runtime::Clock;
use tokio::time::Instant;

/// A difference between the clocks that is more than a slow correction.
const JUMP: SignedDuration = SignedDuration::from_secs(30);
/// How long decisions wait after a jump: the time a claim may take to register.
const HOLD: Duration = Duration::from_secs(15 * 60);

#[derive(Debug)]
struct Seen {
    wall: Timestamp,
    steady: Instant,
    held_until: Option<Instant>,
}

/// Watches the wall clock; clones share what they saw.
#[derive(Clone, Debug)]
pub struct Steadiness {
    clock: Clock,
    seen: Arc<Mutex<Seen>>,
}

impl Steadiness {
    /// Watches from now on.
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

    /// How long to wait before something is ended because of its age; `None` when that may be done now.
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

    /// The time by which terms are judged: now, but with a clock that was set just now the beginning of time, at which none is over.
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
            let steadiness = Steadiness::new(&clock);
            assert_eq!(steadiness.hold(), None);
            tokio::time::advance(Duration::from_secs(36_000)).await;
            assert_eq!(steadiness.hold(), None, "much time is no jump");
            clock.jump(SignedDuration::from_secs(5));
            assert_eq!(steadiness.hold(), None, "a correction is no jump");
            clock.jump(SignedDuration::from_hours(hours));
            assert_eq!(steadiness.hold(), Some(HOLD));
            assert_eq!(steadiness.judged_at(), Timestamp::UNIX_EPOCH);
            tokio::time::advance(Duration::from_secs(600)).await;
            assert_eq!(steadiness.hold(), Some(HOLD - Duration::from_secs(600)));
            tokio::time::advance(Duration::from_secs(300)).await;
            assert_eq!(steadiness.hold(), None);
            assert_eq!(steadiness.judged_at(), clock.now());
        }
    }
}
