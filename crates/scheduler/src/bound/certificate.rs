//! The proof of the bound, in integers.

use crate::bound::duals::{in_integers, pod_values, whole_pod_values};
use crate::bound::filling_value::filling_value;
use crate::bound::machines::{Shapes, shapes};
use crate::compile::prepared::Prepared;
use crate::compile::problem::Problem;
use crate::options::{Options, Request, WhatIf};
use crate::search::instance::Instance;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use std::sync::Arc;

/// Where the bound is at most a hundredth of the plan's price below it, it is not improved.
const CLOSE_ENOUGH: i64 = 100;

/// The search for what nodes may cost more begins with this part of what a node costs on average.
const FIRST_AMOUNT_PARTS: i64 = 64;

/// A price that no plan undercuts that places the pods of `plan`, per hour. The nodes of the snapshot take what they have room for.
pub fn cost_bound(request: &Request<'_>, options: &Options, plan: &Plan) -> Price {
    certified(&relaxation(request, options, plan), plan.price())
}

/// A price that no plan undercuts that places the pods of `plan` on at most `nodes` new nodes, per hour.
///
/// If every node cost a certain amount more, such a plan would cost at most that amount for each of `nodes` more. So the bound at those prices, less
/// this sum, is one for any amount; several are tried.
pub fn cost_bound_of_nodes(request: &Request<'_>, options: &Options, plan: &Plan, nodes: usize) -> Price {
    let mut relaxed = relaxation(request, options, plan);
    let prices: Vec<i64> = relaxed.machines.iter().map(|machine| machine.price).collect();
    let most = i64::try_from(nodes).unwrap_or(i64::MAX);
    let mut bound_at = |amount: i64| {
        // A sum that is cut off would make the bound too high.
        let Some(sum) = amount.checked_mul(most).map(Price::from_pico) else {
            return Price::ZERO;
        };
        for (machine, price) in relaxed.machines.iter_mut().zip(&prices) {
            machine.price = price.saturating_add(amount);
        }
        certified(&relaxed, plan.price() + sum) - sum
    };
    let mut best = bound_at(0);
    let mut improves = |amount: i64| {
        let before = best;
        best = best.max(bound_at(amount));
        best > before
    };
    // The bound is a concave function of the amount.
    let first = plan.price().pico() / most.max(1) / FIRST_AMOUNT_PARTS;
    let mut amount = first;
    while amount > 0 && improves(amount) {
        amount = amount.saturating_mul(2);
    }
    if amount > first {
        improves(amount / 8 * 3);
        improves(amount / 4 * 3);
    }
    best
}

/// As [`cost_bound`], or `None` if the plan has more than `most` kinds of pods with different requests: finding the bound takes long then.
pub fn cost_bound_of_kinds(request: &Request<'_>, options: &Options, plan: &Plan, most: usize) -> Option<Price> {
    let relaxed = relaxation(request, options, plan);
    (relaxed.shapes.len() <= most).then(|| certified(&relaxed, plan.price()))
}

/// How much more a plan costs than the lower bound of its cost, as a share of the bound. `None` where the bound is zero.
pub fn cost_gap(bound: Price, plan: &Plan) -> Option<f64> {
    (bound > Price::ZERO).then(|| plan.price().per_hour() / bound.per_hour() - 1.0)
}

/// The linear program of the bound.
fn relaxation(request: &Request<'_>, options: &Options, plan: &Plan) -> Shapes {
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let existing = plan.existing.iter().flat_map(|placement| &placement.pods);
    let pods: Vec<Arc<Pod>> = launched.chain(existing).cloned().collect();
    let requests = pods.iter().map(|pod| &pod.shape.requests);
    let prepared = Prepared::with(request.snapshot, options, requests);
    let what_if = WhatIf {
        pods: &pods,
        ..WhatIf::from(request)
    };
    let instance = Instance::new(Problem::compile(&prepared, &what_if, options));
    shapes(&instance)
}

/// The better one of two bounds: with values at which fractions of pods fill machines, and with those at which whole pods do. The second is left out
/// where the first shows that a plan of this price is hardly dearer than the optimum.
fn certified(relaxed: &Shapes, price: Price) -> Price {
    let (values, fillings) = pod_values(&relaxed.shapes, &relaxed.machines);
    let bound = proved(relaxed, &values);
    if (price - bound).pico() <= price.pico() / CLOSE_ENOUGH {
        return bound;
    }
    let values = whole_pod_values(&relaxed.shapes, &relaxed.machines, fillings);
    bound.max(proved(relaxed, &values))
}

/// The bound from values of pods that were found in floating point, proved in integers.
fn proved(relaxed: &Shapes, values: &[f64]) -> Price {
    let Shapes {
        shapes,
        machines,
        existing,
    } = relaxed;
    let mut values = in_integers(values);
    for free in machines.iter().filter(|machine| machine.price == 0) {
        for shape in free.shapes.iter() {
            values[shape] = 0;
        }
    }
    let total = shapes
        .iter()
        .zip(&values)
        .map(|(shape, value)| i128::from(shape.count) * value);
    let mut total: i128 = total.sum();
    for node in existing {
        total -= filling_value(shapes, node, &values, 0).at_most;
    }
    if total <= 0 {
        return Price::ZERO;
    }
    // Values are lowered in proportion to the machine that exceeds its price most.
    let mut bound = total;
    for machine in machines.iter().filter(|machine| machine.price > 0) {
        let price = i128::from(machine.price);
        // One below the price, because the limit is rounded up.
        let worth = filling_value(shapes, machine, &values, price - 1).at_most;
        if worth > price {
            let lowered = total.checked_mul(price).map(|product| product / worth);
            bound = bound.min(lowered.unwrap_or(0));
        }
    }
    Price::from_pico(i64::try_from(bound).unwrap_or(i64::MAX))
}
