//! What starts a batch: pods that wait for capacity, and nodes that are about to lose theirs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kerf_api::taints;
use kerf_runtime::{CancellationToken, ObjectKey, Outcome, Queue, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;

use super::batch::Batcher;
use crate::changes::Change;
use crate::context::Context;
use crate::reconciler::Reconciler;

/// How often a pod or node that still waits is looked at again.
const AGAIN: Duration = Duration::from_secs(10);

/// Triggers for pods (SCH-034), and for claims that went before they were launched: their pods need another place at once.
pub(crate) struct PodTrigger {
    context: Context,
    batcher: Batcher,
    queue: Queue<ObjectKey>,
}

impl PodTrigger {
    /// A trigger of that batcher.
    pub(crate) fn new(context: &Context, batcher: &Batcher) -> Arc<Self> {
        Arc::new(Self {
            queue: context.queue("provisioner.trigger.pod", RateLimit::DEFAULT),
            context: context.clone(),
            batcher: batcher.clone(),
        })
    }

    fn reconcile(&self, key: &ObjectKey) -> Outcome {
        let cluster = &self.context.cluster;
        let Some(pod) = cluster.pod(&key.namespace, &key.name) else {
            return Outcome::Done;
        };
        if !cluster.is_provisionable(&key.namespace, &key.name) {
            return Outcome::Done;
        }
        let now = self.context.now();
        cluster.with_times(|times| times.acknowledge(&key.namespace, &key.name, now));
        if cluster.promised_to(&pod).is_none() {
            self.batcher.trigger(Arc::clone(&pod.uid));
        }
        Outcome::RequeueAfter(AGAIN)
    }
}

#[async_trait]
impl Reconciler for PodTrigger {
    fn name(&self) -> &'static str {
        "provisioner.trigger.pod"
    }

    fn notify(&self, change: &Change) {
        match change {
            Change::Pod(pod) if pod.after.as_ref().is_some_and(|facts| facts.provisionable) => {
                let key = ObjectKey::new(&*pod.namespace, &*pod.name);
                self.queue.add_with(key, pod.priority());
            }
            Change::Claim(claim) => {
                let unlaunched = |claim: &kerf_api::NodeClaim| {
                    let status = claim.status.as_ref();
                    status.and_then(|status| status.provider_id.as_deref()).is_none()
                };
                let going = claim.is_gone() || claim.differs(|claim| claim.metadata.deletion_timestamp.is_some());
                if going && !claim.is_new() && claim.last().is_some_and(|claim| unlaunched(claim)) {
                    self.batcher.trigger(format!("nodeclaim/{}", claim.name()).into());
                }
            }
            Change::Pod(_) | Change::Node(_) | Change::Pool(_) | Change::Overlay(_) | Change::Class(_) => {}
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let workers = self.context.workers(10, 1000);
        let controller = self
            .context
            .controller(self.name())
            .for_kind("", "Pod")
            .workers(workers);
        let queue = self.queue.clone();
        let reconcile = move |key: ObjectKey| {
            let this = Arc::clone(&self);
            async move { Ok::<_, ReconcileError>(this.reconcile(&key)) }
        };
        controller.run(queue, reconcile, shutdown).await;
    }
}

/// Triggers for nodes that are being drained (SCH-035).
pub(crate) struct NodeTrigger {
    context: Context,
    batcher: Batcher,
    queue: Queue<String>,
}

impl NodeTrigger {
    /// A trigger of that batcher.
    pub(crate) fn new(context: &Context, batcher: &Batcher) -> Arc<Self> {
        Arc::new(Self {
            queue: context.queue("provisioner.trigger.node", RateLimit::DEFAULT),
            context: context.clone(),
            batcher: batcher.clone(),
        })
    }

    fn reconcile(&self, name: &str) -> Outcome {
        match self.context.cluster.node(name).filter(|node| is_disrupted(node)) {
            Some(node) => {
                self.batcher
                    .trigger(node.metadata.uid.as_deref().unwrap_or(name).into());
                Outcome::RequeueAfter(AGAIN)
            }
            None => Outcome::Done,
        }
    }
}

/// Whether a node carries the taint of a node that is to go.
fn is_disrupted(node: &LeanNode) -> bool {
    let disrupted = taints::disrupted();
    let mut taints = node.spec.taints.iter();
    taints.any(|taint| taint.key == disrupted.key && taint.effect == disrupted.effect)
}

#[async_trait]
impl Reconciler for NodeTrigger {
    fn name(&self) -> &'static str {
        "provisioner.trigger.node"
    }

    fn notify(&self, change: &Change) {
        if let Change::Node(node) = change
            && node.after.as_deref().is_some_and(is_disrupted)
        {
            self.queue.add_with(node.name().to_owned(), node.priority());
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let workers = self.context.workers(10, 1000);
        let controller = self
            .context
            .controller(self.name())
            .for_kind("", "Node")
            .workers(workers);
        let queue = self.queue.clone();
        let reconcile = move |name: String| {
            let this = Arc::clone(&self);
            async move { Ok::<_, ReconcileError>(this.reconcile(&name)) }
        };
        controller.run(queue, reconcile, shutdown).await;
    }
}
