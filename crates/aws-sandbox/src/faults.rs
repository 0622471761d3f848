//! Faults between the SDK and the account: calls that are refused, lost or late.

use crate::account::Refusal;
use kerf_runtime::{Rng, Seed};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The faults to inject. Chances are between 0 (never, the default) and 1 (always).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AwsFaultPlan {
    /// Minimum and maximum latency added to every call.
    pub latency: Option<(Duration, Duration)>,
    /// A call is refused because there were too many.
    pub throttled: f64,
    /// A call is refused because of a fault of the service.
    pub internal: f64,
    /// A request is lost: it never arrives, and the caller sees a broken connection.
    pub lost: f64,
    /// A request is carried out, but its answer is lost.
    pub answer_lost: f64,
}

/// What happens to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallFault {
    /// Nothing.
    None,
    /// It is refused.
    Refuse(Refusal),
    /// It never arrives.
    DropRequest,
    /// It is carried out, and its answer is lost.
    DropAnswer,
}

/// Faults of one client. Clones are the same faults.
#[derive(Clone, Debug)]
pub struct AwsFaults {
    client: Arc<str>,
    rng: Rng,
    state: Arc<Mutex<FaultState>>,
}

#[derive(Debug, Default)]
struct FaultState {
    plan: AwsFaultPlan,
    /// What happens to the next calls of an action.
    scripted: BTreeMap<String, VecDeque<CallFault>>,
}

impl AwsFaults {
    /// No faults until a plan is set.
    pub fn new(seed: Seed) -> Self {
        Self {
            client: Arc::from(""),
            rng: seed.rng(),
            state: Arc::default(),
        }
    }

    /// Names the client: its calls are recorded with the name.
    #[must_use]
    pub fn of_client(mut self, name: &str) -> Self {
        self.client = Arc::from(name);
        self
    }

    /// The name of the client, if it has one.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Injects the faults of a plan from now on.
    pub fn set(&self, plan: AwsFaultPlan) {
        self.state().plan = plan;
    }

    fn script(&self, action: &str, fault: &CallFault, times: usize) {
        let mut state = self.state();
        let next = state.scripted.entry(action.to_owned()).or_default();
        next.extend(std::iter::repeat_n(fault, times).cloned());
    }

    /// The next calls of an action are refused. The SDK repeats calls that were throttled or hit a fault of the service.
    pub fn refuse(&self, action: &str, refusal: &Refusal, times: usize) {
        self.script(action, &CallFault::Refuse(refusal.clone()), times);
    }

    /// The next requests of an action never arrive.
    pub fn lose(&self, action: &str, times: usize) {
        self.script(action, &CallFault::DropRequest, times);
    }

    /// The next calls of an action are carried out, but their answers are lost.
    pub fn lose_answers(&self, action: &str, times: usize) {
        self.script(action, &CallFault::DropAnswer, times);
    }

    /// The fault of the next call, and how late it is.
    pub(crate) fn next(&self, action: &str) -> (CallFault, Duration) {
        let mut state = self.state();
        let scripted = state.scripted.get_mut(action).and_then(VecDeque::pop_front);
        let plan = &state.plan;
        let latency = plan.latency.map_or(Duration::ZERO, |(least, most)| {
            least + most.saturating_sub(least).mul_f64(self.rng.unit())
        });
        if let Some(fault) = scripted {
            return (fault, latency);
        }
        let throttled =
            || Refusal::new("RequestLimitExceeded", "injected fault: request limit exceeded").with_status(503);
        let internal = || Refusal::new("InternalError", "injected fault: internal error").with_status(500);
        let chances = [
            (plan.throttled, CallFault::Refuse(throttled())),
            (plan.internal, CallFault::Refuse(internal())),
            (plan.lost, CallFault::DropRequest),
            (plan.answer_lost, CallFault::DropAnswer),
        ];
        let hit = chances
            .into_iter()
            .find(|(chance, _)| *chance > 0.0 && self.rng.unit() < *chance);
        (hit.map_or(CallFault::None, |(_, fault)| fault), latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripted_faults_come_first_and_plans_are_repeatable() {
        let draw = || {
            let faults = AwsFaults::new(Seed(3));
            faults.set(AwsFaultPlan {
                lost: 0.3,
                answer_lost: 0.3,
                ..AwsFaultPlan::default()
            });
            faults.lose("CreateFleet", 1);
            assert_eq!(faults.next("CreateFleet").0, CallFault::DropRequest);
            (0..50).map(|_| faults.next("CreateFleet").0).collect::<Vec<_>>()
        };
        let drawn = draw();
        assert_eq!(drawn, draw());
        for fault in [CallFault::None, CallFault::DropRequest, CallFault::DropAnswer] {
            assert!(drawn.contains(&fault), "{fault:?}");
        }
        assert_eq!(
            AwsFaults::new(Seed(3)).next("CreateFleet"),
            (CallFault::None, Duration::ZERO)
        );
    }
}
