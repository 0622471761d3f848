//! The order in which pods are tried (16.1).

use kerf_model::intern::sym;
use kerf_model::pod::Pod;
use std::cmp::Reverse;
use std::sync::Arc;

/// The sound pods in the order of section 16.1, as indices into the request.
pub(super) fn queue(pods: &[Arc<Pod>]) -> Vec<u32> {
    let sound = pods.iter().enumerate().filter(|(_, pod)| pod.faults.is_empty());
    let mut keyed: Vec<_> = sound
        .map(|(at, pod)| {
            let requests = &pod.shape.requests;
            let size = (Reverse(requests.get(sym::CPU)), Reverse(requests.get(sym::MEMORY)));
            (size, pod.created, at as u32)
        })
        .collect();
    keyed.sort_unstable_by(|a, b| {
        let uid = |at: u32| &pods[at as usize].uid;
        (a.0, a.1)
            .cmp(&(b.0, b.1))
            .then_with(|| uid(a.2).cmp(uid(b.2)))
            .then_with(|| a.2.cmp(&b.2))
    });
    keyed.into_iter().map(|entry| entry.2).collect()
}
