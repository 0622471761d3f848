//! Options and annotations that control the kubelets.

use std::time::Duration;

/// The annotation (and label) of simulated nodes, which have no machine (KWK-046, KWK-047).
pub const SIMULATED_NODE: &str = "kwok.x-k8s.io/node";
/// On a Node: `stopped` (no heartbeat, Ready becomes Unknown), `not-ready` (Ready is False) or `paused` (Ready, but nothing happens to pods).
pub const KUBELET: &str = "sandbox.kerf.sh/kubelet";
/// On a Node: for how long it is Ready and then not Ready, in turn, as a Go duration.
pub const FLAP_EVERY: &str = "sandbox.kerf.sh/flap-every";
/// On a pod that does not restart: how long it runs, as a Go duration.
pub const RUN_FOR: &str = "sandbox.kerf.sh/run-for";
/// On a pod that does not restart: the exit code of its containers; any other than 0 makes the pod fail.
pub const EXIT_CODE: &str = "sandbox.kerf.sh/exit-code";
/// On a pod: how long its containers take to stop when it is deleted, as a Go duration, at most its grace period.
pub const STOP_AFTER: &str = "sandbox.kerf.sh/stop-after";
/// KWOK's name for [`STOP_AFTER`] (KWK-063).
pub(super) const KWOK_STOP_AFTER: &str = "pod-delete.stage.kwok.x-k8s.io/delay";

/// Which nodes get a kubelet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NodeSelection {
    /// Those annotated with [`SIMULATED_NODE`].
    #[default]
    Marked,
    /// Every node.
    All,
    /// None.
    None,
}

/// How kubelets behave. All times are durations of the runtime's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KubeletOptions {
    /// Which nodes are simulated.
    pub nodes: NodeSelection,
    /// From the creation of the Node to Ready.
    pub node_ready_after: Duration,
    /// From binding to Running and Ready.
    pub pod_ready_after: Duration,
    /// How long pods of Jobs run unless annotated.
    pub job_runs_for: Duration,
    /// How long a deleted pod takes to end unless annotated.
    pub pod_stops_after: Duration,
    /// How long after the last heartbeat of a kubelet its node's Ready condition becomes Unknown, like the node monitor grace period of
    /// the controller manager.
    pub node_monitor_grace_period: Duration,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            nodes: NodeSelection::Marked,
            node_ready_after: Duration::from_secs(10),
            pod_ready_after: Duration::from_secs(2),
            job_runs_for: Duration::from_secs(30),
            pod_stops_after: Duration::from_secs(1),
            node_monitor_grace_period: Duration::from_secs(40),
        }
    }
}
