//! When a pod is nominated to the node it is planned onto, and when its nomination ends.

use std::sync::Arc;

use kerf_state::NodeNomination;

/// A change of a pod's nomination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NominationStep {
    /// The pod is nominated to this node.
    Nominate(Arc<str>),
    /// The pod is nominated to no node.
    Clear,
}

/// The change to write, given the node that a pod is planned onto (`None` while no node takes the pod) and whether the last plan nominates the
/// pod; `None` if nothing is to be written.
///
/// A pod is nominated once for a placement: kube-scheduler ends the nomination when the pod does not fit. Nominations by others, such as
/// kube-scheduler's preemption, are never changed.
pub(super) fn step(
    nomination: &NodeNomination,
    planned: Option<&Arc<str>>,
    is_nominee: bool,
) -> Option<NominationStep> {
    let by_others = nomination.current.is_some() && !nomination.is_by_kerf();
    if by_others || (planned.is_some() && planned == nomination.by_kerf.as_ref()) {
        return None;
    }
    match planned.filter(|_| is_nominee) {
        Some(node) => Some(NominationStep::Nominate(Arc::clone(node))),
        None => nomination.is_by_kerf().then_some(NominationStep::Clear),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_told_its_node_once_and_others_are_respected() {
        let nominate = |node: &str| Some(NominationStep::Nominate(node.into()));
        let clear = || Some(NominationStep::Clear);
        // The current nomination, Kerf's last one, the planned node, and what is written.
        let table = [
            (None, None, None, None),
            (None, None, Some("a"), nominate("a")),
            (Some("a"), Some("a"), Some("a"), None),
            (Some("a"), Some("a"), Some("b"), nominate("b")),
            (Some("a"), Some("a"), None, clear()),
            // kube-scheduler ended it.
            (None, Some("a"), Some("a"), None),
            (None, Some("a"), Some("b"), nominate("b")),
            (None, Some("a"), None, None),
            // kube-scheduler preempts.
            (Some("x"), None, Some("a"), None),
            (Some("x"), Some("a"), Some("b"), None),
            (Some("x"), Some("a"), None, None),
        ];
        for (current, by_kerf, planned, expected) in table {
            let nomination = NodeNomination {
                current: current.map(Arc::from),
                by_kerf: by_kerf.map(Arc::from),
            };
            let planned = planned.map(Arc::from);
            let written = step(&nomination, planned.as_ref(), true);
            assert_eq!(written, expected, "{nomination:?} {planned:?}");
            // Plans that do not nominate the pod end its nomination to another node, and leave that to the planned one.
            let ends = nomination.is_by_kerf() && nomination.current != planned;
            let written = step(&nomination, planned.as_ref(), false);
            assert_eq!(
                written,
                clear().filter(|_| ends),
                "{nomination:?} {planned:?}, no nominee"
            );
        }
    }
}
