//! From an outcome to a plan: launches, placements, and reasons for the pods that are left over.

use crate::compile::classes::ClassId;
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::relaxation::steps;
use crate::output::launches::{LaunchBuilder, pods_of};
use crate::output::reasons::pool_refusals;
use crate::strategy::Outcome;
use kerf_model::plan::{Placement, Plan, Refusal, Refuser, Unschedulable};
use kerf_model::pod::Pod;
use kerf_model::relaxation::{Relaxation, Relaxed};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Builds the plan of an outcome.
pub(crate) fn plan(outcome: Outcome<'_, '_>) -> Plan {
    let Outcome {
        mut assignment,
        failed,
        unattempted,
        ..
    } = outcome;
    let problem = assignment.problem;
    let mut plan = Plan {
        empty_pools: problem.empty_pools.to_vec(),
        ..Plan::default()
    };
    let mut unlaunched: FxHashSet<PodId> = FxHashSet::default();
    let mut launches = LaunchBuilder::default();
    for claim in std::mem::take(&mut assignment.claims) {
        match launches.launch(&mut assignment, &claim) {
            Ok(launch) => plan.launches.push(launch),
            Err(cause) => {
                unlaunched.extend(claim.pods.iter().copied());
                let by = Refuser::Pool(Arc::clone(&problem.templates[claim.template].pool.name));
                let refusals: Arc<[Refusal]> = Arc::new([Refusal {
                    by,
                    cause,
                    nearest_miss: None,
                }]);
                plan.unschedulable.extend(claim.pods.iter().map(|pod| Unschedulable {
                    pod: Arc::clone(problem.pod(*pod)),
                    refusals: Arc::clone(&refusals),
                    deferred: false,
                }));
            }
        }
    }
    let order = assignment.order.iter().filter(|pod| !unlaunched.contains(pod));
    plan.order = order.map(|pod| pod.index() as u32).collect();
    for updated in assignment.updated_targets.iter() {
        plan.existing.push(Placement {
            node: Arc::clone(&problem.targets[updated.at].node.name),
            pods: pods_of(problem, &updated.pods),
        });
    }
    plan.existing.sort_by(|a, b| a.node.cmp(&b.node));
    plan.relaxed = relaxed(problem, &assignment.relaxed_pods, &failed);
    let mut by_class: FxHashMap<ClassId, Arc<[Refusal]>> = FxHashMap::default();
    for (pod, deferred) in failed {
        let Some(class) = problem.of_pod[pod] else {
            continue;
        };
        let refusals = by_class
            .entry(class)
            .or_insert_with(|| pool_refusals(&mut assignment, class).into());
        plan.unschedulable.push(Unschedulable {
            pod: Arc::clone(problem.pod(pod)),
            refusals: Arc::clone(refusals),
            deferred,
        });
    }
    plan.unschedulable.sort_by(|a, b| by_name(&a.pod, &b.pod));
    plan.unattempted = pods_of(problem, &unattempted);
    let ignored = problem
        .pods
        .iter()
        .zip(&problem.of_pod)
        .filter(|(_, class)| class.is_none());
    plan.ignored = ignored.map(|(pod, _)| (Arc::clone(pod), pod.faults.clone())).collect();
    plan.ignored.sort_by(|a, b| by_name(&a.0, &b.0));
    plan
}

/// The relaxations of placed pods up to their level, and of failed pods up to the last level.
fn relaxed(problem: &Problem<'_>, placed: &[(PodId, usize)], failed: &[(PodId, bool)]) -> Vec<Relaxed> {
    let failed = failed.iter().filter(|(_, deferred)| !deferred);
    let level_indexes = placed.iter().copied().chain(failed.map(|(pod, _)| (*pod, usize::MAX)));
    let mut steps_of: FxHashMap<(ClassId, usize), Arc<[Relaxation]>> = FxHashMap::default();
    let mut relaxed = Vec::new();
    for (pod, level_index) in level_indexes {
        let Some(id) = problem.of_pod[pod] else {
            continue;
        };
        let class = problem.class(id);
        if class.volume_topology.too_many || class.levels.len() == 1 {
            continue;
        }
        let steps_of_level = steps_of.entry((id, level_index)).or_insert_with(|| {
            let policy = problem.options.preference_policy;
            let mut steps = steps(&class.shape, policy, problem.prepared.soft_taints);
            steps.truncate(level_index);
            steps.into()
        });
        relaxed.push(Relaxed {
            pod: Arc::clone(problem.pod(pod)),
            steps: Arc::clone(steps_of_level),
        });
    }
    relaxed.sort_by(|a, b| by_name(&a.pod, &b.pod));
    relaxed
}

/// The order of pods in a plan: namespace, name, UID.
fn by_name(a: &Pod, b: &Pod) -> std::cmp::Ordering {
    (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid))
}
