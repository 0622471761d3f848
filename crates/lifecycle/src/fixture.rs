//! Pods, nodes and times for the tests of this crate.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_model::intern::{Interner, sym};
use kerf_model::node::Node;
use kerf_model::pod::{DoNotDisrupt, Owner, Phase, Pod, PodShape};
use kerf_model::selector::LabelSet;

/// A time from its RFC 3339 text.
pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("a timestamp")
}

/// A running pod of no owner, without constraints.
pub(crate) fn pod(name: &str) -> Pod {
    Pod {
        uid: name.into(),
        namespace: "default".into(),
        name: name.into(),
        labels: Arc::new(LabelSet::default()),
        shape: Arc::new(PodShape::default()),
        volumes: Vec::new(),
        faults: Vec::new(),
        created: at("2026-01-01T02:00:00Z"),
        started: Some(at("2026-01-01T11:00:00Z")),
        deletion: None,
        phase: Phase::Running,
        ready: Some(true),
        node_name: None,
        owner: Owner::None,
        priority: 0,
        critical: false,
        deletion_cost: 0,
        do_not_disrupt: DoNotDisrupt::No,
        grace_seconds: None,
        capacity_buffer: None,
    }
}

/// An initialized node of the pool `pool` with these pods, launched for a claim of the same name.
pub(crate) fn node(interner: &Interner, name: &str, pool: &str, pods: Vec<Pod>) -> Node {
    Node {
        node_name: Some(name.into()),
        claim_name: Some(name.into()),
        provider_id: Some(format!("p://{name}").into()),
        pool: Some(interner.intern(pool)),
        registered: true,
        initialized: true,
        labels: vec![(sym::NODEPOOL, interner.intern(pool))],
        pods: pods.into_iter().map(Arc::new).collect(),
        created: at("2026-01-01T02:00:00Z"),
        managed: true,
        ..Node::empty(name.into(), interner.intern(name))
    }
}
