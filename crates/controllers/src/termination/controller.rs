//! The controller of Nodes that are being deleted (LIF-081).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;
use tokio::time::Instant;

use super::attachments::Attachments;
use super::eviction::Evictions;
use super::pass::Pass;
use crate::changes::Change;
use crate::claim_facts;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "node.termination";
/// Parallel reconciliations, as upstream has it: at least and at most (LIF-223).
const WORKERS: (usize, usize) = (100, 5000);

/// Drains Nodes and terminates their instances.
pub(crate) struct Termination {
    pub(super) context: Context,
    pub(super) evictions: Arc<Evictions>,
    pub(super) attachments: Attachments,
    work: WorkLoop<String>,
    /// Uids of Nodes whose finalizer was removed and that may still be in the cache.
    released: Mutex<BTreeSet<String>>,
    /// The time at which this process began to drain each tainted Node, by the Node's uid.
    drains_began: Mutex<BTreeMap<String, Instant>>,
}

impl Termination {
    pub(crate) fn new(context: &Context, evictions: Arc<Evictions>) -> Arc<Self> {
        let workers = context.workers(WORKERS.0, WORKERS.1);
        let limit = RateLimit::exponential(Duration::from_millis(100), Duration::from_secs(10));
        Arc::new(Self {
            context: context.clone(),
            evictions,
            attachments: Attachments::new(context.client.clone()),
            work: WorkLoop::new(context, NAME, limit.with_worker_bucket(workers, 10, 100))
                .for_kind::<Node>()
                .workers(workers),
            released: Mutex::default(),
            drains_began: Mutex::default(),
        })
    }

    /// Whether the Node is being deleted, has our finalizer, and is of a node class the provider serves (LIF-081, LIF-242).
    fn is_ours(&self, node: &LeanNode) -> bool {
        let labels = node.metadata.labels.as_ref();
        let classes = &self.context.provider.profile().node_classes;
        let served = classes
            .iter()
            .any(|class| labels.is_some_and(|labels| labels.contains_key(&class.label_key())));
        served
            && node.metadata.deletion_timestamp.is_some()
            && claim_facts::is_guarded(&node.metadata)
            && !self.is_released(node)
    }

    fn is_released(&self, node: &LeanNode) -> bool {
        let uid = node.metadata.uid.as_deref();
        uid.is_some_and(|uid| self.released().contains(uid))
    }

    /// Remembers that the finalizer of the Node with this uid was removed, so that its cached state does not end it twice.
    pub(super) fn note_released(&self, uid: &str) {
        self.released().insert(uid.to_owned());
    }

    /// Undoes [`note_released`](Self::note_released).
    pub(super) fn forget_released(&self, uid: &str) {
        self.released().remove(uid);
    }

    /// The time since this process began to drain the tainted Node with this uid (LIF-087), zero at the first call.
    pub(super) fn tainted_for(&self, uid: &str) -> Duration {
        let mut began = self.drains_began();
        began.entry(uid.to_owned()).or_insert_with(Instant::now).elapsed()
    }

    fn drains_began(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.drains_began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn released(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconciler for Termination {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn observe(&self, change: &Change) {
        if let Change::Node(node) = change
            && node.is_gone()
            && let Some(uid) = node.last().and_then(|node| node.metadata.uid.as_deref())
        {
            self.forget_released(uid);
            self.drains_began().remove(uid);
        }
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Node(node) => {
                let is_deleting = |node: &Arc<LeanNode>| node.metadata.deletion_timestamp.is_some();
                let node = node.after.as_ref().filter(|node| is_deleting(node));
                node.and_then(|node| node.metadata.name.clone()).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let Some(node) = self.context.cluster.node(name).filter(|node| self.is_ours(node)) else {
            return Ok(Outcome::Done);
        };
        Pass::new(self, &node)?.run().await
    }
}

#[cfg(test)]
mod tests {
    use kerf_cloud::FAKE_NODE_CLASS;
    use serde_json::json;

    use super::*;
    use crate::cluster::{Cluster, Watched};

    /// A Node that is being deleted and whose machine no claim has.
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
        context.cluster.notify(Watched::apply(&context.cluster, going()));
        let outcome = termination.reconcile(&"n".to_owned()).await;
        (termination, outcome)
    }

    #[tokio::test]
    async fn a_node_is_let_go_once_and_forgotten_when_it_is_gone() {
        let answer = json!({"metadata": {"name": "n"}});
        let (termination, outcome) = released(&Context::answering(&answer, |_| {})).await;
        assert!(matches!(outcome, Ok(Outcome::Done)), "{outcome:?}");
        assert!(!termination.is_ours(&going()), "an old view of it");
        let gone_first = |cluster: &Cluster| cluster.notify(Watched::delete(cluster, &going()));
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
