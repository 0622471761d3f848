//! The most pods where limits or room run out: a machine is opened at the size that holds most of its pod's kind for what it takes of the
//! limits, and stays that small, so that nothing is set aside for what it will not become; and orders other than that of size are tried.

use crate::bits::Bits;
use crate::classes::{Class, ClassId};
use crate::run::{Ask, Fit, Run};
use crate::strategy::greedy::{Attempt, Choose, FewestPods, join, solve};
use crate::strategy::relief::{share, within};
use crate::strategy::{Outcome, Stop, left_over};
use crate::world::World;

/// Other outcomes where pods are left over: as before but frugal, those left over first, the small ones first. The search ends with one that
/// leaves none over.
pub(crate) fn frugal<'w, 'a>(
    world: &'w World<'a>,
    queue: &[u32],
    failed: &[(u32, bool)],
    effort: u64,
    stop: Stop<'_>,
) -> Vec<Outcome<'w, 'a>> {
    let mut outcomes: Vec<Outcome<'w, 'a>> = Vec::new();
    if !hopeful(world, failed) {
        return outcomes;
    }
    let late = left_over(world, failed);
    let (mut late_first, rest): (Vec<u32>, Vec<u32>) = queue.iter().partition(|pod| late[**pod as usize]);
    late_first.extend(rest);
    let small_first: Vec<u32> = queue.iter().rev().copied().collect();
    for queue in [queue, &late_first, &small_first] {
        let spent: u64 = outcomes.iter().map(|outcome| outcome.run.work).sum();
        if spent >= effort || stop() || outcomes.last().is_some_and(|outcome| outcome.failed.is_empty()) {
            break;
        }
        let mut frugal = Frugal {
            left: vec![0; world.classes.len()],
            effort: effort - spent,
        };
        for class in queue.iter().filter_map(|pod| world.of_pod[*pod as usize]) {
            frugal.left[class as usize] += 1;
        }
        outcomes.push(solve(Run::by_price(world), queue, &mut frugal, stop));
    }
    outcomes
}

/// Whether some pod left over would have had a place before the others came.
fn hopeful(world: &World<'_>, failed: &[(u32, bool)]) -> bool {
    let mut seen = vec![false; world.classes.len()];
    let first_of_class = |(pod, deferred): &(u32, bool)| {
        let class = world.of_pod[*pod as usize]? as usize;
        (!deferred && !std::mem::replace(&mut seen[class], true)).then_some(*pod)
    };
    let firsts: Vec<u32> = failed.iter().filter_map(first_of_class).collect();
    solve(Run::new(world), &firsts, &mut FewestPods, &|| false).run.placed > 0
}

struct Frugal {
    /// Per class: pods that may still come.
    left: Vec<i64>,
    /// Beyond this much work sizes are not compared.
    effort: u64,
}

impl Choose for Frugal {
    fn place(&mut self, run: &mut Run<'_, '_>, ask: &Ask<'_>, class: ClassId, pod: u32) -> Attempt {
        let attempt = if join(run, ask, class, pod, |_, _, _| true) {
            Attempt::Placed
        } else {
            self.open(run, ask, class, pod)
        };
        if attempt == Attempt::Placed {
            self.left[class as usize] -= 1;
        }
        attempt
    }
}

impl Frugal {
    fn open(&self, run: &mut Run<'_, '_>, ask: &Ask<'_>, class: ClassId, pod: u32) -> Attempt {
        match run.first_template(ask) {
            Ok((template, fit)) => {
                let fit = self.sized(run, ask, template, class, fit);
                run.open(template, &fit, class, pod);
                Attempt::Placed
            }
            Err(no) => no.into(),
        }
    }

    /// The fit without types that take more of a limit than the one that makes most of it.
    fn sized(&self, run: &mut Run<'_, '_>, ask: &Ask<'_>, number: usize, class: ClassId, fit: Fit) -> Fit {
        let world = run.world;
        let template = &world.templates[number];
        if template.limited.is_empty() || run.work > self.effort {
            return fit;
        }
        run.work += fit.rows.len() as u64 / 16;
        let most = if lonely(ask) {
            1
        } else {
            self.left[class as usize].max(1)
        };
        let mut best: Option<(f64, u32)> = None;
        // Cheapest first, so that the cheapest of equals is chosen.
        for (_, row, _) in run.states.prices(world, fit.state) {
            if !fit.rows.get(*row as usize) {
                continue;
            }
            let pods = holds(world, number, *row as usize, ask.class).min(most) as f64;
            let density = pods / share(world, number, *row).max(f64::MIN_POSITIVE);
            if best.is_none_or(|(known, _)| density > known * (1.0 + f64::EPSILON)) {
                best = Some((density, *row));
            }
        }
        let Some((_, model)) = best else { return fit };
        let rows: Bits = within(world, template, &fit.rows, model, 1);
        run.narrowed(&fit, rows).unwrap_or(fit)
    }
}

/// Whether pods of a kind may not share a machine.
fn lonely(ask: &Ask<'_>) -> bool {
    !(ask.allowed.apart.is_empty() && ask.allowed.host_spread.is_empty() && ask.class.shape.host_ports.is_empty())
}

/// How many pods of a class a machine of a row holds by itself.
fn holds(world: &World<'_>, number: usize, row: usize, class: &Class) -> i64 {
    let of_each = world.usable(number, row).zip(&class.requests);
    let counts = of_each.filter(|(_, wanted)| **wanted > 0);
    counts.map(|(usable, wanted)| usable / wanted).min().unwrap_or(i64::MAX)
}
