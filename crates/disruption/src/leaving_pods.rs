//! Which pods leave a node that goes, and which are evicted (DIS-042, DIS-062).

use jiff::Timestamp;
use kerf_model::pod::{Owner, Pod};
use kerf_model::taint::{Effect, Taint};
use std::sync::{Arc, LazyLock};

/// The taint that a node gets before it is drained.
static DISRUPTED: LazyLock<Taint> = LazyLock::new(|| Taint {
    key: Arc::from("karpenter.sh/disrupted"),
    value: Arc::from(""),
    effect: Effect::NoSchedule,
});

/// Whether the pod must be rescheduled when its node goes (DIS-042).
pub fn reschedulable(pod: &Pod) -> bool {
    let comes_back = pod.is_active() || (!pod.phase.is_terminal() && pod.owner == Owner::StatefulSet);
    comes_back && !matches!(pod.owner, Owner::DaemonSet | Owner::Node)
}

/// Whether a drain evicts the pod (DIS-062).
pub fn evictable(pod: &Pod, now: Timestamp) -> bool {
    pod.is_active() && pod.owner != Owner::Node && !pod.do_not_disrupt_active(now) && !tolerates_disruption(pod)
}

/// Whether the pod tolerates the taint of disrupted nodes, and so stays on its node until the node is deleted.
pub fn tolerates_disruption(pod: &Pod) -> bool {
    pod.shape
        .tolerations
        .iter()
        .any(|toleration| toleration.tolerates(&DISRUPTED))
}
