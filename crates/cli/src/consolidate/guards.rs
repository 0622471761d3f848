//! What protects nodes besides what decisions look at: commands under way, and objects that cannot be read.

use crate::decision::Cluster;
use crate::manifests::{InputError, Unread};
use jiff::Timestamp;
use kerf_api::conditions::node_claim::DISRUPTION_REASON;
use kerf_api::status::Conditioned;
use kerf_api::taints;
use kerf_disruption::Obstacle;
use kerf_model::node::Node;
use kerf_model::nodepool::Eligibility;
use kerf_model::pod::DoNotDisrupt;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::Effect;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the objects of a cluster tell of it.
#[derive(Default)]
pub(crate) struct Guards {
    /// Claims that bear a command's reason, by name.
    claims: BTreeSet<String>,
    unread: Vec<Unread>,
}

impl Guards {
    /// Looks through a cluster.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let claims = cluster.world.claims.iter();
        let marked = claims.filter(|claim| claim.condition_is_true(DISRUPTION_REASON));
        Self {
            claims: marked.filter_map(|claim| claim.metadata.name.clone()).collect(),
            unread: cluster.unread.clone(),
        }
    }

    /// Whether a command holds the node: its marks are on the Node or the claim, and it is not being deleted yet (DIS-257, DIS-258).
    pub(crate) fn is_held(&self, node: &Node) -> bool {
        let tainted = || {
            let mut taints = node.taints.iter();
            taints.any(|taint| *taint.key == *taints::DISRUPTED && taint.effect == Effect::NoSchedule)
        };
        let claim = node.claim_name.as_deref();
        let bears_reason = || claim.is_some_and(|claim| self.claims.contains(claim));
        node.managed && !node.lifecycle.deleting && (tainted() || bears_reason())
    }

    /// Whether something that cannot be read may protect the node.
    pub(crate) fn may_protect(&self, node: &Node, now: Timestamp) -> bool {
        self.unread.iter().any(|unread| unread.may_protect(node, now))
    }

    /// Whether something that cannot be read takes room on the node.
    pub(crate) fn take_room(&self, node: &Node) -> bool {
        self.unread.iter().any(|unread| unread.is_on(node))
    }

    /// What may protect the node and cannot be read.
    pub(crate) fn obstacles(&self, node: &Node, now: Timestamp) -> impl Iterator<Item = Obstacle> {
        let unread = self.unread.iter().filter(move |unread| unread.may_protect(node, now));
        unread.map(Unread::obstacle)
    }
}

/// Budgets that cannot be read: each closes its pool (DIS-079).
pub(crate) fn budget_faults(snapshot: &Snapshot) -> Vec<InputError> {
    let pools = snapshot.pools.iter();
    let ours = pools.filter(|pool| pool.eligibility != Eligibility::ForeignNodeClass);
    let faults = ours.flat_map(|pool| {
        let budgets = pool.disruption.budgets.iter().enumerate();
        budgets.filter_map(move |(at, budget)| {
            let error = InputError::new(format!("NodePool {}", pool.name), budget.as_ref().err()?.to_string());
            let error = error.field(format!("spec.disruption.budgets[{at}]"));
            Some(error.remedy("correct it: until then no node of the pool is disrupted voluntarily"))
        })
    });
    faults.collect()
}

/// Annotations that were meant to protect pods of these nodes and do not (DIS-053).
pub(crate) fn void_annotations<'a>(nodes: impl IntoIterator<Item = &'a Arc<Node>>) -> Vec<String> {
    let pods = nodes.into_iter().flat_map(|node| &node.pods);
    let void = pods.filter_map(|pod| match &pod.do_not_disrupt {
        DoNotDisrupt::Invalid(text) => Some(format!(
            "Pod {}: karpenter.sh/do-not-disrupt: \"{text}\" is neither true nor a positive duration and does not protect the pod",
            pod.key()
        )),
        _ => None,
    });
    void.collect()
}
