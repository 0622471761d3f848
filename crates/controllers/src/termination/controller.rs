//! The loop around Nodes that are being deleted (LIF-081).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
        served
            && node.metadata.deletion_timestamp.is_some()
            && claim_facts::is_guarded(&node.metadata)
            && !self
                .released()
                .contains(node.metadata.uid.as_deref().unwrap_or_default())
    }

    /// Notes that a Node is let go, so that an old view of it does not end it twice.
    pub(super) fn note_released(&self, node: &LeanNode) {
        self.released().insert(node.metadata.uid.clone().unwrap_or_default());
    }

    /// Takes that back.
    pub(super) fn forget_released(&self, node: &LeanNode) {
        self.released().remove(node.metadata.uid.as_deref().unwrap_or_default());
    }

    fn released(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
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
                if let Some(node) = diff.last() {
                    self.forget_released(node);
                }
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

#[cfg(test)]
mod tests {
    use kerf_cloud::FAKE_NODE_CLASS;
    use serde_json::json;

    use super::*;
    use crate::cluster::{Cluster, Watched};

    /// A Node that is going and whose machine nobody knows.
    fn going() -> LeanNode {
        let label = FAKE_NODE_CLASS.label_key();
        let node = json!({"metadata": {
            "name": "n", "uid": "n", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["karpenter.sh/termination"], "labels": {label: "default"},
        }, "spec": {"providerID": "fake://n"}});
        serde_json::from_value(node).expect("a node")
    }

    async fn released(context: &Context) -> (Arc<Termination>, Result<Outcome, ReconcileError>) {
        let termination = Termination::new(context, Evictions::new(context));
        context.follow(&termination);
        context.cluster.tell(Watched::apply(&context.cluster, going()));
        let outcome = termination.reconcile("n".to_owned()).await;
        (termination, outcome)
    }

    #[tokio::test]
    async fn a_node_is_let_go_once_and_forgotten_when_it_is_gone() {
        let answer = json!({"metadata": {"name": "n"}});
        let (termination, outcome) = released(&Context::answering(&answer, |_| {})).await;
        assert!(matches!(outcome, Ok(Outcome::Done)), "{outcome:?}");
        assert!(!termination.is_ours(&going()), "an old view of it");
        let gone_first = |cluster: &Cluster| cluster.tell(Watched::delete(cluster, &going()));
        let (termination, outcome) = released(&Context::answering(&answer, gone_first)).await;
        assert!(matches!(outcome, Ok(Outcome::Done)), "{outcome:?}");
        assert!(termination.released().is_empty());
    }

    #[tokio::test]
    async fn a_node_that_could_not_be_let_go_is_tried_again() {
        let (termination, outcome) = released(&Context::without_api()).await;
        assert!(outcome.is_err());
        assert!(termination.is_ours(&going()));
    }
}
