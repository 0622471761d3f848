//! The loop around Nodes that are being deleted (LIF-081).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use kerf_runtime::{CancellationToken, Outcome, Queue, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;
use kube::Resource;

use super::attachments::Attachments;
use super::eviction::Evictions;
use super::pass::Pass;
use crate::changes::Change;
use crate::claim_facts;
use crate::context::Context;
use crate::reconciler::Reconciler;

const NAME: &str = "node.termination";
/// LIF-223.
const WORKERS: (usize, usize) = (100, 5000);

/// Drains Nodes and ends their instances.
pub(crate) struct Termination {
    pub(super) context: Context,
    pub(super) evictions: Arc<Evictions>,
    pub(super) attachments: Attachments,
    queue: Queue<String>,
    /// Uids of Nodes that were let go and may still be in the cache; forgotten when the Node is.
    released: Mutex<BTreeSet<String>>,
}

impl Termination {
    pub(crate) fn new(context: &Context, evictions: Arc<Evictions>) -> Arc<Self> {
        let workers = context.workers(WORKERS.0, WORKERS.1);
        let limit = RateLimit::exponential(Duration::from_millis(100), Duration::from_secs(10));
        Arc::new(Self {
            context: context.clone(),
            evictions,
            attachments: Attachments::new(context.client.clone()),
            queue: context.queue(NAME, limit.with_worker_bucket(workers, 10, 100)),
            released: Mutex::default(),
        })
    }

    async fn reconcile(&self, name: String) -> Result<Outcome, ReconcileError> {
        let Some(node) = self.context.cluster.node(&name).filter(|node| self.is_ours(node)) else {
            return Ok(Outcome::Done);
        };
        Pass::new(self, &node).run().await
    }

    /// Whether the Node is going, waits for us, and is of a class the provider serves (LIF-081, LIF-242).
    fn is_ours(&self, node: &LeanNode) -> bool {
        let labels = node.metadata.labels.as_ref();
        let classes = &self.context.provider.profile().node_classes;
        let served = classes
            .iter()
            .any(|class| labels.is_some_and(|labels| labels.contains_key(&class.label_key())));
        let released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        served
            && node.metadata.deletion_timestamp.is_some()
            && claim_facts::is_guarded(&node.metadata)
            && !released.contains(node.metadata.uid.as_deref().unwrap_or_default())
    }

    /// Notes that a Node was let go, so that an old view of it does not end it twice.
    pub(super) fn note_released(&self, node: &LeanNode) {
        let mut released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        released.insert(node.metadata.uid.clone().unwrap_or_default());
    }
}

#[async_trait]
impl Reconciler for Termination {
    fn name(&self) -> &'static str {
        NAME
    }

    fn notify(&self, change: &Change) {
        let Change::Node(diff) = change else { return };
        match diff.after.as_deref() {
            Some(node) if node.metadata.deletion_timestamp.is_some() => {
                self.queue.add_with(diff.name().to_owned(), diff.priority());
            }
            Some(_) => {}
            None => {
                let uid = diff
                    .last()
                    .and_then(|node| node.metadata.uid.clone())
                    .unwrap_or_default();
                self.released
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(&uid);
            }
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let controller = self.context.controller(NAME);
        let controller = controller
            .for_kind(Node::group(&()), Node::kind(&()))
            .workers(self.context.workers(WORKERS.0, WORKERS.1));
        let queue = self.queue.clone();
        let reconcile = move |name| {
            let this = Arc::clone(&self);
            async move { this.reconcile(name).await }
        };
        controller.run(queue, reconcile, shutdown).await;
    }
}
