//! A brute-force oracle for whether a pod has a place: it tries every existing node, every node a pool can make, and everything a launch of
//! the plan may become, and lets the checker judge each.

use kerf_check::{CheckOptions, Rule, verify};
use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
use kerf_model::intern::{Sym, sym};
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::plan::{Launch, Placement, Plan};
use kerf_model::pod::Pod;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_testkit::fixture::Fixture;
use std::sync::Arc;

/// A plan with one more pod, if the checker accepts one.
pub(super) fn place(fixture: &Fixture, pods: &[Arc<Pod>], plan: &Plan, pod: u32) -> Option<String> {
    let snapshot = &fixture.snapshot;
    let one = pods.get(pod as usize)?;
    let mut base = plan.clone();
    base.unschedulable.retain(|left| left.pod.uid != one.uid);
    base.order.push(pod);
    let good = |plan: &Plan| violations(snapshot, pods, plan) == 0;
    for node in snapshot.nodes.iter().filter(|node| !node.marked_for_deletion) {
        let mut with = base.clone();
        match with.existing.iter_mut().find(|placed| placed.node == node.name) {
            Some(placed) => placed.pods.push(Arc::clone(one)),
            None => with.existing.push(Placement {
                node: Arc::clone(&node.name),
                pods: vec![Arc::clone(one)],
            }),
        }
        if good(&with) {
            return Some(format!("{} would take {}", node.name, one.name));
        }
    }
    for pool in snapshot
        .pools
        .iter()
        .filter(|pool| pool.eligibility == Eligibility::Eligible)
    {
        for machine in machines(snapshot, pool, &pool.requirements, None) {
            let mut with = base.clone();
            with.launches.push(launch(pool, &machine, vec![Arc::clone(one)]));
            if good(&with) {
                return Some(format!(
                    "a new {} would take {}",
                    describe(snapshot, &machine),
                    one.name
                ));
            }
        }
    }
    for (at, old) in plan.launches.iter().enumerate() {
        let Some(pool) = snapshot.pools.iter().find(|pool| pool.name == old.pool) else {
            continue;
        };
        for machine in machines(snapshot, pool, &old.requirements, Some(&old.types)) {
            let mut with = base.clone();
            let mut members = old.pods.clone();
            members.push(Arc::clone(one));
            with.launches[at] = launch(pool, &machine, members);
            if good(&with) {
                return Some(format!(
                    "launch {at} as {} would take {}",
                    describe(snapshot, &machine),
                    one.name
                ));
            }
        }
    }
    None
}

/// The number of violations. The sum of requests of a launch is ignored, because the change is not reflected there.
fn violations(snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan) -> usize {
    let as_named = CheckOptions {
        order_search_steps: 0,
        ..CheckOptions::default()
    };
    let found = verify(snapshot, pods, plan, &as_named);
    let about_sums = |rule: &Rule| matches!(rule, Rule::Launch { why } if why.starts_with("it states requests"));
    found.iter().filter(|violation| !about_sums(&violation.rule)).count()
}

/// A node that a launch may become.
struct Machine {
    catalogue: Arc<Catalogue>,
    instance_type: u32,
    offering: u32,
    requirements: Requirements,
}

fn describe(snapshot: &Snapshot, machine: &Machine) -> String {
    format!("machine of {}", machine.requirements.print(&snapshot.interner))
}

fn launch(pool: &NodePool, machine: &Machine, pods: Vec<Arc<Pod>>) -> Launch {
    Launch {
        pool: Arc::clone(&pool.name),
        catalogue: Arc::clone(&machine.catalogue),
        requirements: machine.requirements.clone(),
        types: vec![machine.instance_type],
        pods,
        requests: Resources::new(),
        min_values_relaxed: false,
        reservations: Vec::new(),
        cheapest: Some((machine.instance_type, machine.offering)),
    }
}

/// Every type with every offering and every choice of labels the requirements allow, without reserved capacity.
fn machines(snapshot: &Snapshot, pool: &NodePool, within: &Requirements, types: Option<&[u32]>) -> Vec<Machine> {
    let mut all = Vec::new();
    let Ok(catalogue) = &pool.catalogue else { return all };
    for (number, instance_type) in (0u32..).zip(&catalogue.types) {
        if types.is_some_and(|types| !types.contains(&number)) {
            continue;
        }
        for (offering, offered) in (0u32..).zip(&instance_type.offerings) {
            if !offered.available || offered.reservation.is_some() {
                continue;
            }
            for requirements in choices(snapshot, within, instance_type, offered) {
                all.push(Machine {
                    catalogue: Arc::clone(catalogue),
                    instance_type: number,
                    offering,
                    requirements,
                });
            }
        }
    }
    all
}

fn choices(
    snapshot: &Snapshot,
    within: &Requirements,
    instance_type: &InstanceType,
    offered: &Offering,
) -> Vec<Requirements> {
    let interner = &snapshot.interner;
    let mut all = within.clone();
    for own in instance_type.requirements.iter().chain(&offered.requirements) {
        if all.get(own.key).is_none() && own.is_does_not_exist() {
            continue;
        }
        let before = all.get(own.key).cloned();
        all.add(own.clone(), interner);
        let empty = |requirement: &Requirement| requirement.is_does_not_exist();
        if all.get(own.key).is_some_and(empty) && !before.as_ref().is_some_and(empty) {
            return Vec::new();
        }
    }
    let open: Option<Requirement> = all.iter().find(|one| !one.complement && one.values.len() > 1).cloned();
    let Some(open) = open else {
        all.replace(Requirement::is(sym::INSTANCE_TYPE, instance_type.name));
        return vec![all];
    };
    let values: Vec<Sym> = open.values.iter().copied().collect();
    let pinned = values.into_iter().flat_map(|value| {
        let mut one = all.clone();
        one.replace(Requirement::is(open.key, value));
        choices(snapshot, &one, instance_type, offered)
    });
    pinned.collect()
}
