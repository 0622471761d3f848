//! What resources are worth: the duals of a linear program that buys capacity for everything still to be placed.

use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::run::Run;
use crate::states::StateId;
use microlp::{ComparisonOp, OptimizationDirection, Problem};

/// Price per unit of each resource, in 10⁻¹² dollars per hour.
pub(crate) type Worth = Vec<f64>;

/// A row as something to buy.
#[derive(Clone, Debug)]
pub(crate) struct Ware {
    /// Price per hour in 10⁻¹² dollars.
    pub(crate) price: f64,
    /// What pods may use of it: allocatable less daemon overhead.
    pub(crate) room: Amounts,
}

/// The rows of a state with what they cost and hold, cheapest first.
pub(crate) fn wares(run: &mut Run<'_, '_>, state: StateId, rows: &Bits) -> Vec<Ware> {
    let world = run.world;
    let template = run.states.get(state).template;
    let prices = run.states.prices(world, state).clone();
    let priced = prices.into_iter().filter(|(_, row, _)| rows.get(*row as usize));
    priced
        .map(|(price, row, _)| Ware {
            price: price.pico() as f64,
            room: world
                .usable(template, row as usize)
                .map(|usable| usable.max(0))
                .collect(),
        })
        .collect()
}

/// How often wares that would be worth more than they cost are added to the program.
const ROUNDS_MAX: usize = 64;
/// What counts as worth more than it costs.
const TOLERANCE: f64 = 1e-9;

/// By how much each resource in turn counts for more than is asked of it.
const EMPHASIS: f64 = 1.25;

/// What resources are worth where no ware is worth more than it costs. Where wares and demand are of like proportions, many prices per unit
/// make the demand worth most, and the extreme ones give all worth to one resource; so every resource is emphasised in turn, and the mean
/// taken.
pub(crate) fn worth(wares: &[Ware], demand: &[i64]) -> Worth {
    let asked: Vec<usize> = (0..demand.len()).filter(|at| demand[*at] > 0).collect();
    let mut mean = vec![0.0; demand.len()];
    let mut binding = best_per_resource(wares, &asked);
    for emphasised in &asked {
        let Some(extreme) = extreme(wares, &mut binding, &asked, demand, *emphasised) else {
            for at in &asked {
                mean[*at] = fallback(wares, *at, asked.len());
            }
            return mean;
        };
        for (mean, worth) in mean.iter_mut().zip(extreme) {
            *mean += worth / asked.len() as f64;
        }
    }
    mean
}

fn best_per_resource(wares: &[Ware], asked: &[usize]) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::new();
    for at in asked {
        let per_unit = |ware: &Ware| ware.price / ware.room[*at] as f64;
        let some = (0..wares.len()).filter(|ware| wares[*ware].room[*at] > 0);
        best.extend(some.min_by(|a, b| per_unit(&wares[*a]).total_cmp(&per_unit(&wares[*b]))));
    }
    best.sort_unstable();
    best.dedup();
    best
}

/// The prices per unit that make `demand` worth most while no ware is worth more than it costs: the dual of covering the demand with
/// fractions of wares. Few wares bind, so the program starts with some and grows by the ware whose worth exceeds its price most.
fn extreme(
    wares: &[Ware],
    binding: &mut Vec<usize>,
    asked: &[usize],
    demand: &[i64],
    emphasised: usize,
) -> Option<Worth> {
    for _ in 0..ROUNDS_MAX {
        let chosen: Vec<&Ware> = binding.iter().map(|at| &wares[*at]).collect();
        let worth = duals(&chosen, asked, demand, emphasised)?;
        let excess = |ware: &Ware| value(&worth, &ware.room) / ware.price.max(1.0);
        let most = (0..wares.len()).map(|at| (excess(&wares[at]), at));
        let most = most.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        match most {
            Some((excess, at)) if excess > 1.0 + TOLERANCE && !binding.contains(&at) => binding.push(at),
            _ => return Some(worth),
        }
    }
    None
}

/// The program over some wares.
fn duals(wares: &[&Ware], asked: &[usize], demand: &[i64], emphasised: usize) -> Option<Worth> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    // Scaled so that every coefficient is near one: the unit of a resource is its whole demand, that of money the dearest ware.
    let dearest = wares.iter().map(|ware| ware.price).fold(1.0, f64::max);
    let weight = |at: usize| if at == emphasised { EMPHASIS } else { 1.0 };
    let variables: Vec<_> = asked
        .iter()
        .map(|at| problem.add_var(weight(*at), (0.0, f64::INFINITY)))
        .collect();
    for ware in wares {
        let share = |at: usize| ware.room[at] as f64 / demand[at] as f64;
        let row: Vec<_> = variables
            .iter()
            .zip(asked)
            .map(|(variable, at)| (*variable, share(*at)))
            .collect();
        problem.add_constraint(&row, ComparisonOp::Le, ware.price / dearest);
    }
    let solution = problem.solve().ok()?.into_solution().ok()?;
    let mut worth = vec![0.0; demand.len()];
    for (variable, at) in variables.iter().zip(asked) {
        worth[*at] = solution.var_value(*variable).max(0.0) * dearest / demand[*at] as f64;
    }
    Some(worth)
}

/// An even share of the best price per unit, where the program has no answer.
fn fallback(wares: &[Ware], at: usize, resources: usize) -> f64 {
    let per_unit = wares
        .iter()
        .filter(|ware| ware.room[at] > 0)
        .map(|ware| ware.price / ware.room[at] as f64);
    let least = per_unit.fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        least / resources as f64
    } else {
        0.0
    }
}

/// What amounts are worth.
pub(crate) fn value(worth: &[f64], amounts: &[i64]) -> f64 {
    worth
        .iter()
        .zip(amounts)
        .map(|(worth, amount)| worth * *amount as f64)
        .sum()
}
