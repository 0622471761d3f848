//! The cluster as it was before another autoscaler launched machines for pods.

use kerf_disruption::reschedulable;
use kerf_model::node::Node;
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A cluster without the machines that another autoscaler launched for the pods of a scale-up.
#[derive(Clone, Debug)]
pub struct Unanswered {
    /// The cluster without these machines. Their pods wait again.
    pub snapshot: Arc<Snapshot>,
    /// The machines that were taken out, in the order of the snapshot.
    pub answers: Vec<Arc<Node>>,
}

/// Removes the machines whose NodeClaim is not in `before` from a snapshot, so that a plan for the same pods starts from the same cluster.
///
/// The pods on these machines wait for a place again, and limits of pools do not count the machines. Machines of static pools stay: they are
/// not launched for pods. A volume that was bound on such a machine stays in its zone.
pub fn before_answers(snapshot: &Arc<Snapshot>, before: &BTreeSet<Arc<str>>) -> Unanswered {
    let is_answer = |node: &Node| {
        let is_new = node.claim_name.as_ref().is_some_and(|claim| !before.contains(claim));
        let pool = snapshot.pools.iter().find(|pool| Some(pool.label) == node.pool);
        is_new && pool.is_none_or(|pool| pool.eligibility != Eligibility::Static)
    };
    let (answers, nodes): (Vec<_>, Vec<_>) = snapshot.nodes.iter().cloned().partition(|node| is_answer(node));
    if answers.is_empty() {
        return Unanswered {
            snapshot: Arc::clone(snapshot),
            answers,
        };
    }
    let mut pending = snapshot.pending.clone();
    pending.extend(answers.iter().flat_map(|node| &node.pods).filter_map(waiting_again));
    pending.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let pools = snapshot
        .pools
        .iter()
        .map(|pool| without_usage(pool, &answers))
        .collect();
    Unanswered {
        snapshot: Arc::new(Snapshot {
            nodes,
            pools,
            pending,
            ..Snapshot::clone(snapshot)
        }),
        answers,
    }
}

/// The pod as it was before it was bound; `None` for pods that no autoscaler finds a place for.
fn waiting_again(pod: &Arc<Pod>) -> Option<Arc<Pod>> {
    let is_bound = pod.node_name.is_some() && reschedulable(pod);
    is_bound.then(|| {
        Arc::new(Pod {
            node_name: None,
            ..Pod::clone(pod)
        })
    })
}

/// The pool as its limits see it without these machines; usage does not count machines that go (SCH-145).
fn without_usage(pool: &Arc<NodePool>, answers: &[Arc<Node>]) -> Arc<NodePool> {
    let counted = answers
        .iter()
        .filter(|node| node.pool == Some(pool.label) && !node.marked_for_deletion);
    let mut counted = counted.peekable();
    if counted.peek().is_none() {
        return Arc::clone(pool);
    }
    let mut pool = NodePool::clone(pool);
    for node in counted {
        pool.usage.subtract(&node.capacity);
    }
    Arc::new(pool)
}
