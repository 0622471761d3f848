//! The order in which pods are tried (section 16.1 of `docs/behaviour/scheduling.md`).

use crate::dense::ids::Id;
use kerf_model::intern::sym;
use kerf_model::pod::Pod;
use std::cmp::Reverse;
use std::sync::Arc;

/// The id of a pod: its index in the request.
pub(crate) type PodId = Id<Pod>;

/// The valid pods in the order of section 16.1 of `docs/behaviour/scheduling.md`, as indices into the request.
pub(crate) fn queue(pods: &[Arc<Pod>]) -> Vec<PodId> {
    let sound = pods.iter().enumerate().filter(|(_, pod)| pod.faults.is_empty());
    let mut keyed: Vec<_> = sound
        .map(|(at, pod)| {
            let requests = &pod.shape.requests;
            let size = (Reverse(requests.get(sym::CPU)), Reverse(requests.get(sym::MEMORY)));
            (size, pod.created, PodId::new(at))
        })
        .collect();
    keyed.sort_unstable_by(|a, b| {
        let uid = |pod: PodId| &pods[pod.index()].uid;
        (a.0, a.1)
            .cmp(&(b.0, b.1))
            .then_with(|| uid(a.2).cmp(uid(b.2)))
            .then_with(|| a.2.cmp(&b.2))
    });
    keyed.into_iter().map(|entry| entry.2).collect()
}
