//! Results of launches that are not stored in the claims yet (LIF-021, OPS-103).
//!
//! When the status write fails after a launch, the next pass must not launch again. Providers are idempotent per claim, so this only saves
//! a call; and it names the instance of a claim that is deleted before its status was stored. The back-off of failed launches is kept here
//! as well (LIF-016): that of the queue is reset when the claim changes, and the message of a failure may change with each attempt.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_cloud::{CloudError, Launched};
use kerf_runtime::Backoff;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

/// How long a result is kept, and the longest time a provider may ask to wait.
const KEPT: Duration = Duration::from_secs(3600);
/// The pauses between failed launches of a claim (LIF-016).
pub(super) const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Results by the uid of their claim: those of the last hour that are not stored.
#[derive(Debug, Default)]
pub(crate) struct Launches(Mutex<Attempts>);

/// Attempts with their time.
type Attempts = FxHashMap<String, (Instant, Attempt)>;

#[derive(Debug)]
enum Attempt {
    Launched(Box<Launched>),
    Failed { failures: u32, not_before: Instant },
}

impl Launches {
    /// The instance of a claim's successful launch.
    pub(crate) fn get(&self, uid: &str) -> Option<Launched> {
        match self.locked().get(uid) {
            Some((at, Attempt::Launched(launched))) if at.elapsed() < KEPT => Some(Launched::clone(launched)),
            Some((_, Attempt::Launched(_) | Attempt::Failed { .. })) | None => None,
        }
    }

    /// Keeps a successful launch.
    pub(crate) fn put(&self, uid: &str, launched: Launched) {
        keep(&mut self.locked(), uid, Attempt::Launched(Box::new(launched)));
    }

    /// Keeps a failed launch, and with it the time of the next attempt.
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

    /// How long the next attempt has to wait after a failed launch; `None` when it may be made now.
    pub(crate) fn pause(&self, uid: &str) -> Option<Duration> {
        let not_before = match self.locked().get(uid) {
            Some((_, Attempt::Failed { not_before, .. })) => *not_before,
            Some((_, Attempt::Launched(_))) | None => return None,
        };
        let left = not_before.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Forgets a result that is stored, or whose claim or instance is gone.
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

#[cfg(test)]
mod tests {
    use super::*;

    // OPS-103
    #[tokio::test(start_paused = true)]
    async fn a_launch_is_kept_for_an_hour_under_its_claims_uid() {
        let (launches, launched) = (Launches::default(), Launched::default());
        launches.put("one", launched.clone());
        tokio::time::advance(KEPT - Duration::from_secs(1)).await;
        assert_eq!(launches.get("one"), Some(launched));
        assert_eq!(launches.get("two"), None, "a claim of the same name has another uid");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(launches.get("one"), None);
    }
}
