//! Starts batches: for pods that wait for capacity, and for nodes whose pods will need another place.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kerf_api::taints;
use kerf_runtime::{ObjectKey, Outcome, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;

use super::batch::Batcher;
use crate::changes::Change;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

/// The smallest and the largest number of workers (SCH-042).
const WORKERS: (usize, usize) = (10, 1000);
/// The time after which a pod or node that still waits triggers again.
const TRIGGER_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Triggers for pods (SCH-034), and for claims that were deleted before their launch: their pods need another place at once.
pub(crate) struct PodTrigger {
    context: Context,
    batcher: Batcher,
    work: WorkLoop<ObjectKey>,
}

impl PodTrigger {
    /// A trigger of that batcher.
    pub(crate) fn new(context: &Context, batcher: &Batcher) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, "provisioner.trigger.pod", RateLimit::DEFAULT)
                .for_kind::<Pod>()
                .workers(context.workers(WORKERS.0, WORKERS.1)),
            context: context.clone(),
            batcher: batcher.clone(),
        })
    }

    fn look(&self, key: &ObjectKey) -> Outcome {
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
        Outcome::RequeueAfter(TRIGGER_AGAIN_AFTER)
    }
}

impl Reconciler for PodTrigger {
    type Key = ObjectKey;

    fn work(&self) -> &WorkLoop<ObjectKey> {
        &self.work
    }

    /// Starts a batch for the pods of a claim that was deleted before its launch, and keeps one open while pods arrive.
    fn observe(&self, change: &Change) {
        if let Change::Pod(pod) = change {
            let was_untried = pod.before.as_ref().is_some_and(|facts| facts.untried);
            if let Some(now) = pod.after.as_ref().filter(|facts| facts.untried && !was_untried) {
                self.batcher.arrived(Arc::clone(&now.uid));
            }
        }
        let Change::Claim(claim) = change else { return };
        let unlaunched = |claim: &kerf_api::NodeClaim| {
            let status = claim.status.as_ref();
            status.and_then(|status| status.provider_id.as_deref()).is_none()
        };
        let going = claim.is_gone() || claim.differs(|claim| claim.metadata.deletion_timestamp.is_some());
        if going && !claim.is_new() && claim.last().is_some_and(|claim| unlaunched(claim)) {
            self.batcher.trigger(format!("nodeclaim/{}", claim.name()).into());
        }
    }

    fn keys_of(&self, change: &Change) -> Vec<ObjectKey> {
        match change {
            Change::Pod(pod) if pod.after.as_ref().is_some_and(|facts| facts.provisionable) => {
                vec![ObjectKey::new(&*pod.namespace, &*pod.name)]
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        Ok(self.look(key))
    }
}

/// Triggers for nodes that are being drained (SCH-035).
pub(crate) struct NodeTrigger {
    context: Context,
    batcher: Batcher,
    work: WorkLoop<String>,
}

impl NodeTrigger {
    /// A trigger of that batcher.
    pub(crate) fn new(context: &Context, batcher: &Batcher) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, "provisioner.trigger.node", RateLimit::DEFAULT)
                .for_kind::<LeanNode>()
                .workers(context.workers(WORKERS.0, WORKERS.1)),
            context: context.clone(),
            batcher: batcher.clone(),
        })
    }

    fn look(&self, name: &str) -> Outcome {
        match self.context.cluster.node(name).filter(|node| is_disrupted(node)) {
            Some(node) => {
                self.batcher
                    .trigger(node.metadata.uid.as_deref().unwrap_or(name).into());
                Outcome::RequeueAfter(TRIGGER_AGAIN_AFTER)
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

impl Reconciler for NodeTrigger {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Node(node) if node.after.as_deref().is_some_and(is_disrupted) => vec![node.name().to_owned()],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        Ok(self.look(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::{PodChange, PodFacts};

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

    /// The time until a batch that one pod opened ends, if another pod comes after 900 ms. The idle time is a second.
    async fn batch_takes(before: Option<bool>, untried: bool) -> Duration {
        let (context, batcher) = (
            Context::without_api(),
            Batcher::new(Duration::from_secs(1), Duration::from_secs(10)),
        );
        let trigger = PodTrigger::new(&context, &batcher);
        let begun = tokio::time::Instant::now();
        batcher.trigger("first".into());
        let coming = async {
            tokio::time::sleep(Duration::from_millis(900)).await;
            let facts = |untried| PodFacts {
                uid: "second".into(),
                node: None,
                terminal: false,
                terminating: false,
                daemon: false,
                provisionable: false,
                untried,
            };
            trigger.observe(&Change::Pod(PodChange {
                namespace: "default".into(),
                name: "second".into(),
                before: before.map(facts),
                after: Some(facts(untried)),
                listed: false,
            }));
        };
        tokio::join!(batcher.wait(), coming);
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_stays_open_for_pods_that_come_and_not_for_other_changes_of_pods() {
        // The clock of tests counts whole milliseconds.
        let near = |took: Duration, expected: u64| took.as_millis().abs_diff(u128::from(expected)) <= 2;
        assert!(near(batch_takes(None, true).await, 1900));
        assert!(near(batch_takes(None, false).await, 1000), "it is bound already");
        assert!(near(batch_takes(Some(true), true).await, 1000), "it came before");
    }
}
