//! Evicts pods, each with its own back-off (LIF-107 to LIF-113).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kerf_api::conditions::node_claim::DISRUPTION_REASON;
use kerf_api::status::Conditioned;
use kerf_runtime::client::{ApiErrorKind, describe, uid_precondition};
use kerf_runtime::metrics::catalogue::{PODS_DRAINED, PODS_EVICTION_REQUESTS};
use kerf_runtime::{Event, EventType, Key, ObjectRef, Outcome, RateLimit, ReconcileError};
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Client};
use serde_json::json;

use crate::changes::Change;
use crate::context::Context;
use crate::pod_reference::pod_ref;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "eviction-queue";
/// Parallel reconciliations, as upstream has it: at least and at most (LIF-223).
const WORKERS: (usize, usize) = (100, 5000);
/// The reason of evictions of a claim without a disruption reason (LIF-111).
const FORCEFUL: &str = "Forceful Termination";

/// A pod to evict; the uid prevents the eviction of another pod of the same name (LIF-107).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct EvictionKey {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Its uid.
    pub(crate) uid: String,
    /// The Node it is to leave.
    pub(crate) node: String,
}

impl Key for EvictionKey {
    fn namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }
    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

/// The state of an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Not accepted yet.
    Wanted,
    /// Accepted. Kept until the cache shows the pod's deletion, so that the drain does not add it again before.
    Accepted,
}

/// The meaning of an answer to an eviction.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Answer {
    Accepted,
    /// Gone, or another pod by now (LIF-112).
    Gone,
    /// Refused for now: publish an event on the Node and try again (LIF-113).
    Refused(&'static str),
    /// Anything else.
    Failed,
}

/// The pods to evict, for the drains of all nodes: at most all pods of the nodes that are draining.
pub(crate) struct Evictions {
    context: Context,
    work: WorkLoop<EvictionKey>,
    wanted: Mutex<BTreeMap<EvictionKey, Stage>>,
}

impl Evictions {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        let workers = context.workers(WORKERS.0, WORKERS.1);
        let limit = RateLimit::exponential(Duration::from_millis(100), Duration::from_secs(10));
        Arc::new(Self {
            context: context.clone(),
            // LIF-108
            work: WorkLoop::new(context, NAME, limit.with_worker_bucket(workers, 100, 100))
                .for_kind::<Pod>()
                .workers(workers),
            wanted: Mutex::default(),
        })
    }

    /// Adds a pod; one that is there already keeps its back-off.
    pub(crate) fn add(&self, key: EvictionKey) {
        if self.locked().contains_key(&key) {
            return;
        }
        self.locked().insert(key.clone(), Stage::Wanted);
        self.work.add(key);
    }

    /// Whether the pod may still be evicted. Since the drain added it, do-not-disrupt may have been set (LIF-104), or the clock may have been
    /// set back to a time at which it holds. The drain adds the pod again when the protection has ended.
    fn may_go(&self, key: &EvictionKey) -> bool {
        let judged_at = self.context.jump_guard.judged_at();
        let pod = self.context.cluster.pod(&key.namespace, &key.name);
        pod.is_some_and(|pod| *pod.uid == *key.uid && kerf_disruption::evictable(&pod, judged_at))
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<EvictionKey, Stage>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes that a pod was evicted, and why (LIF-110).
    fn report_evicted(&self, key: &EvictionKey) {
        let reason = self.reason(&key.node);
        self.context.metrics.counter(&PODS_DRAINED).inc(&[&reason]);
        self.context.recorder.publish(Event {
            object: pod_ref(&key.namespace, &key.name, &key.uid),
            kind: EventType::Normal,
            reason: "Evicted".into(),
            message: format!("Evicted pod: {reason}"),
            dedupe: vec![key.name.clone()],
            dedupe_timeout: None,
        });
    }

    fn report_refused(&self, key: &EvictionKey, why: &str) {
        let node = self.context.cluster.node(&key.node);
        let Some(object) = node.as_deref().and_then(ObjectRef::of) else {
            return;
        };
        self.context.recorder.publish(Event {
            object,
            kind: EventType::Warning,
            reason: "FailedDraining".into(),
            message: format!("Failed to drain node, {why} (Pod={}/{})", key.namespace, key.name),
            // Upstream uses the deduplication key of the drain's own event, which is published every second and would suppress this one.
            dedupe: vec![key.node.clone(), key.namespace.clone(), key.name.clone()],
            dedupe_timeout: None,
        });
    }

    /// Why the pod has to leave (LIF-111).
    fn reason(&self, node: &str) -> String {
        let cluster = &self.context.cluster;
        let id = cluster
            .node(node)
            .map(|node| node.spec.provider_id.clone())
            .filter(|id| !id.is_empty());
        let claims = id.map(|id| cluster.claims_by_provider_id(&id)).unwrap_or_default();
        let [claim] = claims.as_slice() else {
            return String::new();
        };
        let given = claim
            .condition(DISRUPTION_REASON)
            .filter(|condition| condition.is_true());
        given.map_or(FORCEFUL, |condition| condition.reason()).to_owned()
    }
}

/// Asks for the eviction of exactly this pod. `Api::evict` writes the options under a name the API server does not know, so the uid would
/// be ignored.
async fn evict(client: &Client, key: &EvictionKey) -> Result<Status, kube::Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "deleteOptions": uid_precondition(&key.uid),
    });
    api.create_subresource("eviction", &key.name, &PostParams::default(), &eviction)
        .await
}

fn meaning<T>(result: &Result<T, kube::Error>) -> Answer {
    let Err(error) = result else {
        return Answer::Accepted;
    };
    match ApiErrorKind::of(error) {
        ApiErrorKind::NotFound | ApiErrorKind::Conflict => Answer::Gone,
        ApiErrorKind::TooManyRequests => Answer::Refused("evicting pod violates a PDB"),
        // The API has no separate code for this.
        _ if describe(error).contains("more than one PodDisruptionBudget") => {
            Answer::Refused("eviction does not support multiple PDBs")
        }
        _ => Answer::Failed,
    }
}

impl Reconciler for Evictions {
    type Key = EvictionKey;

    fn work(&self) -> &WorkLoop<EvictionKey> {
        &self.work
    }

    /// Forgets pods that are being deleted, gone, or have another uid now.
    fn observe(&self, change: &Change) {
        let Change::Pod(pod) = change else { return };
        let mut wanted = self.locked();
        if wanted.is_empty() {
            return;
        }
        let first = EvictionKey {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: String::new(),
            node: String::new(),
        };
        let stays = pod.after.as_ref().filter(|facts| !facts.terminating && !facts.terminal);
        let settled: Vec<EvictionKey> = wanted
            .range(first..)
            .map(|(key, _)| key)
            .take_while(|key| key.namespace == *pod.namespace && key.name == *pod.name)
            .filter(|key| stays.is_none_or(|facts| *facts.uid != *key.uid))
            .cloned()
            .collect();
        for key in settled {
            wanted.remove(&key);
        }
    }

    async fn reconcile(&self, key: &EvictionKey) -> Result<Outcome, ReconcileError> {
        if self.locked().get(key) != Some(&Stage::Wanted) {
            return Ok(Outcome::Done);
        }
        if !self.may_go(key) {
            self.locked().remove(key);
            return Ok(Outcome::Done);
        }
        let result = evict(&self.context.client, key).await;
        let code = match &result {
            Ok(_) => Some("200".to_owned()),
            Err(kube::Error::Api(status)) => Some(status.code.to_string()),
            // LIF-109: the API server did not answer.
            Err(_) => None,
        };
        if let Some(code) = code {
            self.context.metrics.counter(&PODS_EVICTION_REQUESTS).inc(&[&code]);
        }
        match meaning(&result) {
            Answer::Accepted => {
                // The pod's deletion may have been observed before the answer; then its entry is removed already.
                if let Some(stage) = self.locked().get_mut(key) {
                    *stage = Stage::Accepted;
                }
                self.report_evicted(key);
                Ok(Outcome::Done)
            }
            Answer::Gone => {
                self.locked().remove(key);
                Ok(Outcome::Done)
            }
            Answer::Refused(why) => {
                self.report_refused(key, why);
                Ok(Outcome::Requeue)
            }
            Answer::Failed => match result {
                Err(error) => Err(error.into()),
                Ok(_) => Ok(Outcome::Done),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use kerf_state::lean::LeanPod;
    use kerf_testkit::objects;

    use super::*;
    use crate::cluster::{Cluster, Watched};

    #[tokio::test]
    async fn a_pod_that_is_gone_before_the_answer_is_not_remembered() {
        let pod = || {
            let pod = objects::running(objects::stored("shop", objects::pod("web-0", "1")), "n");
            serde_json::from_value::<LeanPod>(pod).expect("a pod")
        };
        let gone_first = move |cluster: &Cluster| cluster.notify(Watched::delete(cluster, &pod()));
        let answer = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
        let context = Context::answering(&answer, gone_first);
        let evictions = Evictions::new(&context);
        context.follow(&evictions);
        context.cluster.notify(Watched::apply(&context.cluster, pod()));
        let key = EvictionKey {
            namespace: "shop".to_owned(),
            name: "web-0".to_owned(),
            uid: "web-0".to_owned(),
            node: "n".to_owned(),
        };
        evictions.add(key.clone());
        let outcome = evictions.reconcile(&key).await;
        assert!(matches!(outcome, Ok(Outcome::Done)), "{outcome:?}");
        assert!(evictions.locked().is_empty());
    }

    fn refused(code: u16, reason: &str, message: &str) -> Answer {
        meaning::<()>(&Err(kube::Error::Api(
            kube::core::Status::failure(message, reason).with_code(code).boxed(),
        )))
    }

    // LIF-108
    #[tokio::test]
    async fn an_eviction_reaches_no_namesake() {
        let client = Client::new(kerf_apiserver::ApiServer::builder().build(), "default");
        let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
        let pod = |name: &str| {
            let containers = json!([{"name": "main", "image": "db"}]);
            let pod = json!({"metadata": {"name": name}, "spec": {"containers": containers, "terminationGracePeriodSeconds": 77}});
            serde_json::from_value::<Pod>(pod).expect("a pod")
        };
        let created = pods
            .create(&PostParams::default(), &pod("db-0"))
            .await
            .expect("created");
        let uid = created.metadata.uid.expect("a uid");
        let key = |uid: &str| EvictionKey {
            namespace: "default".to_owned(),
            name: "db-0".to_owned(),
            uid: uid.to_owned(),
            node: "n".to_owned(),
        };
        let of_another = evict(&client, &key("00000000-0000-4000-8000-000000000000")).await;
        assert_eq!(meaning(&of_another), Answer::Gone);
        assert!(pods.get_opt("db-0").await.expect("an answer").is_some(), "it stays");
        assert_eq!(meaning(&evict(&client, &key(&uid)).await), Answer::Accepted);
        assert!(pods.get_opt("db-0").await.expect("an answer").is_none(), "it went");
        // One that a kubelet runs has the time it asked for.
        let mut running = pod("db-0");
        running.spec.get_or_insert_default().node_name = Some("n".to_owned());
        let running = pods.create(&PostParams::default(), &running).await.expect("created");
        let uid = running.metadata.uid.expect("a uid");
        assert_eq!(meaning(&evict(&client, &key(&uid)).await), Answer::Accepted);
        let left = pods
            .get_opt("db-0")
            .await
            .expect("an answer")
            .expect("its kubelet ends it");
        assert_eq!(left.metadata.deletion_grace_period_seconds, Some(77));
    }

    #[test]
    fn answers_are_distinguished() {
        assert_eq!(meaning(&Ok(())), Answer::Accepted);
        // LIF-112
        assert_eq!(refused(404, "NotFound", "pods \"web\" not found"), Answer::Gone);
        assert_eq!(refused(409, "Conflict", "the UID in the precondition"), Answer::Gone);
        // LIF-113
        assert_eq!(
            refused(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget."
            ),
            Answer::Refused("evicting pod violates a PDB")
        );
        let several =
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert_eq!(
            refused(500, "InternalError", several),
            Answer::Refused("eviction does not support multiple PDBs")
        );
        assert_eq!(refused(500, "InternalError", "etcd"), Answer::Failed);
        assert_eq!(refused(403, "Forbidden", "no"), Answer::Failed);
    }
}
