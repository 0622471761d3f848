//! The handle of one client's faults: switches them, counts calls, and draws the fault of the next call.

use super::body::WatchOutage;
use super::plan::{FaultPlan, KillMoment};
use super::stale::PreviousResponses;
use http::{Method, StatusCode};
use kerf_runtime::{CancellationToken, Rng, Seed};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Calls kept for the report of a failing test.
const TRACE: usize = 256;

/// The faults of one client: a handle that switches them while the client runs.
#[derive(Clone, Debug)]
pub struct Faults(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    tag: String,
    rng: Rng,
    state: Mutex<FaultState>,
    pub(super) killed: CancellationToken,
}

#[derive(Debug, Default)]
pub(super) struct FaultState {
    pub(super) plan: FaultPlan,
    calls: u64,
    kill: Option<(u64, KillMoment)>,
    trace: VecDeque<String>,
    pub(super) previous: PreviousResponses,
}

/// The fault that one call gets.
pub(super) enum CallFault {
    None,
    /// The call is refused with this code and reason.
    Refuse(StatusCode, &'static str),
    /// The request is lost on its way.
    DropRequest,
    /// The request is carried out, its response is lost.
    DropResponse,
    /// A read gets an earlier response.
    StaleRead,
    /// The client is killed.
    Kill(KillMoment),
}

impl Faults {
    /// No faults yet, for the client called `tag`.
    pub fn new(tag: &str, seed: Seed) -> Self {
        Self(Arc::new(Inner {
            tag: tag.to_owned(),
            rng: seed.derive(tag).rng(),
            state: Mutex::default(),
            killed: CancellationToken::new(),
        }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, FaultState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client's tag.
    pub fn tag(&self) -> &str {
        &self.0.tag
    }

    /// Injects the faults of `plan` from now on.
    pub fn set(&self, plan: FaultPlan) {
        self.state().plan = plan;
    }

    /// Injects no more faults. A client that was killed stays killed.
    pub fn clear(&self) {
        self.set(FaultPlan::default());
    }

    /// The number of calls made, not counting watches.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// The last calls made, as `METHOD path`, oldest first.
    pub fn trace(&self) -> Vec<String> {
        self.state().trace.iter().cloned().collect()
    }

    /// Kills the client at its `call`-th call, counted from one without watches: no later call gets a response.
    pub fn kill_at(&self, call: u64, moment: KillMoment) {
        self.state().kill = Some((call, moment));
    }

    /// A token that is cancelled when the client is killed, so that its owner can drop it.
    pub fn killed(&self) -> CancellationToken {
        self.0.killed.clone()
    }

    fn happens(&self, chance: f64) -> bool {
        // A chance of zero draws no random number: switching one fault on does not change when the others happen.
        chance > 0.0 && self.0.rng.unit() < chance
    }

    pub(super) fn next_fault(&self, method: &Method, path: &str) -> (CallFault, Duration) {
        let (plan, call, kill) = {
            let mut state = self.state();
            state.calls += 1;
            if state.trace.len() == TRACE {
                state.trace.pop_front();
            }
            state.trace.push_back(format!("{method} {path}"));
            (state.plan.clone(), state.calls, state.kill)
        };
        let latency = plan.latency.map_or(Duration::ZERO, |(least, most)| {
            least + most.saturating_sub(least).mul_f64(self.0.rng.unit())
        });
        let fault = match kill {
            Some((at, moment)) if call == at => CallFault::Kill(moment),
            _ if self.happens(plan.lost) => CallFault::DropRequest,
            _ if self.happens(plan.too_many) => CallFault::Refuse(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            _ if self.happens(plan.internal) => CallFault::Refuse(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            _ if *method != Method::GET && self.happens(plan.conflict) => {
                CallFault::Refuse(StatusCode::CONFLICT, "Conflict")
            }
            _ if *method != Method::GET && self.happens(plan.answer_lost) => CallFault::DropResponse,
            _ if *method == Method::GET && self.happens(plan.stale) => CallFault::StaleRead,
            _ => CallFault::None,
        };
        (fault, latency)
    }

    /// The delay of the next event of a watch of `plural`; `None` drops the event.
    pub(super) fn watch_event(&self, plural: &str) -> Option<Duration> {
        let (loss, lag) = {
            let plan = &self.state().plan;
            let spared = !plan.watch_loss_of.is_empty() && !plan.watch_loss_of.iter().any(|one| one == plural);
            (if spared { 0.0 } else { plan.watch_loss }, plan.watch_lag)
        };
        (!self.happens(loss)).then_some(lag)
    }

    pub(super) fn watch_outage(&self) -> Option<WatchOutage> {
        let plan = self.state().plan.clone();
        let gone = self.happens(plan.watch_gone);
        (gone || self.happens(plan.watch_cut))
            .then(|| WatchOutage::new(plan.watch_life.mul_f64(self.0.rng.unit()), gone))
    }

    /// Marks the client as killed and never returns.
    pub(super) async fn kill(&self) -> ! {
        self.0.killed.cancel();
        std::future::pending().await
    }
}
