//! The proof of the bound, in integers.

use crate::bound::duals::{fill_prices, pod_values};
use crate::bound::machines::{Machine, Shape, Shapes, shapes};
use crate::compile::prepared::Prepared;
use crate::compile::problem::Problem;
use crate::options::{Options, Request, WhatIf};
use crate::search::instance::Instance;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use std::sync::Arc;

/// The binary digits after the point of unit prices.
const FRACTION: u32 = 40;

/// A price that no plan undercuts that places the pods of `plan`, per hour. The nodes of the snapshot take what they have room for.
pub fn cost_bound(request: &Request<'_>, options: &Options, plan: &Plan) -> Price {
    certified(&relaxation(request, options, plan))
}

/// The same, or `None` if the plan has more than `most` kinds of pods with different requests: finding the bound takes long then.
pub fn cost_bound_of_kinds(request: &Request<'_>, options: &Options, plan: &Plan, most: usize) -> Option<Price> {
    let relaxed = relaxation(request, options, plan);
    (relaxed.shapes.len() <= most).then(|| certified(&relaxed))
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

/// The bound from values of pods that are found in floating point and proved in integers.
fn certified(relaxed: &Shapes) -> Price {
    let Shapes {
        shapes,
        machines,
        existing,
    } = relaxed;
    let mut values: Vec<i128> = pod_values(shapes, machines)
        .into_iter()
        .map(|value| value.max(0.0) as i128)
        .collect();
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
        total -= worth_at_most(shapes, node, &values);
    }
    if total <= 0 {
        return Price::ZERO;
    }
    // Values are lowered in proportion to the machine that exceeds its price most.
    let mut bound = total;
    for machine in machines.iter().filter(|machine| machine.price > 0) {
        let worth = worth_at_most(shapes, machine, &values);
        if worth > i128::from(machine.price) {
            let lowered = total
                .checked_mul(i128::from(machine.price))
                .map(|product| product / worth);
            bound = bound.min(lowered.unwrap_or(0));
        }
    }
    Price::from_pico(i64::try_from(bound).unwrap_or(i64::MAX))
}

/// A value that the pods on one machine never exceed: that of its room at some unit prices, and of what pods are worth beyond those.
fn worth_at_most(shapes: &[Shape], machine: &Machine, values: &[i128]) -> i128 {
    let unit_prices: Vec<i128> = fill_prices(shapes, machine, values)
        .into_iter()
        .map(|price| (price.max(0.0) * (1u64 << FRACTION) as f64).ceil() as i128)
        .collect();
    let mut worth: i128 = 0;
    for (price, room) in unit_prices.iter().zip(&machine.room) {
        worth = worth.saturating_add(price.saturating_mul(i128::from(*room)));
    }
    // Rounded up.
    worth = (worth >> FRACTION).saturating_add(1);
    for shape in machine.shapes.iter() {
        let mut covered: i128 = 0;
        for (price, request) in unit_prices.iter().zip(&shapes[shape].requests) {
            let product = price.checked_mul(i128::from((*request).max(0))).unwrap_or(0);
            covered = covered.saturating_add(product);
        }
        let beyond = (values[shape] - (covered >> FRACTION)).max(0);
        worth = worth.saturating_add(beyond.saturating_mul(i128::from(shapes[shape].count)));
    }
    worth
}
