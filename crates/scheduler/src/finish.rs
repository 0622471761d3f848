//! From an outcome to a plan: launches, placements, and the reasons for what is left.

use crate::launches::{Launches, shared};
use crate::reasons::refusals;
use crate::strategy::Outcome;
use crate::world::World;
use kerf_model::plan::{Placement, Plan, Refusal, Refuser, Unschedulable};
use kerf_model::pod::Pod;
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

fn by_name(a: &Pod, b: &Pod) -> std::cmp::Ordering {
    (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid))
}
