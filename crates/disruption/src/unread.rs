//! Objects that cannot be read: it is not known which nodes they protect, so every node they may protect stays.

use crate::leaving_pods::evictable;
use jiff::Timestamp;
use kerf_model::node::Node;
use std::fmt;

/// A Pod or PodDisruptionBudget that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unread {
    /// `Pod` or `PodDisruptionBudget`.
    pub kind: &'static str,
    /// Its namespace, `None` if that cannot be read either.
    pub namespace: Option<String>,
    /// Its name, `None` if that cannot be read either.
    pub name: Option<String>,
    /// What cannot be read and why.
    pub problem: String,
    /// The nodes it may protect.
    pub protected_nodes: ProtectedNodes,
}

/// The nodes that an object may protect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProtectedNodes {
    /// No node: the pod is pending or has ended.
    None,
    /// The node of this name.
    Node(String),
    /// All nodes that run pods of its namespace.
    Unknown,
}

impl ProtectedNodes {
    /// The nodes that a pod may protect. `node_name` is its `spec.nodeName`, empty while it is not bound; `phase` its `status.phase`; both `None`
    /// if that cannot be read.
    fn of_pod(node_name: Option<&str>, phase: Option<&str>) -> Self {
        match (node_name, phase) {
            (_, Some("Succeeded" | "Failed")) | (Some(""), _) => Self::None,
            (Some(name), _) => Self::Node(name.to_owned()),
            (None, _) => Self::Unknown,
        }
    }
}

impl Unread {
    /// An object of a kind, as yet without namespace, name and problem; `None` for kinds that protect nothing. `node_name` is `spec.nodeName`,
    /// empty if there is none; `phase` is `status.phase`; both `None` if that cannot be read.
    pub fn of(kind: &str, node_name: Option<&str>, phase: Option<&str>) -> Option<Self> {
        let (kind, protected_nodes) = match kind {
            "Pod" => ("Pod", ProtectedNodes::of_pod(node_name, phase)),
            "PodDisruptionBudget" => ("PodDisruptionBudget", ProtectedNodes::Unknown),
            _ => return None,
        };
        Some(Self {
            kind,
            namespace: None,
            name: None,
            problem: String::new(),
            protected_nodes,
        })
    }

    /// Whether it may protect a node at `now`. One that may cover any pod of its namespace protects the nodes with evictable pods there.
    pub fn may_protect(&self, node: &Node, now: Timestamp) -> bool {
        match &self.protected_nodes {
            ProtectedNodes::None => false,
            ProtectedNodes::Node(_) => self.is_on(node),
            ProtectedNodes::Unknown => {
                let namespace = self.namespace.as_deref();
                let mut pods = node.pods.iter();
                pods.any(|pod| namespace.is_none_or(|namespace| *pod.namespace == *namespace) && evictable(pod, now))
            }
        }
    }

    /// Whether it is a pod on this node, which takes an unknown amount of room.
    pub fn is_on(&self, node: &Node) -> bool {
        matches!(&self.protected_nodes, ProtectedNodes::Node(name) if node.node_name.as_deref() == Some(name))
    }

    /// What ends its protection, for people.
    pub fn remedy(&self) -> String {
        format!("correct the {}: what it protects is not known before", self.kind)
    }

    pub(crate) fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or("(without a name)")
    }
}

/// Prints why a node stays.
impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, problem, .. } = self;
        write!(f, "{kind} ")?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(
            f,
            "{}, which may protect it, cannot be read: {problem}",
            self.shown_name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::pod::{DoNotDisrupt, Owner, Pod};
    use kerf_testkit::disruption::{Cluster, now, sized};

    #[test]
    fn a_pod_protects_its_node_unless_it_has_ended() {
        use ProtectedNodes::{Node, None as Nothing, Unknown};
        let on = |name: &str| Node(name.to_owned());
        for (node_name, phase, expected) in [
            (Some("n"), Some("Running"), on("n")),
            (Some("n"), Some("Pending"), on("n")),
            (Some("n"), Some(""), on("n")),
            (Some("n"), None, on("n")),
            (Some("n"), Some("Succeeded"), Nothing),
            (Some("n"), Some("Failed"), Nothing),
            (Some(""), Some("Pending"), Nothing),
            (Some(""), None, Nothing),
            (None, Some("Running"), Unknown),
            (None, Some("Failed"), Nothing),
            (None, None, Unknown),
        ] {
            let pod = Unread::of("Pod", node_name, phase).expect("it protects");
            assert_eq!(pod.protected_nodes, expected, "{node_name:?} {phase:?}");
        }
        let budget = Unread::of("PodDisruptionBudget", Some(""), None).expect("it protects");
        assert_eq!(budget.protected_nodes, Unknown);
        assert_eq!(Unread::of("ConfigMap", Some("n"), None), None);
    }

    /// A node `a-n` with a pod of the namespace `ns`.
    fn node(change: impl FnOnce(&mut Pod)) -> std::sync::Arc<Node> {
        let mut cluster = Cluster::new();
        cluster.typed("a", &[("small", 2000, 0.1)], |_| {});
        cluster.of_kind("a-n", "small", |_| {});
        cluster.bound("a-n", "p", |pod| {
            sized(100)(pod);
            change(pod);
        });
        std::sync::Arc::clone(&cluster.snapshot.nodes[0])
    }

    #[test]
    fn only_what_it_may_concern_is_protected() {
        let pod = |name: &str| Unread::of("Pod", Some(name), None).expect("it protects");
        let in_namespace = |namespace: Option<&str>| Unread {
            namespace: namespace.map(str::to_owned),
            ..Unread::of("PodDisruptionBudget", None, None).expect("it protects")
        };
        let plain = node(|_| {});
        let annotated = node(|pod| pod.do_not_disrupt = DoNotDisrupt::Always);
        let of_node = node(|pod| pod.owner = Owner::Node);
        for (unread, on, protects, is_on) in [
            (pod("a-n"), &plain, true, true),
            (pod("a-n"), &annotated, true, true),
            (pod("a-m"), &plain, false, false),
            (pod(""), &plain, false, false),
            (in_namespace(Some("ns")), &plain, true, false),
            (in_namespace(Some("other")), &plain, false, false),
            (in_namespace(None), &plain, true, false),
            // A budget keeps no pod that no drain evicts.
            (in_namespace(Some("ns")), &annotated, false, false),
            (in_namespace(None), &of_node, false, false),
        ] {
            let found = (unread.may_protect(on, now()), unread.is_on(on));
            assert_eq!(found, (protects, is_on), "{unread:?}");
        }
    }

    #[test]
    fn it_is_told_by_kind_namespace_and_name() {
        let told = |namespace: Option<&str>, name: Option<&str>| {
            let unread = Unread {
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                problem: "spec.priority: is text".to_owned(),
                ..Unread::of("Pod", None, None).expect("it protects")
            };
            let obstacle = crate::explain::Obstacle::unreadable(&unread);
            (obstacle.message, obstacle.objects[0].to_string())
        };
        let why = "which may protect it, cannot be read: spec.priority: is text";
        for (namespace, name, title, object) in [
            (Some("shop"), Some("web"), "shop/web", "pod/shop/web"),
            (None, Some("web"), "web", "pod/web"),
            (None, None, "(without a name)", "pod/(without a name)"),
        ] {
            let expected = (format!("Pod {title}, {why}"), object.to_owned());
            assert_eq!(told(namespace, name), expected);
        }
    }
}
