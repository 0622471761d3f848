//! Unit prices of resources: the dual prices of a linear program that buys capacity for all pods to be placed.

use crate::compile::catalogue::TypeRow;
use crate::dense::amounts::Amounts;
use crate::dense::id_set::IdSet;
use crate::search::assignment::Assignment;
use crate::search::specs::SpecId;
use crate::strategy::objective::NodeCosts;
use microlp::{ComparisonOp, OptimizationDirection, Problem as LinearProgram};

/// The price per unit of each resource, in 10⁻¹² dollars per hour.
pub(crate) type UnitPrices = Vec<f64>;

/// A row with its price and the capacity pods can use.
#[derive(Clone, Debug)]
pub(crate) struct PricedType {
    /// The price plus the node cost, in 10⁻¹² dollars per hour.
    pub(crate) price: f64,
    /// What pods may use: allocatable minus DaemonSet overhead.
    pub(crate) room: Amounts,
}

/// The rows of a spec with price and capacity, cheapest first.
pub(crate) fn priced_types(
    assignment: &mut Assignment<'_, '_>,
    spec: SpecId,
    rows: &IdSet<TypeRow>,
    node_costs: &NodeCosts,
) -> Vec<PricedType> {
    let problem = assignment.problem;
    let template = assignment.specs.get(spec).template;
    let offers_by_price = assignment.specs.offers_by_price(problem, spec).clone();
    let priced = offers_by_price.into_iter().filter(|(_, row, _)| rows.get(*row));
    priced
        .map(|(price, row, _)| PricedType {
            price: price.pico() as f64 + node_costs[template] as f64,
            room: problem.usable(template, row).map(|usable| usable.max(0)).collect(),
        })
        .collect()
}

/// The largest number of violated rows added to the program. Bounds the work; beyond it an even split is used. README.md: 4 to 16 cost the
/// same.
const ROUNDS_MAX: usize = 64;
/// The tolerance of a violated row, relative to its price.
const TOLERANCE: f64 = 1e-9;

/// The factor by which the demand for each resource in turn is raised. README.md: 1.0 costs 32 % more, from 1.25 on the cost is flat.
const EMPHASIS: f64 = 1.25;

/// Unit prices under which no row is worth more than its price. Where rows and demand have similar proportions, many unit prices are
/// optimal, and a corner solution gives all value to one resource. The program is therefore solved once per resource with a raised demand
/// for it, and the mean is used.
pub(crate) fn unit_prices(priced_types: &[PricedType], demand: &[i64]) -> UnitPrices {
    let asked: Vec<usize> = (0..demand.len()).filter(|at| demand[*at] > 0).collect();
    let mut mean = vec![0.0; demand.len()];
    let mut binding = best_per_resource(priced_types, &asked);
    for emphasised in &asked {
        let Some(extreme) = extreme(priced_types, &mut binding, &asked, demand, *emphasised) else {
            for at in &asked {
                mean[*at] = fallback(priced_types, *at, asked.len());
            }
            return mean;
        };
        for (mean, unit_prices) in mean.iter_mut().zip(extreme) {
            *mean += unit_prices / asked.len() as f64;
        }
    }
    mean
}

/// For each resource, the row with the lowest price per unit.
fn best_per_resource(priced_types: &[PricedType], asked: &[usize]) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::new();
    for at in asked {
        let per_unit = |priced_type: &PricedType| priced_type.price / priced_type.room[*at] as f64;
        let some = (0..priced_types.len()).filter(|priced_type| priced_types[*priced_type].room[*at] > 0);
        best.extend(some.min_by(|a, b| per_unit(&priced_types[*a]).total_cmp(&per_unit(&priced_types[*b]))));
    }
    best.sort_unstable();
    best.dedup();
    best
}

/// The unit prices that maximise the value of `demand` while no row is worth more than its price: the dual of covering the demand with
/// fractions of rows. Few rows are binding, so rows are added one by one, the most violated first (column generation).
fn extreme(
    priced_types: &[PricedType],
    binding: &mut Vec<usize>,
    asked: &[usize],
    demand: &[i64],
    emphasised: usize,
) -> Option<UnitPrices> {
    for _ in 0..ROUNDS_MAX {
        let chosen: Vec<&PricedType> = binding.iter().map(|at| &priced_types[*at]).collect();
        let unit_prices = duals(&chosen, asked, demand, emphasised)?;
        let excess = |priced_type: &PricedType| value_of(&unit_prices, &priced_type.room) / priced_type.price.max(1.0);
        let most = (0..priced_types.len()).map(|at| (excess(&priced_types[at]), at));
        let most = most.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        match most {
            Some((excess, at)) if excess > 1.0 + TOLERANCE && !binding.contains(&at) => binding.push(at),
            _ => return Some(unit_prices),
        }
    }
    None
}

/// Solves the program over some rows.
fn duals(priced_types: &[&PricedType], asked: &[usize], demand: &[i64], emphasised: usize) -> Option<UnitPrices> {
    let mut program = LinearProgram::new(OptimizationDirection::Maximize);
    // Scaled so that every coefficient is near one: the unit of a resource is its whole demand, the unit of money the dearest row.
    let dearest = priced_types
        .iter()
        .map(|priced_type| priced_type.price)
        .fold(1.0, f64::max);
    let weight = |at: usize| if at == emphasised { EMPHASIS } else { 1.0 };
    let variables: Vec<_> = asked
        .iter()
        .map(|at| program.add_var(weight(*at), (0.0, f64::INFINITY)))
        .collect();
    for priced_type in priced_types {
        let share = |at: usize| priced_type.room[at] as f64 / demand[at] as f64;
        let row: Vec<_> = variables
            .iter()
            .zip(asked)
            .map(|(variable, at)| (*variable, share(*at)))
            .collect();
        program.add_constraint(&row, ComparisonOp::Le, priced_type.price / dearest);
    }
    let solution = program.solve().ok()?.into_solution().ok()?;
    let mut unit_prices = vec![0.0; demand.len()];
    for (variable, at) in variables.iter().zip(asked) {
        unit_prices[*at] = solution.var_value(*variable).max(0.0) * dearest / demand[*at] as f64;
    }
    Some(unit_prices)
}

/// An even share of the best price per unit, where the program has no solution.
fn fallback(priced_types: &[PricedType], at: usize, resources: usize) -> f64 {
    let per_unit = priced_types
        .iter()
        .filter(|priced_type| priced_type.room[at] > 0)
        .map(|priced_type| priced_type.price / priced_type.room[at] as f64);
    let least = per_unit.fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        least / resources as f64
    } else {
        0.0
    }
}

/// The value of some amounts at these unit prices, in 10⁻¹² dollars per hour.
pub(crate) fn value_of(unit_prices: &[f64], amounts: &[i64]) -> f64 {
    unit_prices
        .iter()
        .zip(amounts)
        .map(|(unit_prices, amount)| unit_prices * *amount as f64)
        .sum()
}
