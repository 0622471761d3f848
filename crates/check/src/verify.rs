//! The judgement of a whole plan.

use crate::launch::NamedLaunch;
use crate::topology::binding_order;
use crate::violation::{CheckOptions, Rule, Violation, Violations};
use crate::{accounting, existing, launch, limits};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Everything wrong with `plan`, which answers how `pods` are placed in the cluster of `snapshot`; empty for a good plan.
///
/// A launch is judged twice: every instance type it still offers must hold its pods, and once it is the plan's cheapest offering
/// kube-scheduler must be able to bind them. Pod affinity and anti-affinity must hold whatever launches become. Topology spread and pod
/// affinity depend on the order of binding: the plan is good if some order works, and orders are looked for with the effort the options
/// allow (see `binding_order`). Domains are those of the nodes there are and of the planned ones. Preferences are not judged; of taints only
/// those that keep pods from being bound.
pub fn verify(snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan, options: &CheckOptions) -> Vec<Violation> {
    let mut found = Violations::default();
    accounting::check(pods, plan, &mut found);
    let mut names = BTreeSet::new();
    for placement in &plan.existing {
        existing::check(snapshot, placement, &mut found);
        if !names.insert(&placement.node) {
            let why = "it is listed twice".to_owned();
            found.add_for_node(&placement.node, Rule::Launch { why });
        }
    }
    let launches = named_launches(snapshot, plan, &mut found);
    for named in &launches {
        launch::check(snapshot, named, options, &mut found);
    }
    for pool in &snapshot.pools {
        limits::check_pool_limits(snapshot, pool, &launches, &mut found);
    }
    if options.reserved_capacity {
        limits::check_reservations(snapshot, &launches, &mut found);
    }
    binding_order::check(snapshot, pods, plan, &launches, options, &mut found);
    found.0
}

fn named_launches<'a>(snapshot: &'a Snapshot, plan: &'a Plan, found: &mut Violations) -> Vec<NamedLaunch<'a>> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut all = Vec::new();
    for launch in &plan.launches {
        let count = counts.entry(&launch.pool).or_default();
        *count += 1;
        let name = format!("{}-{count}", launch.pool);
        match snapshot.pools.iter().find(|pool| pool.name == launch.pool) {
            Some(pool) => all.push(NamedLaunch::new(snapshot, name, launch, pool)),
            None => {
                let why = "there is no such pool".to_owned();
                found.add_for_node(&name, Rule::Pool { why });
            }
        }
    }
    all
}
