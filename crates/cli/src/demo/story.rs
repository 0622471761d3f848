//! The timetable: what happens to the shop, and when.

use kerf_cloud::InterruptionKind;
use serde_json::{Value, json};
use std::time::Duration;

/// The objects applied at the start.
pub(super) const MANIFESTS: &str = include_str!("story.yaml");
/// The pool's startup taint; a network agent removes it when the node's network is ready.
pub(super) const NETWORK_TAINT: &str = "example.com/network-not-ready";

/// One entry of the timetable.
pub(super) struct Entry {
    /// Minutes from the start.
    pub(super) minute: u64,
    /// What the demo prints.
    pub(super) title: &'static str,
    /// What happens.
    pub(super) action: Action,
}

/// What happens at one entry.
pub(super) enum Action {
    /// Applies the manifests.
    Apply,
    /// Scales workloads: kind, name, replicas.
    Scale(&'static [(&'static str, &'static str, u32)]),
    /// A fault hits the machine that runs most pods of an app, and no pod that must not be disrupted.
    Fault(&'static str, Fault),
    /// Merges a patch into the NodePool.
    PatchPool(fn() -> Value),
    /// The demo ends.
    End,
}

/// A fault of a machine.
pub(super) struct Fault {
    /// What the cloud reports about it, if anything.
    pub(super) interruption: Option<InterruptionKind>,
    /// Whether its kubelet stops.
    pub(super) stops_kubelet: bool,
}

impl Entry {
    /// The time since the start.
    pub(super) fn at(&self) -> Duration {
        Duration::from_secs(self.minute * 60)
    }
}

/// The timetable, in order.
pub(super) const TIMETABLE: &[Entry] = &[
    Entry {
        minute: 0,
        title: "the shop opens: web, api, cache, workers and a report that must not be disturbed",
        action: Action::Apply,
    },
    Entry {
        minute: 20,
        title: "rush hour: web 6 -> 24, worker 2 -> 16",
        action: Action::Scale(&[("Deployment", "web", 24), ("Deployment", "worker", 16)]),
    },
    Entry {
        minute: 60,
        title: "the rush is over: web 24 -> 6, worker 16 -> 2; empty nodes go, the rest is consolidated",
        action: Action::Scale(&[("Deployment", "web", 6), ("Deployment", "worker", 2)]),
    },
    Entry {
        minute: 75,
        title: "a quiet hour: api 4 -> 2; the remaining pods fit cheaper machines",
        action: Action::Scale(&[("Deployment", "api", 2)]),
    },
    Entry {
        minute: 90,
        title: "spot reclaim: the cloud takes a worker's machine back",
        action: Action::Fault("worker", announced(InterruptionKind::SpotReclaim)),
    },
    Entry {
        minute: 100,
        title: "a kubelet stops on a machine that runs web pods; the cloud reports nothing",
        action: Action::Fault(
            "web",
            Fault {
                interruption: None,
                stops_kubelet: true,
            },
        ),
    },
    Entry {
        minute: 115,
        title: "scheduled change: the cloud announces maintenance of a machine",
        action: Action::Fault("web", announced(InterruptionKind::ScheduledChange)),
    },
    Entry {
        minute: 125,
        title: "a machine stops",
        action: Action::Fault("web", fatal(InterruptionKind::InstanceStopped)),
    },
    Entry {
        minute: 135,
        title: "somebody terminates a machine by hand",
        action: Action::Fault("worker", fatal(InterruptionKind::InstanceTerminated)),
    },
    Entry {
        minute: 145,
        title: "health event: a machine fails its checks",
        action: Action::Fault("web", fatal(InterruptionKind::InstanceUnhealthy)),
    },
    Entry {
        minute: 160,
        title: "the pool's template changes: nodes drift and are replaced, two at a time",
        action: Action::PatchPool(release),
    },
    Entry {
        minute: 225,
        title: "closing time: all workloads are scaled to zero",
        action: Action::Scale(&[
            ("Deployment", "web", 0),
            ("Deployment", "api", 0),
            ("Deployment", "worker", 0),
            ("StatefulSet", "cache", 0),
        ]),
    },
    Entry {
        minute: 240,
        title: "end",
        action: Action::End,
    },
];

/// The cloud reports an interruption; the machine still runs.
const fn announced(kind: InterruptionKind) -> Fault {
    Fault {
        interruption: Some(kind),
        stops_kubelet: false,
    }
}

/// The cloud reports an interruption of a machine that is down.
const fn fatal(kind: InterruptionKind) -> Fault {
    Fault {
        interruption: Some(kind),
        stops_kubelet: true,
    }
}

fn release() -> Value {
    json!({"spec": {"template": {"metadata": {"labels": {"release": "autumn"}}}}})
}
