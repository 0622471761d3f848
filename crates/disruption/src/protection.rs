//! What a pod's do-not-disrupt annotation means at a moment (DIS-052 to DIS-056).

use jiff::{SignedDuration, Timestamp};
use kerf_model::pod::{DoNotDisrupt, Pod};
use std::sync::Arc;

/// The effect of the annotation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Protection {
    /// No effect: there is no annotation, or the pod is not active.
    None,
    /// Its value is invalid, so it counts as absent; the text says why (DIS-053).
    Invalid(Arc<str>),
    /// It protects without a known end: for ever, or for a duration that begins when the pod starts (DIS-052, DIS-054).
    Open,
    /// It protects until then (DIS-055).
    Until(Timestamp),
    /// Its duration has passed (DIS-055, DIS-056).
    Elapsed,
}

/// Reads the annotation of a pod at `now`.
pub fn protection(pod: &Pod, now: Timestamp) -> Protection {
    if !pod.is_active() {
        return Protection::None;
    }
    match (&pod.do_not_disrupt, pod.started) {
        (DoNotDisrupt::No, _) => Protection::None,
        (DoNotDisrupt::Invalid(why), _) => Protection::Invalid(Arc::clone(why)),
        (DoNotDisrupt::Always, _) | (DoNotDisrupt::ForNanos(_), None) => Protection::Open,
        (DoNotDisrupt::ForNanos(_), Some(_)) if !pod.do_not_disrupt_active(now) => Protection::Elapsed,
        (DoNotDisrupt::ForNanos(nanos), Some(started)) => Protection::Until(
            started
                .checked_add(SignedDuration::from_nanos(*nanos))
                .unwrap_or(Timestamp::MAX),
        ),
    }
}
