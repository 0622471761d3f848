//! The pods of each node and the resources they use. It is updated with each pod event, so the update of a machine costs its own pods only.

use crate::convert::Usage;
use crate::key::Key;
use kerf_model::pod::Pod;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pods of one node and what they hold.
#[derive(Clone, Default, Debug)]
pub(super) struct Occupants {
    /// By namespace and name.
    pods: Vec<Arc<Pod>>,
    usage: Usage,
    /// Whether a pod left whose share could not be subtracted, so that the sum must be computed again.
    outdated: bool,
}

/// Occupants by node name; a node without pods has no entry.
#[derive(Default, Debug)]
pub(super) struct Occupancy {
    nodes: BTreeMap<Arc<str>, Occupants>,
}

impl Occupancy {
    /// Puts a pod on a node, in place of the one of its name.
    pub(super) fn put(&mut self, node: &Arc<str>, pod: Arc<Pod>) {
        self.nodes.entry(Arc::clone(node)).or_default().put(pod);
    }

    /// Takes a pod off a node.
    pub(super) fn remove(&mut self, node: &Arc<str>, pod: &Key) {
        if let Some(occupants) = self.nodes.get_mut(node) {
            occupants.remove(pod);
            if occupants.pods.is_empty() {
                self.nodes.remove(node);
            }
        }
    }

    /// A node's pods, by namespace and name.
    pub(super) fn pods(&self, node: &str) -> &[Arc<Pod>] {
        self.nodes.get(node).map_or(&[], |occupants| &occupants.pods)
    }

    /// What a node's pods hold.
    pub(super) fn usage(&mut self, node: &str) -> Usage {
        let usage = self.nodes.get_mut(node).map(Occupants::usage);
        usage.unwrap_or_default()
    }
}

impl Occupants {
    fn find(&self, namespace: &str, name: &str) -> Result<usize, usize> {
        self.pods.binary_search_by(|pod| compare(pod, namespace, name))
    }

    fn put(&mut self, pod: Arc<Pod>) {
        self.usage.add(&pod);
        match self.find(&pod.namespace, &pod.name) {
            Ok(at) => {
                if let Some(place) = self.pods.get_mut(at) {
                    let before = std::mem::replace(place, pod);
                    self.outdated |= !self.usage.subtract(&before);
                }
            }
            Err(at) => self.pods.insert(at, pod),
        }
    }

    fn remove(&mut self, (namespace, name): &Key) {
        if let Ok(at) = self.find(namespace, name) {
            let gone = self.pods.remove(at);
            self.outdated |= !self.usage.subtract(&gone);
        }
    }

    fn usage(&mut self) -> Usage {
        if std::mem::take(&mut self.outdated) {
            self.usage = Usage::default();
            for pod in &self.pods {
                self.usage.add(pod);
            }
        }
        self.usage.clone()
    }
}

fn compare(pod: &Pod, namespace: &str, name: &str) -> Ordering {
    (*pod.namespace).cmp(namespace).then_with(|| (*pod.name).cmp(name))
}
