//! What a claim becomes: final requirements, types and requests of a launch (section 20). Claims in one state that are left with the same
//! rows offer the same, which is worked out once.

use crate::bits::Bits;
use crate::claims::Claim;
use crate::daemons::least;
use crate::options::{MinValuesPolicy, ReservedMode};
use crate::reservations::Held;
use crate::run::Run;
use crate::states::StateId;
use crate::templates::unmet;
use crate::types::TypeIndex;
use crate::world::World;
use kerf_model::intern::{Sym, sym};
use kerf_model::plan::{Cause, Launch};
use kerf_model::pod::Pod;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The most instance types a launch offers (SCH-286).
const TYPES_MAX: usize = 600;
/// So many different choices are remembered.
const CHOICES_MAX: usize = 4096;

/// What alike claims offer.
#[derive(Clone, Debug)]
struct Choice {
    requirements: Requirements,
    types: Vec<u32>,
    cheapest: Option<(u32, u32)>,
}

/// Turns claims into launches.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    choices: FxHashMap<(StateId, Held, Bits), Result<Choice, Cause>>,
}

impl Launches {
    /// One launch, or why truncation leaves too little choice (SCH-286).
    pub(crate) fn launch(&mut self, run: &mut Run<'_, '_>, claim: &Claim) -> Result<Launch, Cause> {
        let world = run.world;
        let template = &world.templates[claim.template];
        if self.choices.len() == CHOICES_MAX {
            self.choices.clear();
        }
        let key = (claim.state, claim.held.clone(), claim.rows.clone());
        let choice = self.choices.entry(key).or_insert_with(|| choose(world, run, claim));
        let Choice {
            requirements,
            types,
            cheapest,
        } = choice.clone()?;
        Ok(Launch {
            pool: Arc::clone(&template.pool.name),
            catalogue: Arc::clone(&world.catalogues[template.catalogue].catalogue),
            requirements,
            types,
            pods: shared(world, &claim.pods),
            requests: requests(world, claim),
            min_values_relaxed: claim.relaxed,
            reservations: claim.held.to_vec(),
            cheapest,
        })
    }
}

/// Pods by their indices into the request.
pub(crate) fn shared(world: &World<'_>, pods: &[u32]) -> Vec<Arc<Pod>> {
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

fn choose(world: &World<'_>, run: &mut Run<'_, '_>, claim: &Claim) -> Result<Choice, Cause> {
    let template = &world.templates[claim.template];
    let types = &world.catalogues[template.catalogue];
    let (mut requirements, state) = offered(world, run, claim);
    let order = cheapest_first(world, run, state, claim, types);
    let offers: Bits = order.iter().map(|number| *number as usize).collect();
    let kept = if order.len() < TYPES_MAX {
        claim.rows.clone()
    } else {
        let kept = claim
            .rows
            .iter()
            .filter(|row| offers.get(types.rows[*row].instance_type));
        kept.collect()
    };
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
    let capacity = run.states.capacity_types(world, state, &kept);
    narrow(types, &offers, &capacity, &mut requirements);
    Ok(Choice {
        requirements,
        types: order,
        cheapest,
    })
}

/// The types of a claim by price, those without a price by name, as many as a launch may offer.
fn cheapest_first(
    world: &World<'_>,
    run: &mut Run<'_, '_>,
    state: StateId,
    claim: &Claim,
    types: &TypeIndex,
) -> Vec<u32> {
    let mut order: Vec<u32> = Vec::with_capacity(claim.rows.len().min(TYPES_MAX));
    let (mut seen, mut unpriced) = (Bits::default(), claim.rows.clone());
    let mut offer = |row: usize| {
        let number = types.rows[row].instance_type;
        if order.len() < TYPES_MAX && !seen.get(number) {
            seen.insert(number);
            order.push(number as u32);
        }
    };
    for (_, row, _) in run.states.prices(world, state) {
        let row = *row as usize;
        if claim.rows.get(row) {
            unpriced.remove(row);
            offer(row);
        }
    }
    let mut unpriced: Vec<usize> = unpriced.iter().collect();
    unpriced.sort_by_key(|row| types.name_rank[types.rows[*row].instance_type]);
    unpriced.into_iter().for_each(offer);
    order
}

/// SCH-314 to SCH-316: drops what exists for simulation only, adds types, narrows the capacity types.
fn narrow(types: &TypeIndex, offers: &Bits, capacity: &[Sym], requirements: &mut Requirements) {
    for key in [sym::HOSTNAME, sym::REGISTERED, sym::INITIALIZED] {
        requirements.remove(key);
    }
    let mut replace = |key: Sym, values: Vec<Sym>| {
        let least = requirements.get(key).and_then(|requirement| requirement.min_values);
        requirements.replace(Requirement::any_of(key, values).with_min_values(least));
    };
    let offered = types.by_name_id.iter().filter(|number| offers.get(**number as usize));
    let mut names = Vec::with_capacity(offers.len());
    names.extend(offered.map(|number| types.catalogue.types[*number as usize].name));
    replace(sym::INSTANCE_TYPE, names);
    if !capacity.is_empty() {
        replace(sym::CAPACITY_TYPE, capacity.to_vec());
    }
}

/// SCH-319, SCH-320: the pods' requests plus the least overhead of the partitions that still have types.
fn requests(world: &World<'_>, claim: &Claim) -> Resources {
    let mut sum = Resources::new();
    for (class, n) in &claim.members {
        for (name, amount) in world.class(*class).shape.requests.iter() {
            let all = amount.saturating_mul(i64::from(*n));
            sum.set(name, sum.get(name).saturating_add(all));
        }
    }
    let partitions = world.templates[claim.template].partitions.iter();
    let mut left = partitions
        .filter(|partition| partition.rows.intersects(&claim.rows))
        .map(|partition| &partition.requests);
    if let Some(first) = left.next() {
        let overhead = left.fold(first.clone(), |one, other| least(&one, other));
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
