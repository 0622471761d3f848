//! What a pod's do-not-disrupt annotation says now, for those who tell people (section 4 of the disruption contract).

use jiff::{SignedDuration, Timestamp};
use kerf_model::pod::{DoNotDisrupt, Pod};
use std::sync::Arc;

/// What the annotation of an active pod means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Nothing: there is none, or the pod is not active.
    None,
    /// It cannot be read and counts as absent; the text says why (DIS-053).
    Invalid(Arc<str>),
    /// It protects without limit, or until the pod has started and its time has run (DIS-052, DIS-054).
    Open,
    /// It protects until then (DIS-055).
    Until(Timestamp),
    /// Its time is over (DIS-055, DIS-056).
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
