//! The pods that come while the machines of a plan start.

use jiff::SignedDuration;
use kerf_model::pod::Pod;
use std::sync::Arc;

/// As many pods come after a plan as came in this time before it.
const SPAN: SignedDuration = SignedDuration::from_secs(10);

/// Pods like those that were created last, each created one span later.
pub(super) fn later_pods(pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let pending = || pods.iter().filter(|pod| pod.node_name.is_none() && !pod.is_virtual());
    let Some(newest) = pending().map(|pod| pod.created).max() else {
        return Vec::new();
    };
    let last = pending().filter(|pod| newest.duration_since(pod.created) < SPAN);
    let later = last.filter_map(|pod| {
        Some(Arc::new(Pod {
            uid: format!("{}~", pod.uid).into(),
            name: format!("{}~", pod.name).into(),
            created: pod.created.checked_add(SPAN).ok()?,
            ..Pod::clone(pod)
        }))
    });
    later.collect()
}
