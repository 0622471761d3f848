//! From an outcome to a plan: the final requirements, types and requests of each launch (section 20), and the reasons for what is left.

use crate::claims::Claim;
use crate::options::{MinValuesPolicy, ReservedMode};
use crate::reasons::refusals;
use crate::run::Run;
use crate::states::StateId;
use crate::strategy::Outcome;
use crate::templates::unmet;
use crate::world::World;
use kerf_model::intern::{Sym, sym};
use kerf_model::plan::{Cause, Launch, Placement, Plan, Refusal, Refuser, Unschedulable};
use kerf_model::pod::Pod;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The most instance types a launch offers (SCH-286).
const TYPES_MAX: usize = 600;

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
    plan.order = std::mem::take(&mut run.order);
    for claim in std::mem::take(&mut run.claims) {
        match launch(world, &mut run, &claim) {
            Ok(launch) => plan.launches.push(launch),
            Err(cause) => {
                plan.order.retain(|pod| !claim.pods.contains(pod));
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

fn shared(world: &World<'_>, pods: &[u32]) -> Vec<Arc<Pod>> {
    pods.iter().map(|pod| Arc::clone(&world.pods[*pod as usize])).collect()
}

/// What a claim requires with the reservations it holds, and the state whose offerings it may be launched with.
pub(crate) fn offered(world: &World<'_>, run: &mut Run<'_, '_>, claim: &Claim) -> (Requirements, StateId) {
    let interner = world.interner();
    let mut requirements = run.states.get(claim.state).requirements.clone();
    if !claim.held.is_empty() {
        // SCH-300
        requirements.replace(Requirement::is(sym::CAPACITY_TYPE, sym::RESERVED));
        if let Some(key) = world.snapshot.reservation_key {
            requirements.add(Requirement::any_of(key, claim.held.iter().copied()), interner);
        }
    }
    let mut state = run.states.intern(world, claim.template, requirements.clone());
    if claim.held.is_empty() && world.options.reserved != ReservedMode::Off {
        // Reserved offerings the claim does not hold are none of its options (SCH-296).
        let mut unreserved = requirements.clone();
        unreserved.add(Requirement::none_of(sym::CAPACITY_TYPE, [sym::RESERVED]), interner);
        state = run.states.intern(world, claim.template, unreserved);
    }
    (requirements, state)
}

/// One launch, or why truncation leaves too little choice (SCH-286).
fn launch(world: &World<'_>, run: &mut Run<'_, '_>, claim: &Claim) -> Result<Launch, Cause> {
    let template = &world.templates[claim.template];
    let types = &world.catalogues[template.catalogue];
    let (mut requirements, state) = offered(world, run, claim);
    let mut order: Vec<u32> = Vec::new();
    let mut seen = vec![false; types.catalogue.types.len()];
    let priced: Vec<u32> = run.states.prices(world, state).iter().map(|(_, row, _)| *row).collect();
    let mut unpriced: Vec<u32> = claim.rows.iter().map(|row| row as u32).collect();
    unpriced.sort_by_key(|row| types.name_rank[types.rows[*row as usize].instance_type]);
    for row in priced
        .into_iter()
        .chain(unpriced)
        .filter(|row| claim.rows.get(*row as usize))
    {
        let number = types.rows[row as usize].instance_type;
        if order.len() < TYPES_MAX && !std::mem::replace(&mut seen[number], true) {
            order.push(number as u32);
        }
    }
    let kept = claim
        .rows
        .iter()
        .filter(|row| seen_in(&order, types.rows[*row].instance_type))
        .collect();
    if world.options.min_values_policy == MinValuesPolicy::Strict && requirements.has_min_values() {
        let unmet = unmet(types, &requirements, &kept);
        if !unmet.is_empty() {
            let pool = Arc::clone(&template.pool.name);
            return Err(Cause::MinValuesAfterTruncation {
                pool,
                keys: keys_text(world, &unmet),
            });
        }
    }
    let cheapest = run.states.cheapest(world, state, &kept).map(|(_, row, offer)| {
        (
            types.rows[row as usize].instance_type as u32,
            types.offers[offer as usize].offering as u32,
        )
    });
    narrow(world, run, claim, state, &order, &mut requirements);
    Ok(Launch {
        pool: Arc::clone(&template.pool.name),
        catalogue: Arc::clone(&types.catalogue),
        requirements,
        types: order,
        pods: shared(world, &claim.pods),
        requests: requests(world, claim),
        min_values_relaxed: claim.relaxed,
        reservations: claim.held.to_vec(),
        cheapest,
    })
}

fn seen_in(order: &[u32], number: usize) -> bool {
    order.len() < TYPES_MAX || order.contains(&(number as u32))
}

/// SCH-314 to SCH-316: drops what exists for simulation only, adds types, narrows the capacity types.
fn narrow(
    world: &World<'_>,
    run: &Run<'_, '_>,
    claim: &Claim,
    state: u32,
    order: &[u32],
    requirements: &mut Requirements,
) {
    let types = &world.catalogues[world.templates[claim.template].catalogue];
    for key in [sym::HOSTNAME, sym::REGISTERED, sym::INITIALIZED] {
        requirements.remove(key);
    }
    let names = order.iter().map(|number| types.catalogue.types[*number as usize].name);
    let least = requirements
        .get(sym::INSTANCE_TYPE)
        .and_then(|requirement| requirement.min_values);
    requirements.replace(Requirement::any_of(sym::INSTANCE_TYPE, names).with_min_values(least));
    let state = run.states.get(state);
    let offers = state.offers.iter().map(|at| &types.offers[at]);
    let capacity: Vec<Sym> = offers
        .filter(|offer| claim.rows.get(offer.row) && seen_in(order, types.rows[offer.row].instance_type))
        .filter_map(|offer| types.offering(offer).capacity_type())
        .collect();
    if !capacity.is_empty() {
        let least = requirements
            .get(sym::CAPACITY_TYPE)
            .and_then(|requirement| requirement.min_values);
        requirements.replace(Requirement::any_of(sym::CAPACITY_TYPE, capacity).with_min_values(least));
    }
}

/// SCH-319, SCH-320: the pods' requests plus the least overhead of the partitions that still have types.
fn requests(world: &World<'_>, claim: &Claim) -> Resources {
    let mut sum = Resources::new();
    for pod in &claim.pods {
        sum.add(&world.pods[*pod as usize].shape.requests);
    }
    let partitions = world.templates[claim.template].partitions.iter();
    let mut left = partitions
        .filter(|partition| partition.rows.intersects(&claim.rows))
        .map(|partition| &partition.requests);
    if let Some(first) = left.next() {
        let overhead = left.fold(first.clone(), |least, other| {
            let both = least.iter().filter(|(name, _)| other.contains(*name));
            both.map(|(name, amount)| (name, amount.min(other.get(name)))).collect()
        });
        sum.add(&overhead);
    }
    sum
}

/// Keys as they stand in `minValues` errors: sorted, with blanks between.
pub(crate) fn keys_text(world: &World<'_>, keys: &[(Sym, u32)]) -> String {
    let mut texts: Vec<&str> = keys.iter().map(|(key, _)| world.interner().text(*key)).collect();
    texts.sort_unstable();
    texts.join(" ")
}
