//! The kubelets of simulated nodes: nodes become Ready, their pods run, end and go away.
//!
//! Which nodes are simulated says [`NodeSelection`]. The annotation [`KUBELET`] on a Node makes its kubelet misbehave, so that tests, the
//! demo and `kubectl annotate` can all do it.

mod node;
mod pod;
mod status;

use crate::object::{annotation, is_deleting};
use crate::world::{World, queue};
use k8s_openapi::api::core::v1::Node;
use kerf_runtime::{Outcome, ReconcileError};
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The annotation (and label) of nodes that have no machine behind them (KWK-046, KWK-047).
pub const SIMULATED_NODE: &str = "kwok.x-k8s.io/node";
/// On a Node: `stopped` (no heartbeat, Ready becomes Unknown), `not-ready` (Ready is False) or `paused` (Ready, but nothing happens to pods).
pub const KUBELET: &str = "sandbox.kerf.sh/kubelet";
/// On a pod that does not restart: how long it runs, as a Go duration.
pub const RUN_FOR: &str = "sandbox.kerf.sh/run-for";
/// On a pod that does not restart: the exit code of its containers; anything but 0 makes it fail.
pub const EXIT_CODE: &str = "sandbox.kerf.sh/exit-code";
/// On a pod: how long its containers take to end when it is deleted, as a Go duration; the grace period cuts it short.
pub const STOP_AFTER: &str = "sandbox.kerf.sh/stop-after";
/// KWOK's name for [`STOP_AFTER`] (KWK-063).
const KWOK_STOP_AFTER: &str = "pod-delete.stage.kwok.x-k8s.io/delay";

/// Which nodes get a kubelet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NodeSelection {
    /// Those annotated with [`SIMULATED_NODE`].
    #[default]
    Marked,
    /// Every node.
    All,
    /// None.
    None,
}

/// How kubelets behave. All times are durations of the runtime's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KubeletOptions {
    /// Which nodes are simulated.
    pub nodes: NodeSelection,
    /// From the Node's appearance to Ready.
    pub node_ready_after: Duration,
    /// From binding to Running and Ready.
    pub pod_ready_after: Duration,
    /// How long pods of Jobs run unless annotated.
    pub job_runs_for: Duration,
    /// How long a deleted pod takes to end unless annotated.
    pub pod_stops_after: Duration,
    /// How long after a kubelet fell silent its node counts as unknown.
    pub silence: Duration,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            nodes: NodeSelection::Marked,
            node_ready_after: Duration::from_secs(10),
            pod_ready_after: Duration::from_secs(2),
            job_runs_for: Duration::from_secs(30),
            pod_stops_after: Duration::from_secs(1),
            silence: Duration::from_secs(40),
        }
    }
}

/// What a node's kubelet does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Conduct {
    Working,
    NotReady,
    Paused,
    Stopped,
}

struct Kubelets {
    options: KubeletOptions,
    /// When things that were begun are due, by uid and stage.
    due: Mutex<BTreeMap<(String, Stage), Instant>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Start,
    Complete,
    Stop,
}

impl Kubelets {
    fn conduct(&self, node: &Node) -> Option<Conduct> {
        let simulated = match self.options.nodes {
            NodeSelection::Marked => annotation(node, SIMULATED_NODE).is_some(),
            NodeSelection::All => true,
            NodeSelection::None => false,
        };
        simulated.then(|| match annotation(node, KUBELET) {
            Some("stopped") => Conduct::Stopped,
            Some("paused") => Conduct::Paused,
            Some("not-ready") => Conduct::NotReady,
            Some(_) | None => Conduct::Working,
        })
    }

    /// How long a stage that takes `delay` still lasts; it begins with the first question.
    fn left(&self, uid: &str, stage: Stage, delay: Duration) -> Duration {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let at = *due.entry((uid.to_owned(), stage)).or_insert(now + delay);
        at.saturating_duration_since(now)
    }

    fn forget(&self, uid: &str, stage: Stage) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.remove(&(uid.to_owned(), stage));
    }

    fn forget_all(&self, uid: &str) {
        for stage in [Stage::Start, Stage::Complete, Stage::Stop] {
            self.forget(uid, stage);
        }
    }
}

/// Starts the kubelets.
pub(crate) fn start(world: &Arc<World>, tasks: &mut JoinSet<()>, options: KubeletOptions) {
    let kubelets = Arc::new(Kubelets {
        options,
        due: Mutex::default(),
    });
    let (nodes, pods) = (queue(), queue());
    let (node_keys, pod_keys, own) = (nodes.clone(), pods.clone(), Arc::downgrade(world));
    let forget = Arc::clone(&kubelets);
    world.nodes.listen(move |change| {
        node_keys.add(change.key.clone());
        if change.new.is_none() {
            forget.forget_all(
                change
                    .old
                    .and_then(|old| old.metadata.uid.as_deref())
                    .unwrap_or_default(),
            );
        }
        let conduct = |node: Option<&Node>| node.and_then(|node| annotation(node, KUBELET).map(str::to_owned));
        if change.old.is_none()
            || conduct(change.old) != conduct(change.new)
            || node::is_ready(change.old) != node::is_ready(change.new)
        {
            let Some(world) = own.upgrade() else { return };
            for pod in world.pods_on(&change.key.name) {
                pod_keys.add(crate::store::key_of(&*pod));
            }
        }
    });
    let pod_keys = pods.clone();
    let forget = Arc::clone(&kubelets);
    world.pods.listen(move |change| {
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
    world.run(tasks, "kubelet.nodes", nodes, move |world, key| {
        let kubelets = Arc::clone(&own);
        async move {
            let Some(node) = world.nodes.get(&key) else {
                return Ok(Outcome::Done);
            };
            kubelets.node(&world, &node).await
        }
    });
    world.run(tasks, "kubelet.pods", pods, move |world, key| {
        let kubelets = Arc::clone(&kubelets);
        async move {
            let Some(pod) = world.pods.get(&key) else {
                return Ok(Outcome::Done);
            };
            let Some(node) = crate::object::node_name(&pod).and_then(|name| world.nodes.named(name)) else {
                return Ok(Outcome::Done);
            };
            match kubelets.conduct(&node) {
                Some(Conduct::Working) if !is_deleting(&*node) || node::is_ready(Some(&node)) => {
                    kubelets.pod(&world, &pod, &node).await
                }
                _ => Ok(Outcome::Done),
            }
        }
    });
}

pub(crate) use node::ready;

type Reconciled = Result<Outcome, ReconcileError>;

/// An address that depends on a name only.
fn address(prefix: &str, name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{prefix}.{}.{}", (hash >> 8) & 0xff, 1 + (hash & 0xff) % 254)
}

/// The duration an annotation holds.
fn duration_annotation(pod: &k8s_openapi::api::core::v1::Pod, key: &str) -> Option<Duration> {
    let text = annotation(pod, key)?;
    let parsed: Result<kerf_units::duration::GoDuration, _> = text.parse();
    match parsed {
        Ok(duration) => Some(duration.to_std()),
        Err(error) => {
            tracing::warn!(pod = pod.name_any(), annotation = key, %error, "annotation is no duration");
            None
        }
    }
}
