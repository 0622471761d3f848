//! Controllers that keep a condition of pools up to date: the same loop around different rules.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use kerf_api::NodePool;
use kerf_runtime::client::found;
use kerf_runtime::{CancellationToken, Outcome, Queue, RateLimit, ReconcileError};

use crate::changes::Change;
use crate::context::Context;
use crate::patch::{Lock, patch_status};
use crate::reconciler::Reconciler;

/// What a pool's status should be now, written into the copy it is given.
pub(crate) type PoolRule = dyn Fn(&Context, &mut NodePool, Timestamp) + Send + Sync;

/// A controller that keeps pools' status as a rule says.
pub(crate) struct PoolStatus {
    context: Context,
    queue: Queue<String>,
    name: &'static str,
    workers: usize,
    follows_classes: bool,
    rule: Box<PoolRule>,
}

impl PoolStatus {
    /// A controller of that name; with `follows_classes` a pool is looked at again when its node class changes.
    pub(crate) fn new(
        context: &Context,
        name: &'static str,
        workers: usize,
        follows_classes: bool,
        rule: Box<PoolRule>,
    ) -> Arc<Self> {
        Arc::new(Self {
            queue: context.queue(name, RateLimit::DEFAULT),
            context: context.clone(),
            name,
            workers,
            follows_classes,
            rule,
        })
    }

    /// Has a pool looked at although nothing about it changed.
    pub(crate) fn look_at(&self, pool: &str) {
        self.queue.add(pool.to_owned());
    }

    async fn reconcile(&self, name: &str) -> Result<Outcome, ReconcileError> {
        let Some(before) = self.context.cluster.pool(name) else {
            return Ok(Outcome::Done);
        };
        let mut after = NodePool::clone(&before);
        (self.rule)(&self.context, &mut after, self.context.now());
        let written = patch_status(&self.context.client, &*before, &after, Lock::Optimistic).await;
        if let Some(Some(pool)) = found(written)? {
            self.context.cluster.wrote_pool(pool);
        }
        Ok(Outcome::Done)
    }
}

/// Puts the pools of a changed node class into a queue.
pub(crate) fn enqueue_pools_of_class(context: &Context, queue: &Queue<String>, change: &Change) {
    let Change::Class(class) = change else { return };
    let Some(class_now) = class.last() else { return };
    for pool in context.cluster.pools() {
        if class_now.is(&pool.spec.template.spec.node_class_ref)
            && let Some(name) = &pool.metadata.name
        {
            queue.add_with(name.clone(), class.priority());
        }
    }
}

#[async_trait]
impl Reconciler for PoolStatus {
    fn name(&self) -> &'static str {
        self.name
    }

    fn notify(&self, change: &Change) {
        match change {
            Change::Pool(pool) if !pool.is_gone() => self.queue.add_with(pool.name().to_owned(), pool.priority()),
            Change::Class(_) if self.follows_classes => enqueue_pools_of_class(&self.context, &self.queue, change),
            _ => {}
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let controller = self
            .context
            .controller(self.name)
            .for_kind("karpenter.sh", "NodePool")
            .workers(self.workers);
        let queue = self.queue.clone();
        let reconcile = move |name: String| {
            let this = Arc::clone(&self);
            async move { this.reconcile(&name).await }
        };
        controller.run(queue, reconcile, shutdown).await;
    }
}
