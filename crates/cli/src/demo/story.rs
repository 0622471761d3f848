//! The timetable: what happens to the shop, and when.

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
    /// Silences the kubelet of the node that runs most pods of an app, sparing nodes with pods that must not be disrupted.
    Silence(&'static str),
    /// Merges a patch into the NodePool.
    PatchPool(fn() -> Value),
    /// Nothing more happens.
    End,
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
        title: "the rush is over: web 24 -> 6, worker 16 -> 2; empty nodes go",
        step: Step::Scale(&[("Deployment", "web", 6), ("Deployment", "worker", 2)]),
    },
    Act {
        minute: 100,
        title: "a kubelet falls silent on a node that serves the web",
        step: Step::Silence("web"),
    },
    Act {
        minute: 130,
        title: "the pool's template changes: nodes drift and are replaced, two at a time",
        step: Step::PatchPool(release),
    },
    Act {
        minute: 200,
        title: "closing time: everything is scaled to nothing",
        step: Step::Scale(&[
            ("Deployment", "web", 0),
            ("Deployment", "api", 0),
            ("Deployment", "worker", 0),
            ("StatefulSet", "cache", 0),
        ]),
    },
    Act {
        minute: 225,
        title: "lights out",
        step: Step::End,
    },
];

fn release() -> Value {
    json!({"spec": {"template": {"metadata": {"labels": {"release": "autumn"}}}}})
}
