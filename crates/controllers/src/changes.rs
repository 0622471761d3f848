//! Changes of watched objects that trigger controllers.
//!
//! Controllers are notified after the [`Cluster`](crate::Cluster) has taken the change in, so they find the new state there. Objects of other
//! providers' node classes cause no changes (LIF-005).

use std::sync::Arc;

use kerf_api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use kerf_runtime::Priority;
use kerf_state::lean::LeanNode;
use kube::Resource;

use kerf_state::NodeClass;

/// A change of one object.
#[derive(Clone, Debug)]
pub enum Change {
    /// Of a pod.
    Pod(PodChange),
    /// Of a Node.
    Node(Diff<LeanNode>),
    /// Of a NodeClaim.
    Claim(Diff<NodeClaim>),
    /// Of a NodePool.
    Pool(Diff<NodePool>),
    /// Of a NodeOverlay, while its feature gate is on.
    Overlay(Diff<NodeOverlay>),
    /// Of a CapacityBuffer, while its feature gate is on.
    Buffer(Diff<CapacityBuffer>),
    /// Of a node class the provider serves.
    Class(Diff<NodeClass>),
}

impl Change {
    /// The unique id of the NodeClaim that is gone with this change.
    pub(crate) fn gone_claim(&self) -> Option<&str> {
        match self {
            Self::Claim(claim) if claim.is_gone() => claim.last()?.metadata.uid.as_deref(),
            Self::Claim(_)
            | Self::Pod(_)
            | Self::Node(_)
            | Self::Pool(_)
            | Self::Overlay(_)
            | Self::Buffer(_)
            | Self::Class(_) => None,
        }
    }
}

/// An object before and after a change; at least one of the two is there.
#[derive(Clone, Debug)]
pub struct Diff<T> {
    /// Its name.
    pub(crate) name: String,
    /// As it was known, `None` when it is new.
    pub before: Option<Arc<T>>,
    /// As it is, `None` when it is gone.
    pub after: Option<Arc<T>>,
    /// From a first list or a relist, not from a live event.
    pub listed: bool,
}

impl<T> Diff<T> {
    /// Whether the object is new to us.
    pub const fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// Whether the object is gone.
    pub const fn is_gone(&self) -> bool {
        self.after.is_none()
    }

    /// The last state known.
    pub fn last(&self) -> Option<&Arc<T>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How urgent work that follows from it is (OPS-101).
    pub const fn priority(&self) -> Priority {
        priority(self.listed)
    }

    /// Whether `fact` differs between the two sides; true also if the object is new or gone.
    pub fn differs<F: PartialEq>(&self, fact: impl Fn(&T) -> F) -> bool {
        self.before.as_deref().map(&fact) != self.after.as_deref().map(&fact)
    }
}

impl<T: Resource> Diff<T> {
    /// Whether its spec or its deletion changed, or it was created or removed.
    pub fn generation_changed(&self) -> bool {
        self.differs(|object| (object.meta().uid.clone(), object.meta().generation))
    }
}

/// What changed about a pod. Both sides are `None` for a pod that vanished between two lists.
#[derive(Clone, Debug)]
pub struct PodChange {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// As it was known, `None` when it is new.
    pub before: Option<PodFacts>,
    /// As it is, `None` when it is gone.
    pub after: Option<PodFacts>,
    /// From a first list or a relist, not from a live event.
    pub listed: bool,
}

/// What controllers are triggered by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodFacts {
    /// Its unique id.
    pub uid: Arc<str>,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// It has succeeded or failed.
    pub terminal: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// A DaemonSet made it.
    pub daemon: bool,
    /// It waits for capacity (SCH-008).
    pub provisionable: bool,
    /// kube-scheduler has not tried it yet.
    pub untried: bool,
}

impl PodChange {
    /// How urgent work that follows from it is (OPS-101).
    pub const fn priority(&self) -> Priority {
        priority(self.listed)
    }

    /// The nodes it was and is bound to.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        let node = |facts: &Option<PodFacts>| facts.as_ref().and_then(|facts| facts.node.clone());
        let moved = node(&self.before) != node(&self.after);
        let before = self.before.as_ref().and_then(|facts| facts.node.as_ref());
        let after = self.after.as_ref().and_then(|facts| facts.node.as_ref());
        before.filter(|_| moved || after.is_none()).into_iter().chain(after)
    }
}

const fn priority(listed: bool) -> Priority {
    if listed { Priority::Initial } else { Priority::Normal }
}
