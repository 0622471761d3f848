//! Sums up the resources of a pool's nodes (LIF-165 to LIF-167).

use std::sync::Arc;
use std::time::Duration;

use kerf_api::{NodePool, ResourceList};
use kerf_model::intern::{Interner, sym};
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::client::{Lock, Part};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};

use super::write::write;
use crate::changes::Change;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

/// How often a pool is counted.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// The time until a pool is counted again while the cluster is not synced.
const UNSYNCED: Duration = Duration::from_secs(1);

/// `nodepool.counter`.
pub(crate) struct PoolCounter {
    context: Context,
    work: WorkLoop<String>,
}

impl PoolCounter {
    /// The controller.
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, "nodepool.counter", RateLimit::DEFAULT)
                .for_kind::<NodePool>()
                .workers(context.workers(10, 1000)),
            context: context.clone(),
        })
    }
}

/// The capacity of a pool's nodes that are not being deleted, zero where there is none, and their number. Claims without an instance do not
/// count.
fn count(snapshot: &Snapshot, pool: &str, interner: &Interner) -> (ResourceList, i64) {
    let zeros = [sym::CPU, sym::MEMORY, sym::PODS, sym::EPHEMERAL_STORAGE, sym::NODES];
    let mut sum: Resources = zeros.into_iter().map(|name| (name, 0)).collect();
    let label = interner.get(pool);
    let counted = snapshot
        .nodes
        .iter()
        .filter(|node| node.pool.is_some() && node.pool == label);
    for node in
        counted.filter(|node| !node.marked_for_deletion && (node.provider_id.is_some() || node.node_name.is_some()))
    {
        sum.add(&node.capacity);
    }
    let nodes = sum.get(sym::NODES);
    (kerf_cloud::quantities(&sum, interner), nodes)
}

impl Reconciler for PoolCounter {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Pool(pool) if pool.is_new() => vec![pool.name().to_owned()],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        if cluster.pool(name).is_none() {
            return Ok(Outcome::Done);
        }
        cluster.expire(self.context.now());
        if !cluster.is_synced() {
            return Ok(Outcome::RequeueAfter(UNSYNCED));
        }
        let snapshot = cluster.snapshot(self.context.now());
        let (resources, nodes) = count(&snapshot, name, &self.context.interner);
        let sums = |pool: &mut NodePool| {
            let status = pool.status.get_or_insert_default();
            (status.resources, status.nodes) = (resources, Some(nodes));
        };
        write(&self.context, name, Part::Status, Lock::None, sums).await?;
        Ok(Outcome::RequeueAfter(COUNT_EVERY))
    }
}
