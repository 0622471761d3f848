//! Pods that are nominated to nodes: they are not bound, but other pods of at most their priority leave them their room.

use kerf_model::node::Node;
use kerf_model::pod::Pod;
use kerf_runtime::ObjectKey;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The node a pod is nominated to.
pub(super) fn nominated_node(pod: &k8s_openapi::api::core::v1::Pod) -> Option<&str> {
    let name = pod.status.as_ref()?.nominated_node_name.as_deref();
    name.filter(|name| !name.is_empty())
}

/// The waiting pods that are nominated to nodes.
#[derive(Default)]
pub(super) struct Nominations {
    by_node: BTreeMap<String, BTreeMap<ObjectKey, Arc<Pod>>>,
    places: BTreeMap<ObjectKey, String>,
}

impl Nominations {
    /// Records that a pod is nominated to a node, and to no other.
    pub(super) fn nominate(&mut self, key: &ObjectKey, node: &str, pod: Arc<Pod>) {
        self.forget(key);
        self.places.insert(key.clone(), node.to_owned());
        let pods = self.by_node.entry(node.to_owned()).or_default();
        pods.insert(key.clone(), pod);
    }

    /// Ends the nomination of a pod. Returns whether there was one.
    pub(super) fn forget(&mut self, key: &ObjectKey) -> bool {
        let Some(node) = self.places.remove(key) else {
            return false;
        };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.remove(key);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        true
    }

    /// The node as `pod` finds it if the pods nominated to it were there already. `None` if it has to leave room for no other pod.
    pub(super) fn with_nominated_pods(&self, node: &Node, pod: &Pod) -> Option<Node> {
        let nominated = self.by_node.get(&*node.name)?.values();
        let preceding = nominated.filter(|other| other.uid != pod.uid && other.priority >= pod.priority);
        let preceding: Vec<Arc<Pod>> = preceding.cloned().collect();
        if preceding.is_empty() {
            return None;
        }
        let mut with_nominated = node.clone();
        for other in &preceding {
            with_nominated.requested.add(&other.shape.requests);
        }
        with_nominated.pods.extend(preceding);
        Some(with_nominated)
    }
}
