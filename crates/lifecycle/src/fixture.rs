//! Pods, nodes and times for the tests of this crate.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_model::intern::{Interner, sym};
use kerf_model::node::Node;
use kerf_model::pod::{Phase, Pod};

/// A time from its RFC 3339 text.
pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("a timestamp")
}

/// A running pod of no owner, without constraints.
pub(crate) fn running_pod(name: &str) -> Pod {
    Pod {
        created: at("2026-01-01T02:00:00Z"),
        started: Some(at("2026-01-01T11:00:00Z")),
        phase: Phase::Running,
        ready: Some(true),
        ..Pod::new("default", name)
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
