//! Bounded growth: the greedy, but a claim grows only as long as its price is at most the value of its pods.

use crate::compile::classes::ClassId;
use crate::compile::queue::PodId;
use crate::compile::topology::ClaimId;
use crate::search::assignment::Assignment;
use crate::search::query::{Narrowed, Query};
use crate::strategy::greedy::{Attempt, ClaimChooser, place_on_new_claim, place_on_open_claim, solve};
use crate::strategy::outcome::{Outcome, Stop};
use crate::strategy::pod_values::PodValues;
use crate::strategy::priced_start::PricedStart;

/// A claim may cost at most this factor of the value of its pods. Above one, because the last pod of a node rarely fills it exactly.
/// README.md: 1.0 to 1.2 cost the same on the benchmark rows.
const PRICE_TOLERANCE: f64 = 1.05;

/// Chooses the claim with the fewest pods whose growth pays, else a new one, else any claim.
pub(crate) struct BoundedGrowth<'x>(pub(crate) &'x PodValues);

impl ClaimChooser for BoundedGrowth<'_> {
    fn place(&mut self, assignment: &mut Assignment<'_, '_>, query: &Query<'_>, class: ClassId, pod: PodId) -> Attempt {
        let growth_pays = |assignment: &mut Assignment<'_, '_>, claim: ClaimId, narrowed: &Narrowed| {
            growth_pays(self.0, assignment, claim, narrowed, class)
        };
        if place_on_open_claim(assignment, query, class, pod, growth_pays) {
            return Attempt::Placed;
        }
        match place_on_new_claim(assignment, query, class, pod) {
            Attempt::Failed if place_on_open_claim(assignment, query, class, pod, |_, _, _| true) => Attempt::Placed,
            attempt @ (Attempt::Placed | Attempt::Failed | Attempt::Deferred) => attempt,
        }
    }
}

/// Returns whether the price of `narrowed` is covered by the value of the pods.
fn growth_pays(
    values: &PodValues,
    assignment: &mut Assignment<'_, '_>,
    claim: ClaimId,
    narrowed: &Narrowed,
    class: ClassId,
) -> bool {
    let problem = assignment.problem;
    if assignment.work > values.effort {
        return true;
    }
    let Some((_, value)) = values.by_class[class] else {
        return true;
    };
    let Some((after, _, _)) = assignment.specs.cheapest(problem, narrowed.spec, &narrowed.rows) else {
        return true;
    };
    let before = assignment.price_of(claim);
    let rise = (after - before).pico() as f64;
    if rise <= value * PRICE_TOLERANCE {
        return true;
    }
    let members = &assignment.claims[claim].members;
    let value_before: f64 = members
        .iter()
        .filter_map(|(class, n)| Some(values.by_class[*class]?.1 * f64::from(*n)))
        .sum();
    let node_cost = values.node_costs[assignment.claims[claim].template];
    after.pico() as f64 + node_cost as f64 <= (value_before + value) * PRICE_TOLERANCE
}

/// Runs the greedy with bounded growth.
pub(super) fn bounded_growth<'w, 'a>(
    start: &PricedStart<'w, 'a>,
    queue: &[PodId],
    _: u64,
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    Some(solve(
        start.assignment.clone(),
        queue,
        &mut BoundedGrowth(&start.values),
        stop,
    ))
}
