//! The greedy with growth only where it pays: a claim becomes no dearer than what its pods are worth.

use crate::classes::ClassId;
use crate::run::{Ask, Fit, Run};
use crate::strategy::greedy::{Attempt, Choose, join, open, solve};
use crate::strategy::values::Values;
use crate::strategy::{Outcome, Start, Stop};

/// How much dearer than the value it brings a growth may be.
const SLACK: f64 = 1.05;

/// The claim with the fewest pods that pays, else a new one; better a dear place than none.
pub(crate) struct Thrifty<'x>(pub(crate) &'x Values);

impl Choose for Thrifty<'_> {
    fn place(&mut self, run: &mut Run<'_, '_>, ask: &Ask<'_>, class: ClassId, pod: u32) -> Attempt {
        let pays = |run: &mut Run<'_, '_>, claim: usize, fit: &Fit| pays(self.0, run, claim, fit, class);
        if join(run, ask, class, pod, pays) {
            return Attempt::Placed;
        }
        match open(run, ask, class, pod) {
            Attempt::Failed if join(run, ask, class, pod, |_, _, _| true) => Attempt::Placed,
            done => done,
        }
    }
}

/// Whether letting `claim` become `fit` for a pod of `class` is worth what it costs.
fn pays(values: &Values, run: &mut Run<'_, '_>, claim: usize, fit: &Fit, class: ClassId) -> bool {
    let world = run.world;
    if run.work > values.effort {
        return true;
    }
    let Some((_, worth)) = values.by_class[class as usize] else {
        return true;
    };
    let Some((after, _, _)) = run.states.cheapest(world, fit.state, &fit.rows) else {
        return true;
    };
    let before = run.price_of(claim);
    let rise = (after - before).pico() as f64;
    if rise <= worth * SLACK {
        return true;
    }
    let members = &run.claims[claim].members;
    let held: f64 = members
        .iter()
        .filter_map(|(class, n)| Some(values.by_class[*class as usize]?.1 * f64::from(*n)))
        .sum();
    after.pico() as f64 <= (held + worth) * SLACK
}

/// The greedy with growth only where it pays.
pub(super) fn thrifty<'w, 'a>(start: &Start<'w, 'a>, queue: &[u32], _: u64, stop: Stop<'_>) -> Option<Outcome<'w, 'a>> {
    Some(solve(start.run.clone(), queue, &mut Thrifty(&start.values), stop))
}
