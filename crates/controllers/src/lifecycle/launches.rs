//! What launches came to, as far as it is not stored on their claims (LIF-021, OPS-103).
//!
//! A lost status write must not launch twice. Providers are idempotent per claim, so this only spares them the repetition, and tells
//! a claim that is deleted before its status was stored which instance it has. And a launch that failed keeps its pace here (LIF-016): the
//! queue's is lost as soon as the claim changes, which the text of each failure may see to.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_cloud::{CloudError, Launched};
use kerf_runtime::Backoff;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

/// How long the outcome of a launch is kept, and the longest a provider may ask to wait.
const KEPT: Duration = Duration::from_secs(3600);
/// LIF-016.
pub(super) const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Outcomes by the uid of their claim. As many as there were within the last hour and are not stored.
#[derive(Debug, Default)]
pub(crate) struct Launches(Mutex<Attempts>);

/// With the time they were made at.
type Attempts = FxHashMap<String, (Instant, Attempt)>;

#[derive(Debug)]
enum Attempt {
    Launched(Box<Launched>),
    Failed { failures: u32, not_before: Instant },
}

impl Launches {
    /// What a claim's launch answered.
    pub(crate) fn get(&self, uid: &str) -> Option<Launched> {
        match self.locked().get(uid) {
            Some((_, Attempt::Launched(launched))) => Some(Launched::clone(launched)),
            Some((_, Attempt::Failed { .. })) | None => None,
        }
    }

    /// Keeps an answer.
    pub(crate) fn put(&self, uid: &str, launched: Launched) {
        keep(&mut self.locked(), uid, Attempt::Launched(Box::new(launched)));
    }

    /// Keeps that a launch failed.
    pub(crate) fn failed(&self, uid: &str, error: &CloudError) {
        let mut launches = self.locked();
        let before = match launches.get(uid) {
            Some((_, Attempt::Failed { failures, .. })) => *failures,
            Some((_, Attempt::Launched(_))) | None => 0,
        };
        let failures = before.saturating_add(1);
        let asked = error.retry_after().unwrap_or_default().min(KEPT);
        let not_before = Instant::now() + BACKOFF.delay(failures).max(asked);
        keep(&mut launches, uid, Attempt::Failed { failures, not_before });
    }

    /// How long the next attempt of a launch that failed has to wait; `None` when it may be made now.
    pub(crate) fn pause(&self, uid: &str) -> Option<Duration> {
        let not_before = match self.locked().get(uid) {
            Some((_, Attempt::Failed { not_before, .. })) => *not_before,
            Some((_, Attempt::Launched(_))) | None => return None,
        };
        let left = not_before.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Forgets an outcome that is stored, or whose claim or instance is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.locked().remove(uid);
    }

    fn locked(&self) -> MutexGuard<'_, Attempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep(attempts: &mut Attempts, uid: &str, attempt: Attempt) {
    let now = Instant::now();
    attempts.retain(|_, (at, _)| now.duration_since(*at) < KEPT);
    attempts.insert(uid.to_owned(), (now, attempt));
}
