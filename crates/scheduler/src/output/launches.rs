//! From claims to launches: final requirements, instance types and requests (section 20 of `docs/behaviour/scheduling.md`). Claims with equal
//! spec, reservations and rows have equal launch options, which are computed once.

use crate::compile::catalogue::{RowId, TypeIndex, TypeRow};
use crate::compile::daemons::least;
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::templates::unmet;
use crate::dense::bits::Bits;
use crate::dense::id_set::IdSet;
use crate::search::assignment::Assignment;
use crate::search::claims::Claim;
use crate::search::launch_spec::launch_spec;
use crate::search::reservations::HeldReservations;
use crate::search::specs::SpecId;
use kerf_model::intern::{Sym, sym};
use kerf_model::plan::{Cause, Launch};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_units::policy::MinValuesPolicy;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The largest number of instance types of a launch (SCH-286).
const TYPES_MAX: usize = 600;
/// The cache of launch options is cleared at this size. Bounds memory.
const CHOICES_MAX: usize = 4096;

/// The launch options of claims with equal spec, reservations and rows.
#[derive(Clone, Debug)]
struct LaunchOptions {
    requirements: Requirements,
    types: Vec<u32>,
    cheapest: Option<(u32, u32)>,
}

/// Builds launches, and caches their options.
#[derive(Debug, Default)]
pub(crate) struct LaunchBuilder {
    cache: FxHashMap<(SpecId, HeldReservations, IdSet<TypeRow>), Result<LaunchOptions, Cause>>,
}

impl LaunchBuilder {
    /// Builds the launch of a claim. Fails where truncation to the largest number of types leaves too few values for `minValues` (SCH-286).
    pub(crate) fn launch(&mut self, assignment: &mut Assignment<'_, '_>, claim: &Claim) -> Result<Launch, Cause> {
        let problem = assignment.problem;
        let template = &problem.templates[claim.template];
        if self.cache.len() == CHOICES_MAX {
            self.cache.clear();
        }
        let key = (claim.spec, claim.held_reservations.clone(), claim.rows.clone());
        let options = self
            .cache
            .entry(key)
            .or_insert_with(|| launch_options(problem, assignment, claim));
        let LaunchOptions {
            requirements,
            types,
            cheapest,
        } = options.clone()?;
        Ok(Launch {
            pool: Arc::clone(&template.pool.name),
            catalogue: Arc::clone(&problem.catalogues[template.catalogue].catalogue),
            requirements,
            types,
            pods: pods_of(problem, &claim.pods),
            requests: requests(problem, claim),
            min_values_relaxed: claim.min_values_lowered,
            reservations: claim.held_reservations.to_vec(),
            cheapest,
        })
    }
}

/// The pods at these indices of the request.
pub(crate) fn pods_of(problem: &Problem<'_>, pods: &[PodId]) -> Vec<Arc<Pod>> {
    pods.iter().map(|pod| Arc::clone(problem.pod(*pod))).collect()
}

/// Computes the launch options of a claim.
fn launch_options(
    problem: &Problem<'_>,
    assignment: &mut Assignment<'_, '_>,
    claim: &Claim,
) -> Result<LaunchOptions, Cause> {
    let template = &problem.templates[claim.template];
    let types = &problem.catalogues[template.catalogue];
    let (mut requirements, spec) = launch_spec(problem, &mut assignment.specs, claim);
    let (mut order, within_range) = cheapest_first(problem, assignment, spec, claim, types);
    let all = order.len();
    order.truncate(enough_for_min_values(types, &requirements, claim, &order, within_range));
    let offers = type_set(&order);
    let kept_rows = if order.len() == all && all < TYPES_MAX {
        claim.rows.clone()
    } else {
        rows_of(types, claim, &offers)
    };
    if problem.options.min_values_policy == MinValuesPolicy::Strict && requirements.has_min_values() {
        let unmet = unmet(types, &requirements, &kept_rows);
        if !unmet.is_empty() {
            let pool = Arc::clone(&template.pool.name);
            return Err(Cause::MinValuesAfterTruncation {
                pool,
                keys: keys_text(problem, &unmet),
            });
        }
    }
    let cheapest = assignment
        .specs
        .cheapest(problem, spec, &kept_rows)
        .map(|(_, row, offer)| {
            (
                types.rows[row].instance_type as u32,
                types.offers[offer].offering as u32,
            )
        });
    let capacity = assignment.specs.capacity_types(problem, spec, &kept_rows);
    narrow(types, &offers, &capacity, &mut requirements);
    Ok(LaunchOptions {
        requirements,
        types: order,
        cheapest,
    })
}

/// Instance types as a set of their numbers.
fn type_set(order: &[u32]) -> Bits {
    order.iter().map(|number| *number as usize).collect()
}

/// The rows of a claim that belong to these instance types.
fn rows_of(types: &TypeIndex, claim: &Claim, offers: &Bits) -> IdSet<TypeRow> {
    let rows = claim.rows.iter();
    rows.filter(|row| offers.get(types.rows[*row].instance_type)).collect()
}

/// How many of the first instance types of `order` a launch lists: at least `count`, and as many as its `minValues` need.
fn enough_for_min_values(
    types: &TypeIndex,
    requirements: &Requirements,
    claim: &Claim,
    order: &[u32],
    count: usize,
) -> usize {
    if count == order.len() || !requirements.has_min_values() {
        return count;
    }
    let are_met = |count: usize| {
        let some = order.get(..count).unwrap_or(order);
        unmet(types, requirements, &rows_of(types, claim, &type_set(some))).is_empty()
    };
    // More types never have fewer values.
    let (mut low, mut high) = (count.max(1), order.len());
    while low < high {
        let middle = low.midpoint(high);
        if are_met(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// The instance types of a claim, cheapest first, then those without a price by name; at most as many as a launch may have. And how many of
/// them are within the price range of a launch.
fn cheapest_first(
    problem: &Problem<'_>,
    assignment: &mut Assignment<'_, '_>,
    spec: SpecId,
    claim: &Claim,
    types: &TypeIndex,
) -> (Vec<u32>, usize) {
    let mut order: Vec<u32> = Vec::with_capacity(claim.rows.len().min(TYPES_MAX));
    let (mut seen, mut unpriced) = (Bits::default(), claim.rows.clone());
    let mut offer = |order: &mut Vec<u32>, row: RowId| {
        let number = types.rows[row].instance_type;
        let is_new = order.len() < TYPES_MAX && !seen.get(number);
        if is_new {
            seen.insert(number);
            order.push(number as u32);
        }
        is_new
    };
    let mut prices: Vec<Price> = Vec::with_capacity(order.capacity());
    for (price, row, _) in assignment.specs.offers_by_price(problem, spec) {
        if claim.rows.get(*row) {
            unpriced.remove(*row);
            if offer(&mut order, *row) {
                prices.push(*price);
            }
        }
    }
    let mut unpriced: Vec<RowId> = unpriced.iter().collect();
    unpriced.sort_by_key(|row| types.name_rank[types.rows[*row].instance_type]);
    for row in unpriced {
        offer(&mut order, row);
    }
    let range = problem.options.launch_price_range;
    let highest = prices.first().and_then(|lowest| range.highest(lowest.pico()));
    let within_range = match highest.map(Price::from_pico) {
        Some(highest) => prices.partition_point(|price| *price <= highest),
        None => order.len(),
    };
    (order, within_range)
}

/// Removes requirements that exist for the simulation only, adds the instance types, narrows the capacity types (SCH-314 to SCH-316).
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

/// The pods' requests plus the smallest overhead of the partitions that still have rows (SCH-319, SCH-320).
fn requests(problem: &Problem<'_>, claim: &Claim) -> Resources {
    let mut sum = Resources::new();
    for (class, n) in &claim.members {
        for (name, amount) in problem.class(*class).shape.requests.iter() {
            let all = amount.saturating_mul(i64::from(*n));
            sum.set(name, sum.get(name).saturating_add(all));
        }
    }
    let partitions = problem.templates[claim.template].partitions.iter();
    let mut left = partitions
        .filter(|partition| partition.rows.intersects(&claim.rows))
        .map(|partition| &partition.requests);
    if let Some(first) = left.next() {
        let overhead = left.fold(first.clone(), |one, other| least(&one, other));
        sum.add(&overhead);
    }
    sum
}

/// Keys as printed in `minValues` errors: sorted, separated by blanks.
pub(crate) fn keys_text(problem: &Problem<'_>, keys: &[(Sym, u32)]) -> String {
    let mut texts: Vec<&str> = keys.iter().map(|(key, _)| problem.interner().text(*key)).collect();
    texts.sort_unstable();
    texts.join(" ")
}
