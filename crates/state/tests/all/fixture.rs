//! Objects from YAML, and short ways to write the usual ones.

use jiff::Timestamp;
use kerf_model::intern::{Interner, Sym};
use kerf_model::node::Node;
use kerf_model::pod::{Pod, PodFault};
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_state::lean::{LeanNode, LeanPod};
use kerf_state::{Conventions, Converter, Mirror, MirrorOptions};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// Some time.
pub(crate) fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// An object from YAML. Its unique id is its name unless it has one; that needs metadata as a flow mapping.
pub(crate) fn yaml<T: DeserializeOwned>(text: &str) -> T {
    let tree: Value = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let name = tree
        .pointer("/metadata/name")
        .filter(|_| tree.pointer("/metadata/uid").is_none());
    let text = match name {
        Some(name) => text.replacen("metadata: {", &format!("metadata: {{uid: {name}, "), 1),
        None => text.to_owned(),
    };
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A pod with the given spec and status, each as flow YAML.
pub(crate) fn pod(name: &str, spec: &str, status: &str) -> LeanPod {
    yaml(&format!(
        "{{metadata: {{name: {name}, namespace: default, uid: uid-{name}}}, spec: {spec}, status: {status}}}"
    ))
}

/// A pod that waits for capacity.
pub(crate) fn pending(name: &str, spec: &str) -> LeanPod {
    pod(
        name,
        spec,
        "{phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable}]}",
    )
}

/// A pod that runs on a node and asks for CPU.
pub(crate) fn running(name: &str, node: &str, cpu: &str) -> LeanPod {
    pod(
        name,
        &format!("{{nodeName: {node}, containers: [{{name: a, resources: {{requests: {{cpu: {cpu}}}}}}}]}}"),
        "{phase: Running}",
    )
}

/// A node with provider id `cloud://NAME`, more labels as `, key: value`, and taints as flow YAML.
pub(crate) fn node(name: &str, labels: &str, taints: &str) -> LeanNode {
    yaml(&format!(
        "{{metadata: {{name: {name}, uid: uid-{name}, creationTimestamp: '2025-12-31T00:00:00Z',
           labels: {{kubernetes.io/hostname: {name}{labels}}}}},
           spec: {{providerID: 'cloud://{name}', taints: {taints}}},
           status: {{capacity: {{cpu: '4', memory: 8Gi, pods: '10'}}, allocatable: {{cpu: 3800m, memory: 7Gi, pods: '10'}}}}}}"
    ))
}

/// A claim; `launched` gives it provider id, capacity and instance labels.
pub(crate) fn claim(name: &str, provider_id: Option<&str>, more: &str) -> kerf_api::NodeClaim {
    let status = provider_id.map_or_else(String::new, |id| {
        format!(
            "status: {{providerID: '{id}', capacity: {{cpu: '4', memory: 8Gi, pods: '10', nvidia.com/gpu: '1'}},
              allocatable: {{cpu: 3900m, memory: 7Gi, pods: '10', nvidia.com/gpu: '1'}}}}"
        )
    });
    yaml(&format!(
        "apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {{name: {name}, uid: uid-{name}, creationTimestamp: '2025-12-31T00:00:00Z', labels: {{karpenter.sh/nodepool: default}}}}
spec:
  requirements: [{{key: kubernetes.io/arch, operator: In, values: [amd64]}}, {{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}}]
  nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
  resources: {{requests: {{cpu: '2', pods: '2'}}}}
  taints: [{{key: team, value: x, effect: NoSchedule}}]
  startupTaints: [{{key: cilium, effect: NoExecute}}]
{more}
{status}
"
    ))
}

/// A converter over a new interner.
pub(crate) fn converter() -> Converter {
    Converter::new(Arc::new(Interner::default()), &Conventions::default())
}

/// A mirror over a new interner.
pub(crate) fn mirror() -> Mirror {
    Mirror::new(Arc::new(Interner::default()), &MirrorOptions::default())
}

/// The texts of a pod's faults.
pub(crate) fn texts(faults: &[PodFault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// Amounts as text, by name.
pub(crate) fn amounts(resources: &Resources, interner: &Interner) -> String {
    let entries = resources.sorted_by_name(interner);
    entries
        .iter()
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The node of a name.
pub(crate) fn find<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Node {
    try_find(snapshot, name).unwrap_or_else(|| panic!("no node {name} in {:?}", names(snapshot)))
}

/// The node of a name, if there is one.
pub(crate) fn try_find<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Node> {
    snapshot
        .nodes
        .iter()
        .find(|node| *node.name == *name)
        .map(|node| &**node)
}

/// The nodes' names.
pub(crate) fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.nodes.iter().map(|node| &*node.name).collect()
}

/// The pods' names.
pub(crate) fn pod_names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.name).collect()
}

/// A label's value as text.
pub(crate) fn label<'a>(node: &Node, key: Sym, interner: &'a Interner) -> &'a str {
    node.label(key).map_or("", |value| interner.text(value))
}
