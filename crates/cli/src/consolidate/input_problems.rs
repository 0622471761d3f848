//! What is wrong with the input of a disruption decision, though it could be read.

use crate::manifests::InputError;
use kerf_model::node::Node;
use kerf_model::nodepool::Eligibility;
use kerf_model::pod::DoNotDisrupt;
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

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
