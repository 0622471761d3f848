//! Clusters besides the reference cluster: without limits, and with nodes that run pods.

use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_testkit::draw::Draw;
use kerf_testkit::workload::{cluster, diverse_pod};
use std::sync::Arc;

/// The same cluster without pool limits.
pub(crate) fn without_limits(mut snapshot: Snapshot) -> Snapshot {
    for pool in &mut snapshot.pools {
        Arc::make_mut(pool).limits = None;
    }
    snapshot
}

/// Shuffles a slice.
pub(crate) fn shuffle<T>(all: &mut [T], seed: u64) {
    let mut draw = Draw::new(seed);
    for at in (1..all.len()).rev() {
        all.swap(at, draw.below(at + 1));
    }
}

/// The number of workloads the pods of a busy cluster belong to.
const WORKLOADS: usize = 300;

/// The reference cluster with `count` nodes of 16 cores in three zones, each with `each` pods of the diverse mix. Some nodes have room for
/// another pod of some sizes. Pods of one workload share shape and labels, as in a live cluster.
pub(crate) fn busy(count: usize, each: usize) -> Snapshot {
    let mut snapshot = cluster(400);
    let mut draw = Draw::new(42);
    let interner = Arc::clone(&snapshot.interner);
    let s = |text: &str| interner.intern(text);
    let kinds: Vec<Arc<Pod>> = (0..WORKLOADS)
        .map(|number| diverse_pod(number, [0, 1, 2, 3, 0][number % 5], &mut draw))
        .collect();
    let pool = snapshot.pools[0].label;
    let mut nodes = Vec::with_capacity(count);
    for number in 0..count {
        let name: Arc<str> = format!("node-{number:05}").into();
        let hostname = s(&name);
        let mut labels = vec![
            (sym::HOSTNAME, hostname),
            (sym::ZONE, s(&format!("test-zone-{}", number % 3 + 1))),
            (sym::INSTANCE_TYPE, s("fake-it-15")),
            (sym::ARCH, s("amd64")),
            (sym::OS, s("linux")),
            (sym::CAPACITY_TYPE, sym::ON_DEMAND),
            (sym::NODEPOOL, pool),
        ];
        labels.sort_unstable();
        let mut requested = Resources::new();
        let mut pods = Vec::with_capacity(each);
        for slot in 0..each {
            let kind = &kinds[draw.below(WORKLOADS)];
            requested.add(&kind.shape.requests);
            pods.push(Arc::new(Pod {
                uid: format!("bound-{number}-{slot}").into(),
                name: format!("bound-{number:05}-{slot:03}").into(),
                node_name: Some(Arc::clone(&name)),
                phase: kerf_model::pod::Phase::Running,
                ..Pod::clone(kind)
            }));
        }
        let mut allocatable = requested.clone();
        for (resource, most) in [(sym::CPU, 1200), (sym::MEMORY, 2 << 30), (sym::PODS, 4)] {
            allocatable.set(resource, allocatable.get(resource) + draw.below(most) as i64);
        }
        nodes.push(Arc::new(Node {
            node_name: Some(Arc::clone(&name)),
            claim_name: Some(Arc::clone(&name)),
            provider_id: Some(Arc::clone(&name)),
            pool: Some(pool),
            registered: true,
            initialized: true,
            labels,
            capacity: allocatable.clone().with(sym::NODES, 1),
            allocatable,
            requested,
            pods,
            managed: true,
            ..Node::empty(name, hostname)
        }));
    }
    snapshot.nodes = nodes;
    snapshot
}

/// Pods of the diverse mix that are new to a busy cluster. A single one has a spread constraint, so that running pods must be counted.
pub(crate) fn newcomers(count: usize) -> Vec<Arc<Pod>> {
    let mut draw = Draw::new(43);
    (0..count)
        .map(|number| diverse_pod(number, [1, 0, 2, 3, 4][number % 5], &mut draw))
        .collect()
}
