//! The locked state with its clock: what requests and running watches share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::State;

/// The source of timestamps.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What requests and running watches share.
pub(crate) struct Shared {
    state: Mutex<State>,
    clock: Clock,
    pub(crate) bookmark_interval: Duration,
}

impl Shared {
    pub(crate) fn new(state: State, clock: Clock, bookmark_interval: Duration) -> Self {
        Self {
            state: Mutex::new(state),
            clock,
            bookmark_interval,
        }
    }

    /// Locks the state. The server does not panic while it holds the lock, so a poisoned lock still holds a consistent state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
