//! When a round of disruption has to end, and how long its methods take.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_decide::Method;
use kerf_runtime::CancellationToken;
use tokio::time::Instant;

use crate::clock_jump_guard::ClockJumpGuard;
use crate::context::Context;
use crate::search_limits::SearchLimits;

/// How long after its start a method may begin to search for another command. The first one should not wait for longer than the 15 s after
/// which it is validated.
const SEARCH_ON: Duration = Duration::from_secs(5);

/// The progress of one round.
pub(crate) struct Progress {
    limits: SearchLimits,
    shutdown: CancellationToken,
    jump_guard: ClockJumpGuard,
    /// The methods so far, with the start of each.
    starts: Mutex<Vec<(Method, Instant)>>,
}

impl Progress {
    pub(crate) fn new(context: &Context, shutdown: &CancellationToken) -> Self {
        Self {
            limits: context.tuning.search,
            shutdown: shutdown.clone(),
            jump_guard: context.jump_guard.clone(),
            starts: Mutex::default(),
        }
    }

    /// The methods that were evaluated, with the start of each.
    pub(super) fn into_starts(self) -> Vec<(Method, Instant)> {
        self.starts.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn starts(&self) -> MutexGuard<'_, Vec<(Method, Instant)>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl kerf_decide::Progress for Progress {
    fn evaluating(&self, method: Method) -> bool {
        // After a jump of the clock, ages and deadlines are not reliable.
        if self.shutdown.is_cancelled() || self.jump_guard.hold().is_some() {
            return false;
        }
        self.starts().push((method, Instant::now()));
        true
    }

    fn may_search_on(&self) -> bool {
        let current = self.starts().last().copied();
        current.is_some_and(|(_, began)| began.elapsed() < SEARCH_ON)
    }

    fn is_over(&self) -> bool {
        let current = self.starts().last().copied();
        let limit = current.and_then(|(method, began)| Some((self.limits.of(method)?, began)));
        self.shutdown.is_cancelled() || limit.is_some_and(|(limit, began)| began.elapsed() >= limit)
    }
}
