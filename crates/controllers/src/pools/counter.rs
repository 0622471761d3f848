//! Sums up the resources of a pool's nodes (LIF-165 to LIF-167).

use std::sync::Arc;
use std::time::Duration;

use kerf_api::{NodePool, ResourceList};
use kerf_model::intern::{Interner, sym};
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::client::{Lock, patch_status};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use kube::Api;

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
        let Some(before) = cluster.pool(name) else {
            return Ok(Outcome::Done);
        };
        cluster.expire(self.context.now());
        if !cluster.is_synced() {
            return Ok(Outcome::RequeueAfter(UNSYNCED));
        }
        let snapshot = cluster.snapshot(self.context.now());
        let (resources, nodes) = count(&snapshot, name, &self.context.interner);
        let mut after = NodePool::clone(&before);
        let status = after.status.get_or_insert_default();
        (status.resources, status.nodes) = (resources, Some(nodes));
        let api: Api<NodePool> = Api::all(self.context.client.clone());
        let written = patch_status(&api, &before, &after, Lock::None).await?;
        if let Some(pool) = written.stored() {
            cluster.wrote_pool(pool);
        }
        Ok(Outcome::RequeueAfter(COUNT_EVERY))
    }
}
