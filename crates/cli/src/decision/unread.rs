//! The effect of unreadable objects on decisions: it is not known which nodes they protect, so every node they may protect stays.

use crate::manifests::{ProtectedNodes, Unread};
use jiff::Timestamp;
use kerf_disruption::{Object, Obstacle, ObstacleKind, evictable};
use kerf_model::node::Node;

impl Unread {
    /// Whether it may protect a node.
    pub(super) fn may_protect(&self, node: &Node, now: Timestamp) -> bool {
        match &self.protected_nodes {
            ProtectedNodes::None => false,
            ProtectedNodes::Node(_) => self.is_on(node),
            ProtectedNodes::Unknown => {
                let mut pods = node.pods.iter().filter(|pod| evictable(pod, now));
                let namespace = self.namespace.as_deref();
                pods.any(|pod| namespace.is_none_or(|namespace| *pod.namespace == *namespace))
            }
        }
    }

    /// Whether it is a pod on this node, which takes an unknown amount of room.
    pub(super) fn is_on(&self, node: &Node) -> bool {
        matches!(&self.protected_nodes, ProtectedNodes::Node(name) if node.node_name.as_deref() == Some(name))
    }

    pub(super) fn obstacle(&self) -> Obstacle {
        let Self { kind, problem, .. } = self;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let name = self.name.as_deref().unwrap_or("(without a name)");
        let title = match namespace {
            "" => name.to_owned(),
            namespace => format!("{namespace}/{name}"),
        };
        Obstacle {
            kind: ObstacleKind::Plain,
            code: "Unreadable",
            reason: None,
            objects: vec![Object {
                kind,
                namespace: namespace.into(),
                name: name.into(),
            }],
            message: format!("{kind} {title}, which may protect it, cannot be read: {problem}"),
            remedy: format!("correct the {kind}: what it protects is not known before"),
        }
    }
}
