//! The steps of a pod's start that are still to be measured (OPS-135 to OPS-140, OPS-144, OPS-257).

use std::sync::Arc;

use jiff::Timestamp;
use kerf_model::pod::{Phase, Pod};
use kerf_state::PodMeasures;

/// The steps that a pod has still to reach. Only a pod that was seen Pending has steps; one that was first seen later records no duration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Awaited {
    /// The pod's unique id: a pod of the same name that comes later starts afresh.
    uid: Arc<str>,
    /// It has to become ready.
    pub(super) start: bool,
    /// It has to leave Pending bound.
    pub(super) binding: bool,
}

/// The steps that a pod has reached since the last call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Reached {
    /// When it became ready.
    pub(super) ready: Option<Timestamp>,
    /// When it was bound.
    pub(super) bound: Option<Timestamp>,
    /// It started, or ended without having been ready: when it was seen and decided on does not matter any more (OPS-258).
    pub(super) settled: bool,
}

impl Awaited {
    pub(super) fn new(pod: &Pod) -> Self {
        Self {
            uid: Arc::clone(&pod.uid),
            start: false,
            binding: false,
        }
    }

    /// Whether this is about another pod of the same name.
    pub(super) fn is_of_another(&self, pod: &Pod) -> bool {
        self.uid != pod.uid
    }

    /// Whether nothing is awaited.
    pub(super) fn is_over(&self) -> bool {
        !self.start && !self.binding
    }

    /// Takes in the pod's state.
    pub(super) fn advance(&mut self, pod: &Pod, measures: &PodMeasures) -> Reached {
        let mut reached = Reached::default();
        if pod.phase == Phase::Pending {
            (self.start, self.binding) = (true, true);
            return reached;
        }
        if self.start && (measures.ready.is_some() || pod.phase.is_terminal()) {
            self.start = false;
            reached.ready = measures.ready;
            reached.settled = true;
        }
        if self.binding && measures.bound.is_some() {
            self.binding = false;
            reached.bound = measures.bound;
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time")
    }

    fn pod_in(phase: Phase) -> Pod {
        Pod {
            phase,
            ..Pod::new("default", "web")
        }
    }

    fn measures(bound: Option<i64>, ready: Option<i64>) -> PodMeasures {
        PodMeasures {
            bound: bound.map(at),
            ready: ready.map(at),
            ..PodMeasures::default()
        }
    }

    // OPS-135 OPS-137
    #[test]
    fn a_pod_that_was_pending_reaches_binding_when_it_leaves_pending_and_its_start_when_it_is_ready() {
        let mut awaited = Awaited::new(&pod_in(Phase::Pending));
        assert_eq!(
            awaited.advance(&pod_in(Phase::Pending), &measures(None, None)),
            Reached::default()
        );
        // OPS-257: bound, but still Pending.
        assert_eq!(
            awaited.advance(&pod_in(Phase::Pending), &measures(Some(3), None)),
            Reached::default()
        );
        assert!(awaited.binding);
        let running = awaited.advance(&pod_in(Phase::Running), &measures(Some(3), None));
        assert_eq!(
            (running.bound, running.ready, running.settled),
            (Some(at(3)), None, false)
        );
        let ready = awaited.advance(&pod_in(Phase::Running), &measures(Some(3), Some(8)));
        assert_eq!((ready.bound, ready.ready, ready.settled), (None, Some(at(8)), true));
        assert!(awaited.is_over());
        // It counts once.
        assert_eq!(
            awaited.advance(&pod_in(Phase::Running), &measures(Some(3), Some(20))),
            Reached::default()
        );
    }

    // OPS-144
    #[test]
    fn a_pod_that_ends_without_having_been_ready_has_no_start() {
        let mut awaited = Awaited::new(&pod_in(Phase::Pending));
        awaited.advance(&pod_in(Phase::Pending), &measures(None, None));
        let ended = awaited.advance(&pod_in(Phase::Failed), &measures(Some(3), None));
        assert_eq!((ended.ready, ended.settled, ended.bound), (None, true, Some(at(3))));
    }

    // OPS-257
    #[test]
    fn a_pod_first_seen_after_it_left_pending_reaches_nothing() {
        let mut awaited = Awaited::new(&pod_in(Phase::Running));
        assert_eq!(
            awaited.advance(&pod_in(Phase::Running), &measures(Some(3), Some(8))),
            Reached::default()
        );
        let other = Pod {
            uid: "another".into(),
            ..pod_in(Phase::Pending)
        };
        assert!(awaited.is_over() && awaited.is_of_another(&other));
    }
}
