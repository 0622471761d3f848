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

/// SCH-042: workers at the least and at the most.
const WORKERS: (usize, usize) = (10, 1000);
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
        cluster.note_times(&pod, |times| times.acknowledge(&key.namespace, &key.name, now));
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
        let workers = self.context.workers(WORKERS.0, WORKERS.1);
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
        let workers = self.context.workers(WORKERS.0, WORKERS.1);
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

#[cfg(test)]
mod tests {
    use super::*;

    // SCH-042
    #[test]
    fn workers_grow_with_cores_from_one_to_sixty() {
        let table = [
            (1, 10),
            (1000, 10),
            (1001, 26),
            (2000, 26),
            (30_000, 496),
            (60_000, 1000),
            (90_000, 1000),
        ];
        for (millicores, workers) in table {
            assert_eq!(
                kerf_runtime::workers(millicores, WORKERS.0, WORKERS.1),
                workers,
                "{millicores}"
            );
        }
    }

    // SCH-035
    #[test]
    fn only_the_taint_of_a_node_that_is_to_go_triggers() {
        let node = |taints: &str, deleted: bool| -> LeanNode {
            let deletion = if deleted {
                r#","deletionTimestamp":"2026-01-01T00:00:00Z""#
            } else {
                ""
            };
            serde_json::from_str(&format!(
                r#"{{"metadata":{{"name":"n"{deletion}}},"spec":{{"taints":{taints}}}}}"#
            ))
            .expect("a node")
        };
        let table = [
            (
                r#"[{"key":"karpenter.sh/disrupted","effect":"NoSchedule"}]"#,
                false,
                true,
            ),
            (
                r#"[{"key":"karpenter.sh/disrupted","value":"x","effect":"NoSchedule"}]"#,
                false,
                true,
            ),
            (
                r#"[{"key":"karpenter.sh/disrupted","effect":"NoExecute"}]"#,
                false,
                false,
            ),
            (r#"[{"key":"team","effect":"NoSchedule"}]"#, false, false),
            ("[]", true, false),
        ];
        for (taints, deleted, triggers) in table {
            assert_eq!(is_disrupted(&node(taints, deleted)), triggers, "{taints}");
        }
    }
}
