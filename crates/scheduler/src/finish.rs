//! From an outcome to a plan: launches, placements, and the reasons for what is left.

use crate::launches::{Launches, shared};
use crate::reasons::refusals;
use crate::relax;
use crate::strategy::Outcome;
use crate::world::World;
use kerf_model::plan::{Placement, Plan, Refusal, Refuser, Unschedulable};
use kerf_model::pod::Pod;
use kerf_model::relaxation::{Relaxation, Relaxed};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Builds the plan.
pub(crate) fn plan(world: &World<'_>, outcome: Outcome<'_, '_>) -> Plan {
    let Outcome {
        mut run,
        failed,
        unattempted,
    } = outcome;
    let mut plan = Plan {
        empty_pools: world.empty_pools.to_vec(),
        ..Plan::default()
    };
    let mut unlaunched: FxHashSet<u32> = FxHashSet::default();
    let mut launches = Launches::default();
    for claim in std::mem::take(&mut run.claims) {
        match launches.launch(&mut run, &claim) {
            Ok(launch) => plan.launches.push(launch),
            Err(cause) => {
                unlaunched.extend(claim.pods.iter().copied());
                let by = Refuser::Pool(Arc::clone(&world.templates[claim.template].pool.name));
                let refusals: Arc<[Refusal]> = Arc::new([Refusal {
                    by,
                    cause,
                    nearest_miss: None,
                }]);
                plan.unschedulable.extend(claim.pods.iter().map(|pod| Unschedulable {
                    pod: Arc::clone(&world.pods[*pod as usize]),
                    refusals: Arc::clone(&refusals),
                    deferred: false,
                }));
            }
        }
    }
    plan.order = std::mem::take(&mut run.order);
    plan.order.retain(|pod| !unlaunched.contains(pod));
    for touched in run.touched.iter() {
        plan.existing.push(Placement {
            node: Arc::clone(&world.targets[touched.at].node.name),
            pods: shared(world, &touched.pods),
        });
    }
    plan.existing.sort_by(|a, b| a.node.cmp(&b.node));
    plan.relaxed = relaxed(world, &run.relaxed, &failed);
    let mut by_class: FxHashMap<u32, Arc<[Refusal]>> = FxHashMap::default();
    for (pod, deferred) in failed {
        let Some(class) = world.of_pod[pod as usize] else {
            continue;
        };
        let refusals = by_class
            .entry(class)
            .or_insert_with(|| refusals(&mut run, class).into());
        plan.unschedulable.push(Unschedulable {
            pod: Arc::clone(&world.pods[pod as usize]),
            refusals: Arc::clone(refusals),
            deferred,
        });
    }
    plan.unschedulable.sort_by(|a, b| by_name(&a.pod, &b.pod));
    plan.unattempted = shared(world, &unattempted);
    let ignored = world
        .pods
        .iter()
        .zip(&world.of_pod)
        .filter(|(_, class)| class.is_none());
    plan.ignored = ignored.map(|(pod, _)| (Arc::clone(pod), pod.faults.clone())).collect();
    plan.ignored.sort_by(|a, b| by_name(&a.0, &b.0));
    plan
}

/// What was given up for pods that were placed, at their levels, or failed, at all of them.
fn relaxed(world: &World<'_>, placed: &[(u32, usize)], failed: &[(u32, bool)]) -> Vec<Relaxed> {
    let failed = failed.iter().filter(|(_, deferred)| !deferred);
    let levels = placed.iter().copied().chain(failed.map(|(pod, _)| (*pod, usize::MAX)));
    let mut steps: FxHashMap<(u32, usize), Arc<[Relaxation]>> = FxHashMap::default();
    let mut relaxed = Vec::new();
    for (pod, level) in levels {
        let Some(id) = world.of_pod[pod as usize] else {
            continue;
        };
        let class = world.class(id);
        if class.reach.unclear || class.variants.len() == 1 {
            continue;
        }
        let steps = steps.entry((id, level)).or_insert_with(|| {
            let policy = world.options.preference_policy;
            let mut steps = relax::steps(&class.shape, policy, world.prepared.soft_taints);
            steps.truncate(level);
            steps.into()
        });
        relaxed.push(Relaxed {
            pod: Arc::clone(&world.pods[pod as usize]),
            steps: Arc::clone(steps),
        });
    }
    relaxed.sort_by(|a, b| by_name(&a.pod, &b.pod));
    relaxed
}

fn by_name(a: &Pod, b: &Pod) -> std::cmp::Ordering {
    (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid))
}
