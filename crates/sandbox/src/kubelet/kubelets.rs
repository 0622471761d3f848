//! The kubelets as two controllers: one for nodes, one for pods.

use super::node;
use super::options::{FLAP_EVERY, KUBELET, KubeletOptions, NodeSelection, SIMULATED_NODE};
use crate::context::{ActorContext, queue};
use crate::object::{annotation, is_deleting};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kerf_runtime::{Outcome, ReconcileError};
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The behaviour of a node's kubelet, set by the annotation [`KUBELET`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KubeletMode {
    Normal,
    NotReady,
    Paused,
    Stopped,
}

/// Whether a node has a simulated kubelet.
pub(crate) fn is_simulated(node: &Node, nodes: NodeSelection) -> bool {
    match nodes {
        NodeSelection::Marked => annotation(node, SIMULATED_NODE).is_some(),
        NodeSelection::All => true,
        NodeSelection::None => false,
    }
}

/// What a flapping node is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flapping {
    ready: bool,
    /// Time until this changes.
    left: Duration,
}

/// What a node annotated with [`FLAP_EVERY`] is now; `None` for other nodes. Periods count from the creation of the node.
fn flapping(node: &Node, now: Timestamp) -> Option<Flapping> {
    let period = duration_annotation(node, FLAP_EVERY).filter(|period| !period.is_zero())?;
    let created = node.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let age = now.duration_since(created).unsigned_abs();
    let (periods, rest) = (age.as_nanos() / period.as_nanos(), age.as_nanos() % period.as_nanos());
    let rest = Duration::from_nanos(u64::try_from(rest).unwrap_or(u64::MAX));
    Some(Flapping {
        ready: periods.is_multiple_of(2),
        left: period.saturating_sub(rest),
    })
}

pub(super) struct Kubelets {
    pub(super) options: KubeletOptions,
    /// When a stage that began will end, by the uid of the object and the stage.
    due: Mutex<BTreeMap<(String, Stage), Instant>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stage {
    Start,
    Complete,
    Stop,
}

impl Kubelets {
    pub(super) fn mode(&self, node: &Node, now: Timestamp) -> Option<KubeletMode> {
        is_simulated(node, self.options.nodes).then(|| match annotation(node, KUBELET) {
            Some("stopped") => KubeletMode::Stopped,
            Some("paused") => KubeletMode::Paused,
            Some("not-ready") => KubeletMode::NotReady,
            Some(_) | None => match flapping(node, now) {
                Some(Flapping { ready: false, .. }) => KubeletMode::NotReady,
                Some(_) | None => KubeletMode::Normal,
            },
        })
    }

    /// The time left of a stage that takes `delay`. The first call for a stage starts it.
    pub(super) fn left(&self, uid: &str, stage: Stage, delay: Duration) -> Duration {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let at = *due.entry((uid.to_owned(), stage)).or_insert(now + delay);
        at.saturating_duration_since(now)
    }

    pub(super) fn forget(&self, uid: &str, stage: Stage) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.remove(&(uid.to_owned(), stage));
    }

    pub(super) fn forget_all(&self, uid: &str) {
        for stage in [Stage::Start, Stage::Complete, Stage::Stop] {
            self.forget(uid, stage);
        }
    }
}

/// Starts the kubelets.
pub(crate) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>, options: KubeletOptions) {
    let kubelets = Arc::new(Kubelets {
        options,
        due: Mutex::default(),
    });
    let (nodes, pods) = (queue(), queue());
    let (node_keys, pod_keys, own) = (nodes.clone(), pods.clone(), Arc::downgrade(context));
    let forget = Arc::clone(&kubelets);
    context.nodes.listen(move |change| {
        node_keys.add(change.key.clone());
        if change.new.is_none() {
            forget.forget_all(
                change
                    .old
                    .and_then(|old| old.metadata.uid.as_deref())
                    .unwrap_or_default(),
            );
        }
        let mode = |node: Option<&Node>| node.and_then(|node| annotation(node, KUBELET).map(str::to_owned));
        if change.old.is_none()
            || mode(change.old) != mode(change.new)
            || node::is_ready(change.old) != node::is_ready(change.new)
        {
            let Some(context) = own.upgrade() else { return };
            for pod in context.pods_on(&change.key.name) {
                pod_keys.add(crate::store::key_of(&*pod));
            }
        }
    });
    let pod_keys = pods.clone();
    let forget = Arc::clone(&kubelets);
    context.pods.listen(move |change| {
        match change.new {
            Some(pod) if crate::object::node_name(pod).is_some() => pod_keys.add(change.key.clone()),
            Some(_) => {}
            None => forget.forget_all(
                change
                    .old
                    .and_then(|old| old.metadata.uid.as_deref())
                    .unwrap_or_default(),
            ),
        };
    });
    let own = Arc::clone(&kubelets);
    context.run(tasks, "kubelet.nodes", nodes, move |context, key| {
        let kubelets = Arc::clone(&own);
        async move {
            let Some(node) = context.nodes.get(&key) else {
                return Ok(Outcome::Done);
            };
            let outcome = kubelets.node(&context, &node).await?;
            Ok(match (outcome, flapping(&node, context.now())) {
                (Outcome::Done, Some(flapping)) => Outcome::RequeueAfter(flapping.left),
                (outcome, _) => outcome,
            })
        }
    });
    context.run(tasks, "kubelet.pods", pods, move |context, key| {
        let kubelets = Arc::clone(&kubelets);
        async move {
            let Some(pod) = context.pods.get(&key) else {
                return Ok(Outcome::Done);
            };
            let Some(node) = crate::object::node_name(&pod).and_then(|name| context.nodes.named(name)) else {
                return Ok(Outcome::Done);
            };
            match kubelets.mode(&node, context.now()) {
                Some(KubeletMode::Normal) if !is_deleting(&*node) || node::is_ready(Some(&node)) => {
                    kubelets.pod(&context, &pod, &node).await
                }
                _ => Ok(Outcome::Done),
            }
        }
    });
}

pub(super) type Reconciled = Result<Outcome, ReconcileError>;

/// An IPv4 address with this prefix of two bytes, computed from a hash of the name.
pub(super) fn address(prefix: &str, name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{prefix}.{}.{}", (hash >> 8) & 0xff, 1 + (hash & 0xff) % 254)
}

/// The duration in the object's annotation `key`; `None` when it is absent or no Go duration.
pub(super) fn duration_annotation<K: kube::Resource>(object: &K, key: &str) -> Option<Duration> {
    let text = annotation(object, key)?;
    let parsed: Result<kerf_units::duration::GoDuration, _> = text.parse();
    match parsed {
        Ok(duration) => Some(duration.to_std()),
        Err(error) => {
            tracing::warn!(object = object.name_any(), annotation = key, %error, "annotation ignored: its value must be a Go duration such as 30s or 5m");
            None
        }
    }
}
