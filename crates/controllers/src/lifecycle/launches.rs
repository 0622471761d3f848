//! Answers of launches that are not stored on their claims yet (LIF-021, OPS-103).
//!
//! A lost status write must not launch twice. Providers are idempotent per claim, so this only spares them the repetition, and tells
//! a claim that is deleted before its status was stored which instance it has.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_cloud::Launched;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(3600);

/// Launched instances by the uid of their claim. As many as were launched and not stored within the last hour.
#[derive(Debug, Default)]
pub(crate) struct Launches(Mutex<FxHashMap<String, (Instant, Launched)>>);

impl Launches {
    /// What a claim's launch answered.
    pub(crate) fn get(&self, uid: &str) -> Option<Launched> {
        self.locked().get(uid).map(|(_, launched)| launched.clone())
    }

    /// Keeps an answer.
    pub(crate) fn put(&self, uid: &str, launched: Launched) {
        let mut launches = self.locked();
        let now = Instant::now();
        launches.retain(|_, (at, _)| now.duration_since(*at) < KEPT);
        launches.insert(uid.to_owned(), (now, launched));
    }

    /// Forgets an answer that is stored, or whose instance is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.locked().remove(uid);
    }

    fn locked(&self) -> MutexGuard<'_, FxHashMap<String, (Instant, Launched)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
