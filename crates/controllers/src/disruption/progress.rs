//! When a round of disruption has to end, and how long its methods take.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_decide::Method;
use kerf_runtime::CancellationToken;
use tokio::time::Instant;

use crate::clock_jump_guard::ClockJumpGuard;
use crate::context::Context;

/// How long consolidation may search. Drift, and validating a command, have no limit (DIS-314).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SearchLimits {
    /// For nodes that go together, all in all (DIS-163).
    pub multi: Duration,
    /// For nodes that go one by one: the time is looked at between nodes only (DIS-176).
    pub single: Duration,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self {
            multi: Duration::from_secs(60),
            single: Duration::from_secs(180),
        }
    }
}

impl SearchLimits {
    const fn of(&self, method: Method) -> Option<Duration> {
        match method {
            Method::Emptiness | Method::StaticDrift | Method::Drift => None,
            Method::MultiNodeConsolidation => Some(self.multi),
            Method::SingleNodeConsolidation => Some(self.single),
        }
    }
}

/// The progress of one round.
pub(super) struct Progress {
    limits: SearchLimits,
    shutdown: CancellationToken,
    jump_guard: ClockJumpGuard,
    /// The methods so far, with the start of each.
    starts: Mutex<Vec<(Method, Instant)>>,
}

impl Progress {
    pub(super) fn new(context: &Context, shutdown: &CancellationToken) -> Self {
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
        // What consolidates, drifts or is protected for a time is judged by the clock.
        if self.shutdown.is_cancelled() || self.jump_guard.hold().is_some() {
            return false;
        }
        self.starts().push((method, Instant::now()));
        true
    }

    fn is_over(&self) -> bool {
        let current = self.starts().last().copied();
        let limit = current.and_then(|(method, began)| Some((self.limits.of(method)?, began)));
        self.shutdown.is_cancelled() || limit.is_some_and(|(limit, began)| began.elapsed() >= limit)
    }
}
