//! Writes to `status.nominatedNodeName` where pods are planned, once the planned node takes pods.
//!
//! kube-scheduler tries the nominated node first and keeps its room from pods of at most the same priority. Without that it places waiting
//! pods as it likes, and every pod that finds its machine full costs another one.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kerf_api::conditions::node_claim::INITIALIZED;
use kerf_api::conditions::pod::{NOMINATED, PLANNED_ONTO_NODE};
use kerf_api::status::Conditioned;
use kerf_api::taints::NOT_READY;
use kerf_model::pod::Pod;
use kerf_model::taint::{Effect, Taint};
use kerf_runtime::client::{ApiErrorKind, Part, Written, send_patch};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use kerf_state::WaitingPod;
use kerf_state::lean::LeanNode;
use kube::Api;
use kube::api::Patch;
use serde_json::{Value, json};

use super::nomination::{NominationStep, step};
use crate::changes::Change;
use crate::claim_facts;
use crate::cluster::startup_taints;
use crate::context::Context;
use crate::deadline::rfc3339;
use crate::lifecycle::{closed_gate, is_ready};
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "provisioner.nominator";
/// How many writes run in parallel. kube-scheduler starts to bind pods when the node is ready, so all pods of a node should be nominated after
/// one call's time. The client's own limit sets the pace.
const WRITES: usize = 50;
/// The largest number of writes in one round. Then the nodes that take pods are computed anew, as pods are bound meanwhile.
const ROUND: usize = 200;
/// The time after which pods that changed during a write are tried again.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Nominates pods to the nodes they are planned onto.
pub(crate) struct Nominator {
    context: Context,
    work: WorkLoop<()>,
    /// The resource version of the last write to each pod, by the pod's uid. An older version in the cache does not show that write yet.
    written: Mutex<BTreeMap<Arc<str>, u64>>,
}

/// A pod and the change of its nomination.
struct Write {
    waiting: WaitingPod,
    step: NominationStep,
}

/// A node that has started, with the taints that keep pods away.
struct Usable {
    name: Arc<str>,
    taints: Vec<Taint>,
}

impl Usable {
    fn takes(&self, pod: &Pod) -> bool {
        let tolerations = &pod.shape.tolerations;
        let tolerated = |taint: &Taint| tolerations.iter().any(|toleration| toleration.tolerates(taint));
        self.taints.iter().all(tolerated)
    }
}

impl Nominator {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, NAME, RateLimit::DEFAULT).for_kind::<ApiPod>(),
            context: context.clone(),
            written: Mutex::default(),
        })
    }

    /// Requests a round over all waiting pods, after a pass has planned them anew.
    pub(crate) fn run_round(&self) {
        if !self.context.nominated_pods_max().is_none() {
            self.work.add(());
        }
    }

    fn is_refused(&self) -> bool {
        self.context.nominations_refused.load(Ordering::Relaxed)
    }

    fn written(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, u64>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writes that are due.
    fn writes(&self) -> Vec<Write> {
        let waiting = self.context.cluster.waiting_pods();
        let mut written = self.written();
        let seen = |waiting: &WaitingPod| {
            let version = written.get(&waiting.pod.uid).copied();
            version.is_none_or(|version| waiting.version >= version)
        };
        let (seen, unseen): (Vec<_>, Vec<_>) = waiting.into_iter().partition(seen);
        let unseen = unseen.iter().map(|waiting| &waiting.pod.uid);
        *written = unseen
            .filter_map(|uid| Some((Arc::clone(uid), *written.get(uid)?)))
            .collect();
        drop(written);
        let mut nodes: BTreeMap<Arc<str>, Option<Usable>> = BTreeMap::new();
        let mut writes = Vec::new();
        for waiting in seen {
            let node = waiting.claim.as_ref().and_then(|claim| {
                let node = nodes
                    .entry(Arc::clone(claim))
                    .or_insert_with(|| self.usable_node(claim));
                node.as_ref()
            });
            let node = node.filter(|node| node.takes(&waiting.pod));
            let step = step(&waiting.nomination, node.map(|node| &node.name), waiting.nominated);
            if let Some(step) = step {
                writes.push(Write { waiting, step });
            }
        }
        writes
    }

    /// The Node of a claim, if it has started and neither is to go. The taint of a node that was not ready is removed right after it is ready:
    /// pods are nominated before kube-scheduler sees the node without it.
    fn usable_node(&self, claim: &str) -> Option<Usable> {
        let cluster = &self.context.cluster;
        let claim = cluster.claim(claim).filter(|claim| !claim_facts::is_deleting(claim))?;
        let nodes = cluster.nodes_by_provider_id(claim_facts::provider_id(&claim)?);
        let [node] = nodes.as_slice() else { return None };
        let mut node = LeanNode::clone(node);
        node.spec.taints.retain(|taint| taint.key != NOT_READY);
        let startup_taints = startup_taints(&self.context.options);
        if node.metadata.deletion_timestamp.is_some() || closed_gate(&claim, Some(&node), &startup_taints).is_some() {
            return None;
        }
        Some(Usable {
            name: node.metadata.name.as_deref()?.into(),
            taints: repelling_taints(&node),
        })
    }

    /// Writes a nomination. Returns false if the pod has changed meanwhile.
    async fn write(&self, write: &Write) -> Result<bool, kube::Error> {
        if self.is_refused() {
            return Ok(true);
        }
        let pod = &write.waiting.pod;
        let api: Api<ApiPod> = Api::namespaced(self.context.client.clone(), &pod.namespace);
        let patch = Patch::Strategic(self.patch(write));
        let error = match send_patch(&api, &pod.name, Part::Status, &patch).await {
            Ok(Written::Gone | Written::Unchanged) => return Ok(true),
            Ok(Written::Stored(stored)) => {
                let version = stored
                    .metadata
                    .resource_version
                    .and_then(|version| version.parse().ok());
                self.written()
                    .extend(version.map(|version| (Arc::clone(&pod.uid), version)));
                return Ok(true);
            }
            Err(error) => error,
        };
        match ApiErrorKind::of(&error) {
            ApiErrorKind::Conflict => Ok(false),
            ApiErrorKind::Forbidden => {
                if !self.context.nominations_refused.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        %error,
                        "pods are not nominated to the nodes they are planned onto; allow the verb patch on pods/status to Kerf's role, or set --nominated-pods-max=0"
                    );
                }
                Ok(true)
            }
            _ => Err(error),
        }
    }

    /// The patch of a pod's status. It is refused if the pod has changed, so that no bound pod and no nomination of others is written.
    fn patch(&self, write: &Write) -> Value {
        let WaitingPod { pod, version, .. } = &write.waiting;
        let status = match &write.step {
            NominationStep::Clear => json!({"nominatedNodeName": null}),
            NominationStep::Nominate(node) => json!({"nominatedNodeName": node, "conditions": [{
                "type": NOMINATED, "status": "True", "reason": PLANNED_ONTO_NODE, "message": node,
                "lastTransitionTime": rfc3339(self.context.now()),
            }]}),
        };
        json!({"metadata": {"uid": pod.uid, "resourceVersion": version.to_string()}, "status": status})
    }
}

/// The taints that keep pods without a toleration off a node.
fn repelling_taints(node: &LeanNode) -> Vec<Taint> {
    let repelling = node.spec.taints.iter().filter_map(|taint| {
        let effect = Effect::parse(&taint.effect).filter(|effect| *effect != Effect::PreferNoSchedule)?;
        Some(Taint {
            key: taint.key.as_str().into(),
            value: taint.value.as_str().into(),
            effect,
        })
    });
    repelling.collect()
}

/// The facts of a node whose change starts a round: whether it is ready, and its taints.
fn readiness(node: &LeanNode) -> (bool, Vec<(String, String)>) {
    let taints = node.spec.taints.iter();
    let taints = taints.map(|taint| (taint.key.clone(), taint.effect.clone()));
    (is_ready(node), taints.collect())
}

impl Reconciler for Nominator {
    type Key = ();

    fn work(&self) -> &WorkLoop<()> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<()> {
        let matters = match change {
            Change::Node(node) => node.differs(readiness),
            // Devices count, too.
            Change::Claim(claim) => claim.differs(|claim| claim.condition_is_true(INITIALIZED)),
            Change::Pod(_) | Change::Pool(_) | Change::Overlay(_) | Change::Buffer(_) | Change::Class(_) => false,
        };
        if matters { vec![()] } else { Vec::new() }
    }

    async fn reconcile(&self, _key: &()) -> Result<Outcome, ReconcileError> {
        if self.is_refused() {
            return Ok(Outcome::Done);
        }
        let mut writes = self.writes();
        let rest = writes.len() > ROUND;
        writes.truncate(ROUND);
        let patches: Vec<_> = writes.iter().map(|write| self.write(write)).collect();
        let patches = futures::stream::iter(patches).buffer_unordered(WRITES);
        let answers: Vec<Result<bool, kube::Error>> = patches.collect().await;
        let mut changed = false;
        for answer in answers {
            changed |= !answer?;
        }
        Ok(match (rest, changed) {
            (true, _) => Outcome::RequeueAfter(Duration::ZERO),
            (false, true) => Outcome::RequeueAfter(RETRY_AFTER),
            (false, false) => Outcome::Done,
        })
    }
}
