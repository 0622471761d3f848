//! When pods come into kube-scheduler's queue.

use super::arrivals::Arrivals;
use super::queue::Millis;
use crate::chance::shuffle;
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use jiff::Timestamp;
use std::sync::Arc;

/// The time from the creation of the last pod to the plan: the batch window.
const BATCHED: Millis = 1_000;
/// Pods that were created longer ago than this before the last one count as created then: their back-off is as long as it gets.
const AGE_MAX: Millis = 20_000;
const SECOND: Millis = 1_000;

/// When pods come into kube-scheduler's queue, in their order. Those that run elsewhere come last: their successors do not exist yet.
/// Pods that are created after the plan come at their time, or not at all. Creation times have whole seconds: the pods of a second come one
/// after the other, in an order that depends on a seed.
pub(super) fn pod_arrivals(
    problem: &Problem<'_>,
    queue: &[PodId],
    arrivals: &Arrivals,
    end: Millis,
) -> Vec<(Millis, PodId)> {
    let mut queue = queue.to_vec();
    queue.retain(|pod| arrivals.later_pods_come || arrivals.is_planned(problem, *pod));
    let second = |id: &PodId| created_in(problem, *id);
    if let Some(seed) = arrivals.seed {
        let together = queue.chunk_by_mut(|a, b| second(a) == second(b));
        together.for_each(|pods| shuffle(pods, seed));
    }
    let planned = queue.iter().filter(|pod| arrivals.is_planned(problem, **pod));
    let pending = planned.map(second).filter(|(runs, _)| !runs);
    let newest = pending.map(|(_, created)| created).max().unwrap_or_default();
    let mut all = Vec::with_capacity(queue.len());
    for pods in queue.chunk_by(|a, b| second(a) == second(b)) {
        let Some((runs, created)) = pods.first().map(second) else {
            continue;
        };
        let age = Millis::try_from(newest.duration_since(created).as_millis()).unwrap_or(AGE_MAX);
        let begin = if runs {
            end
        } else {
            -age.min(AGE_MAX) - BATCHED - SECOND
        };
        let step = |at: usize| at as Millis * SECOND / pods.len() as Millis;
        all.extend(pods.iter().enumerate().map(|(at, pod)| (begin + step(at), *pod)));
    }
    all
}

/// Whether a pod runs elsewhere, and the second in which it was created.
fn created_in(problem: &Problem<'_>, id: PodId) -> (bool, Timestamp) {
    let pod = problem.pod(id);
    (pod.node_name.is_some(), pod.created)
}

/// The pods by age, those of the same second by their unique ids.
pub(super) fn by_age(problem: &Problem<'_>) -> Vec<PodId> {
    let mut queue = problem.queue.clone();
    queue.sort_by_cached_key(|id| (created_in(problem, *id), Arc::clone(&problem.pod(*id).uid), *id));
    queue
}
