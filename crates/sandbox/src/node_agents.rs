//! Node agents: software that taints new nodes and removes the taint once its pod on the node is ready, such as a network plugin.

use crate::context::{ActorContext, queue};
use crate::kubelet::{KubeletOptions, is_simulated};
use crate::node_lifecycle::{taints, write_taints};
use crate::object::{annotation, is_active, is_ready, node_name};
use k8s_openapi::api::core::v1::{Pod, Taint};
use kerf_runtime::{ObjectKey, Outcome};
use kube::ResourceExt;
use std::sync::Arc;
use tokio::task::JoinSet;

/// On a pod: the key of the taint that it removes from its node once it is ready.
pub const REMOVES_TAINT: &str = "sandbox.kerf.sh/removes-taint";

/// Agents that need no annotation: label and value of their pods in their own manifests, and the key of their taint.
const KNOWN: [(&str, &str, &str); 5] = [
    ("k8s-app", "cilium", "node.cilium.io/agent-not-ready"),
    ("k8s-app", "istio-cni-node", "cni.istio.io/not-ready"),
    ("app", "ebs-csi-node", "ebs.csi.aws.com/agent-not-ready"),
    ("app", "efs-csi-node", "efs.csi.aws.com/agent-not-ready"),
    ("app", "fsx-csi-node", "fsx.csi.aws.com/agent-not-ready"),
];

/// The key of the taint that this pod removes.
fn removed_taint(pod: &Pod) -> Option<&str> {
    let of_label = || {
        let labels = pod.labels();
        let known = KNOWN
            .iter()
            .find(|(label, value, _)| labels.get(*label).is_some_and(|found| found == value));
        known.map(|(_, _, taint)| *taint)
    };
    annotation(pod, REMOVES_TAINT).or_else(of_label)
}

/// Starts the agents of the simulated nodes.
pub(crate) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>, options: &KubeletOptions) {
    let queue = queue();
    let keys = queue.clone();
    context.nodes.listen(move |change| {
        if change.new.is_some_and(|node| !taints(node).is_empty()) {
            keys.add(change.key.clone());
        }
    });
    let keys = queue.clone();
    context.pods.listen(move |change| {
        let agent = change.new.filter(|pod| removed_taint(pod).is_some() && is_ready(pod));
        if let Some(node) = agent.and_then(node_name) {
            keys.add(ObjectKey::new("", node));
        }
    });
    let nodes = options.nodes;
    context.run(tasks, "node.agents", queue, move |context, key| async move {
        let Some(node) = context.nodes.get(&key).filter(|node| is_simulated(node, nodes)) else {
            return Ok(Outcome::Done);
        };
        let pods = context.pods_on(&key.name);
        let ready = pods.iter().filter(|pod| is_active(pod) && is_ready(pod));
        let removed: Vec<&str> = ready.filter_map(|pod| removed_taint(pod)).collect();
        let kept = taints(&node)
            .iter()
            .filter(|taint| !removed.contains(&taint.key.as_str()));
        let kept: Vec<Taint> = kept.cloned().collect();
        write_taints(&context, &node, kept).await?;
        Ok(Outcome::Done)
    });
}
