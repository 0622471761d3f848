//! The timetable: what happens to the shop, and when.

use kerf_cloud::InterruptionKind;
use serde_json::{Value, json};
use std::time::Duration;

/// The objects applied at the start.
pub(super) const MANIFESTS: &str = include_str!("story.yaml");
/// The taint a network agent takes away when a node's network is up, as the pool's startup taint says.
pub(super) const NETWORK_TAINT: &str = "example.com/network-not-ready";

/// One entry of the timetable.
pub(super) struct Act {
    /// Minutes from the start.
    pub(super) minute: u64,
    /// What people see.
    pub(super) title: &'static str,
    /// What is done.
    pub(super) step: Step,
}

/// What an act does.
pub(super) enum Step {
    /// Applies the manifests.
    Open,
    /// Scales workloads: kind, name, replicas.
    Scale(&'static [(&'static str, &'static str, u32)]),
    /// Something happens to the machine that runs most pods of an app; machines with pods that must not be disrupted are spared.
    Strike(&'static str, Blow),
    /// Merges a patch into the NodePool.
    PatchPool(fn() -> Value),
    /// Nothing more happens.
    End,
}

/// What happens to a machine.
pub(super) struct Blow {
    /// What the cloud announces about it, if anything.
    pub(super) announced: Option<InterruptionKind>,
    /// Whether its kubelet falls silent.
    pub(super) silences: bool,
}

impl Act {
    pub(super) fn at(&self) -> Duration {
        Duration::from_secs(self.minute * 60)
    }
}

/// The timetable, in order.
pub(super) const ACTS: &[Act] = &[
    Act {
        minute: 0,
        title: "the shop opens: web, api, cache, workers and a report that must not be disturbed",
        step: Step::Open,
    },
    Act {
        minute: 20,
        title: "rush hour: web 6 -> 24, worker 2 -> 16",
        step: Step::Scale(&[("Deployment", "web", 24), ("Deployment", "worker", 16)]),
    },
    Act {
        minute: 60,
        title: "the rush is over: web 24 -> 6, worker 16 -> 2; nodes empty, the rest is consolidated",
        step: Step::Scale(&[("Deployment", "web", 6), ("Deployment", "worker", 2)]),
    },
    Act {
        minute: 75,
        title: "a quiet hour: api 4 -> 2; what is left fits cheaper machines",
        step: Step::Scale(&[("Deployment", "api", 2)]),
    },
    Act {
        minute: 90,
        title: "spot reclaim: the cloud wants a worker's machine back",
        step: Step::Strike("worker", announced(InterruptionKind::SpotReclaim)),
    },
    Act {
        minute: 100,
        title: "a kubelet falls silent on a machine that serves the web; nobody announces anything",
        step: Step::Strike(
            "web",
            Blow {
                announced: None,
                silences: true,
            },
        ),
    },
    Act {
        minute: 115,
        title: "scheduled change: the cloud announces maintenance of a machine",
        step: Step::Strike("web", announced(InterruptionKind::ScheduledChange)),
    },
    Act {
        minute: 125,
        title: "a machine stops",
        step: Step::Strike("web", fatal(InterruptionKind::InstanceStopped)),
    },
    Act {
        minute: 135,
        title: "somebody terminates a machine by hand",
        step: Step::Strike("worker", fatal(InterruptionKind::InstanceTerminated)),
    },
    Act {
        minute: 145,
        title: "health event: a machine fails its checks",
        step: Step::Strike("web", fatal(InterruptionKind::InstanceUnhealthy)),
    },
    Act {
        minute: 160,
        title: "the pool's template changes: nodes drift and are replaced, two at a time",
        step: Step::PatchPool(release),
    },
    Act {
        minute: 225,
        title: "closing time: everything is scaled to nothing",
        step: Step::Scale(&[
            ("Deployment", "web", 0),
            ("Deployment", "api", 0),
            ("Deployment", "worker", 0),
            ("StatefulSet", "cache", 0),
        ]),
    },
    Act {
        minute: 240,
        title: "lights out",
        step: Step::End,
    },
];

/// The machine runs on for now.
const fn announced(kind: InterruptionKind) -> Blow {
    Blow {
        announced: Some(kind),
        silences: false,
    }
}

/// The machine is down.
const fn fatal(kind: InterruptionKind) -> Blow {
    Blow {
        announced: Some(kind),
        silences: true,
    }
}

fn release() -> Value {
    json!({"spec": {"template": {"metadata": {"labels": {"release": "autumn"}}}}})
}
