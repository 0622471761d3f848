//! A controller: a queue of keys, the changes that add keys to it, and one function that reconciles a key.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kerf_runtime::{CancellationToken, Controller, Key, Outcome, Priority, Queue, RateLimit, ReconcileError};
use kube::Resource;

use crate::changes::Change;
use crate::context::Context;

/// One of the loops that run while this process leads (OPS-102).
///
/// When leadership begins, every existing object is announced as a change; later changes follow as they happen. Every [`Reconciler`] is
/// one. The few loops without keys implement this trait directly.
#[async_trait]
pub(crate) trait LeaderTask: Send + Sync + 'static {
    /// The name in metrics and logs (OPS-100).
    fn name(&self) -> &'static str;

    /// Handles a change. Must not block.
    fn notify(&self, change: &Change);

    /// Works until `shutdown` is cancelled.
    async fn run(self: Arc<Self>, shutdown: CancellationToken);

    /// The pace of repetitions, of a loop with a queue.
    #[cfg(test)]
    fn rate_limit(&self) -> Option<RateLimit> {
        None
    }
}

/// A controller that reconciles one key at a time; singletons use the key `()`.
///
/// A reconciliation may stop between any two of its calls: all intent lives in the API server, and the next one continues (Law 6).
pub(crate) trait Reconciler: Send + Sync + 'static {
    /// What a reconciliation is about, usually an object's name.
    type Key: Key;

    /// The loop's name, queue and number of workers.
    fn work(&self) -> &WorkLoop<Self::Key>;

    /// Updates what the controller remembers about objects, before [`keys_of`](Self::keys_of) sees the same change.
    fn observe(&self, _change: &Change) {}

    /// The keys to reconcile because of a change.
    fn keys_of(&self, _change: &Change) -> Vec<Self::Key> {
        Vec::new()
    }

    /// Brings the object with this key one step closer to what it should be.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send;

    /// Work beside the loop, such as a watch of a kind only this controller reads. Ends when `shutdown` is cancelled.
    fn beside(&self, _shutdown: CancellationToken) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The queue of a [`Reconciler`] and how its loop runs.
pub(crate) struct WorkLoop<K> {
    name: &'static str,
    controller: Controller,
    queue: Queue<K>,
    #[cfg(test)]
    limit: RateLimit,
    collect: Duration,
    /// The key that is reconciled when the loop starts, besides those of the announced objects.
    first: Option<K>,
    stopping: CancellationToken,
}

impl WorkLoop<()> {
    /// A loop without keys: it runs once when it starts, and then as often as its outcome says.
    pub(crate) fn singleton(context: &Context, name: &'static str, limit: RateLimit) -> Self {
        Self {
            first: Some(()),
            ..Self::new(context, name, limit)
        }
    }
}

impl<K: Key> WorkLoop<K> {
    /// A loop with one worker; failed keys are retried at the pace of `limit`.
    pub(crate) fn new(context: &Context, name: &'static str, limit: RateLimit) -> Self {
        Self {
            name,
            controller: context.controller(name),
            queue: context.queue(name, limit),
            #[cfg(test)]
            limit,
            collect: Duration::ZERO,
            first: None,
            stopping: CancellationToken::new(),
        }
    }

    /// Names the reconciled kind in log lines (OPS-215).
    pub(crate) fn for_kind<O: Resource<DynamicType = ()>>(mut self) -> Self {
        self.controller = self.controller.for_kind(O::group(&()), O::kind(&()));
        self
    }

    /// How many keys are reconciled at once.
    pub(crate) fn workers(mut self, workers: usize) -> Self {
        self.controller = self.controller.workers(workers);
        self
    }

    /// Delays keys of changes, so that many changes within this time cost one reconciliation.
    pub(crate) fn collect(mut self, time: Duration) -> Self {
        self.collect = time;
        self
    }

    /// Adds a key for another reason than a change.
    pub(crate) fn add(&self, key: K) {
        self.queue.add(key);
    }

    /// Cancelled when the loop has to stop: for reconciliations that wait or compute for long.
    pub(crate) const fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }
}

#[async_trait]
impl<R: Reconciler> LeaderTask for R {
    fn name(&self) -> &'static str {
        self.work().name
    }

    #[cfg(test)]
    fn rate_limit(&self) -> Option<RateLimit> {
        Some(self.work().limit)
    }

    fn notify(&self, change: &Change) {
        self.observe(change);
        let work = self.work();
        for key in self.keys_of(change) {
            if work.collect.is_zero() {
                work.queue.add_with(key, priority(change));
            } else {
                work.queue.add_after(key, work.collect);
            }
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let work = self.work();
        if let Some(key) = &work.first {
            work.add(key.clone());
        }
        let stop = async {
            shutdown.cancelled().await;
            work.stopping.cancel();
        };
        let reconcile = |this: Arc<R>, key: R::Key| async move { this.reconcile(&key).await };
        let (controller, queue) = (work.controller.clone(), work.queue.clone());
        let reconciliations = controller.run(queue, Arc::clone(&self), reconcile, shutdown.clone());
        tokio::join!(stop, self.beside(shutdown.clone()), reconciliations);
    }
}

/// How urgent work that follows from a change is (OPS-101).
const fn priority(change: &Change) -> Priority {
    match change {
        Change::Pod(pod) => pod.priority(),
        Change::Node(node) => node.priority(),
        Change::Claim(claim) => claim.priority(),
        Change::Pool(pool) => pool.priority(),
        Change::Overlay(overlay) => overlay.priority(),
        Change::Buffer(buffer) => buffer.priority(),
        Change::Class(class) => class.priority(),
    }
}
