//! How often and how fast: exponential back-off, token buckets, worker counts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A delay that doubles with each failure, from `base` up to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub base: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Backoff {
    /// A back-off from `base` to `max`.
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }

    /// The delay after `failures` failures in a row (counted from 1; 0 is treated as 1).
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.max)
    }
}

/// A token bucket: `burst` at once, then `rate` per second. Waiters are served in the order they asked.
#[derive(Debug)]
pub struct TokenBucket {
    rate: f64,
    burst: f64,
    state: Mutex<Option<(Instant, f64)>>,
}

impl TokenBucket {
    /// A full bucket. A rate of zero or less would stop everything for ever and counts as one per second.
    pub fn new(rate: f64, burst: u32) -> Self {
        let rate = if rate > 0.0 { rate } else { 1.0 };
        Self {
            rate,
            burst: f64::from(burst.max(1)),
            state: Mutex::new(None),
        }
    }

    /// Takes a token that may lie in the future and returns how long to wait for it.
    pub fn reserve(&self) -> Duration {
        self.take(true).unwrap_or(Duration::ZERO)
    }

    /// Takes a token if one is there now.
    pub fn try_take(&self) -> bool {
        self.take(false).is_some()
    }

    /// Takes a token, waiting for it if need be.
    pub async fn acquire(&self) {
        let wait = self.reserve();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn take(&self, may_wait: bool) -> Option<Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (last, tokens) = state.unwrap_or((now, self.burst));
        let refilled = (tokens + now.duration_since(last).as_secs_f64() * self.rate).min(self.burst);
        // A tiny slack: a waiter that slept exactly as long as computed must not be refused by rounding.
        if refilled < 1.0 - 1e-6 && !may_wait {
            *state = Some((now, refilled));
            return None;
        }
        let left = refilled - 1.0;
        *state = Some((now, left));
        Some(if left >= 0.0 {
            Duration::ZERO
        } else {
            Duration::from_secs_f64(-left / self.rate)
        })
    }
}

/// How a work queue slows repeated work down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Per key, by failures in a row.
    pub backoff: Backoff,
    /// Over all keys: repetitions per second and burst.
    pub bucket: Option<(f64, u32)>,
}

impl RateLimit {
    /// 5 ms to 1000 s per key, no common bucket ("default" of OPS-099).
    pub const DEFAULT: Self = Self {
        backoff: Backoff::new(Duration::from_millis(5), Duration::from_secs(1000)),
        bucket: None,
    };

    /// 100 ms to 1 min per key, and 10 per second with a burst of 100 over all keys ("R" of OPS-099).
    pub const SHARED: Self = Self {
        backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(60)),
        bucket: Some((10.0, 100)),
    };

    /// For singletons that ask for a rate-limited repetition (OPS-099).
    pub const SINGLETON: Self = Self {
        backoff: Self::DEFAULT.backoff,
        bucket: Some((10.0, 100)),
    };

    /// `base` to `max` per key, no common bucket ("E(base, max)" of section 6 of `docs/behaviour/operations.md`).
    pub const fn exponential(base: Duration, max: Duration) -> Self {
        Self {
            backoff: Backoff::new(base, max),
            bucket: None,
        }
    }

    /// Adds a common bucket that grows with the workers ("B(q)" of section 6 of `docs/behaviour/operations.md`).
    #[must_use]
    pub fn with_worker_bucket(mut self, workers: usize, per_min_workers: u32, min_workers: usize) -> Self {
        let rate = (workers as f64 * f64::from(per_min_workers) / min_workers.max(1) as f64).ceil();
        self.bucket = Some((rate, (rate * 10.0) as u32));
        self
    }
}

impl Default for RateLimit {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How many workers a controller gets for `cpu_milli` millicores of requested CPU ("N(cpu, min, max)" of section 6 of
/// `docs/behaviour/operations.md`).
pub fn workers(cpu_milli: i64, min: usize, max: usize) -> usize {
    let cores = (cpu_milli.max(1) as f64 / 1000.0).ceil();
    let slope = max.saturating_sub(min) as f64 / 59.0;
    ((slope * (cores - 1.0)).trunc() as usize)
        .saturating_add(min)
        .clamp(min, max.max(min))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_bound() {
        let backoff = RateLimit::DEFAULT.backoff;
        // OPS-099
        for (failures, millis) in [
            (0, 5),
            (1, 5),
            (2, 10),
            (3, 20),
            (18, 655_360),
            (19, 1_000_000),
            (400, 1_000_000),
        ] {
            assert_eq!(backoff.delay(failures), Duration::from_millis(millis), "{failures}");
        }
        // OPS-099, LIF-225
        assert_eq!(RateLimit::SHARED.backoff.delay(1), Duration::from_millis(100));
        assert_eq!(RateLimit::SHARED.backoff.delay(99), Duration::from_secs(60));
        assert_eq!(RateLimit::SHARED.bucket, Some((10.0, 100)));
        assert_eq!(RateLimit::SINGLETON.bucket, Some((10.0, 100)));
    }

    #[test]
    fn workers_follow_the_cpu_request() {
        // The examples of section 6 of `docs/behaviour/operations.md`. LIF-222
        for (milli, expected) in [
            (500, 10),
            (1000, 10),
            (1500, 26),
            (15_000, 244),
            (60_000, 1000),
            (500_000, 1000),
            (-4, 10),
        ] {
            assert_eq!(workers(milli, 10, 1000), expected, "{milli} millicores");
        }
        assert_eq!(workers(1000, 100, 5000), 100);
        // LIF-016
        assert_eq!((workers(1000, 1000, 5000), workers(60_000, 1000, 5000)), (1000, 5000));
    }

    #[test]
    fn worker_buckets_grow_with_the_workers() {
        let limit = RateLimit::DEFAULT.with_worker_bucket(100, 10, 100);
        assert_eq!(limit.bucket, Some((10.0, 100)));
        let limit = RateLimit::DEFAULT.with_worker_bucket(250, 10, 100);
        assert_eq!(limit.bucket, Some((25.0, 250)));
        // LIF-016
        for (workers, bucket) in [(1000, (10.0, 100)), (1001, (11.0, 110)), (5000, (50.0, 500))] {
            let limit = RateLimit::DEFAULT.with_worker_bucket(workers, 10, 1000);
            assert_eq!(limit.bucket, Some(bucket), "{workers}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_gives_its_burst_and_then_its_rate() {
        let bucket = TokenBucket::new(5.0, 10);
        let began = Instant::now();
        for _ in 0..10 {
            bucket.acquire().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..5 {
            bucket.acquire().await;
        }
        let waited = began.elapsed().as_secs_f64();
        assert!((0.99..1.02).contains(&waited), "{waited}");
        assert!(!bucket.try_take());
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(
            (0..20).filter(|_| bucket.try_take()).count(),
            10,
            "a bucket never holds more than its burst"
        );
    }
}
