//! What is wrong with the input of a disruption decision, though it could be read.

use crate::manifests::InputError;
use kerf_disruption::InvalidBudget;
use kerf_model::node::Node;
use kerf_model::pod::DoNotDisrupt;
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

/// Budgets that cannot be read: each closes its pool (DIS-079).
pub(crate) fn budget_faults(snapshot: &Snapshot) -> Vec<InputError> {
    let problem = |one: &InvalidBudget| {
        let error = InputError::new(format!("NodePool {}", one.pool), one.fault.to_string());
        let error = error.field(format!("spec.disruption.budgets[{}]", one.index));
        error.remedy("correct it: until then no node of the pool is disrupted voluntarily")
    };
    kerf_disruption::budget_faults(snapshot).iter().map(problem).collect()
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
