//! Back-off of static pools whose claims end before they are launched.
//!
//! A claim for which there is no capacity is deleted at once (LIF-023), and its pool has one node too few again. Without a pause, creation
//! and deletion would alternate as fast as the API server answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kerf_runtime::Backoff;
use tokio::time::Instant;

const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

#[derive(Clone, Copy, Debug)]
struct Failing {
    rounds: u32,
    until: Instant,
}

/// Which pools wait, and until when, by the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct LaunchBackoff(Mutex<BTreeMap<String, Failing>>);

impl LaunchBackoff {
    /// Records that a claim of the pool ended before it was launched. All that end while the pool waits count as one.
    pub(super) fn failed(&self, pool: &str) {
        let now = Instant::now();
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failing = pools
            .entry(pool.to_owned())
            .or_insert(Failing { rounds: 0, until: now });
        if failing.until <= now {
            failing.rounds = failing.rounds.saturating_add(1);
            failing.until = now + BACKOFF.delay(failing.rounds);
        }
    }

    /// Resets the back-off: a claim of the pool was launched, or the pool was changed.
    pub(super) fn reset(&self, pool: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(pool);
    }

    /// How long the pool still waits, if it does.
    pub(super) fn left(&self, pool: &str) -> Option<Duration> {
        let pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = pools.get(pool)?.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rounds_of_failures_double_the_pause() {
        let backoff = LaunchBackoff::default();
        assert_eq!(backoff.left("a"), None);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            backoff.failed("a");
            backoff.failed("a");
            assert_eq!(backoff.left("a"), Some(Duration::from_secs(seconds)));
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(backoff.left("a"), None);
        }
        backoff.failed("a");
        backoff.reset("a");
        assert_eq!(backoff.left("a"), None);
    }
}
