//! What to do where limits stop a pass: a new claim takes its largest candidate off the limits of its pool (SCH-148), mostly far more than
//! it will be launched as. Here claims give back what they do not need, by giving up types much larger than the one they expect to become,
//! and pods left over are tried again, until nothing more can be placed.

use crate::bits::Bits;
use crate::launches::offered;
use crate::run::Run;
use crate::strategy::greedy::{FewestPods, solve};
use crate::strategy::{Outcome, Stop, left_over};
use crate::templates::{Template, unmet};
use crate::world::World;
use kerf_model::intern::sym;

/// How much choice claims of limited pools keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keep {
    /// Types up to twice as large as the cheapest, in every limited resource.
    Double,
    /// Types no larger than the cheapest.
    Cheapest,
    /// Types no larger than the one that takes least of the limits, which may be a dearer one.
    Least,
}

/// Loosest first: the next is tried only for pods the one before leaves over.
const STEPS: [Keep; 3] = [Keep::Double, Keep::Cheapest, Keep::Least];

/// Places more pods of an outcome that limits cut short, if claims that give back make room for them; otherwise returns it as it was.
pub(crate) fn relieve<'w, 'a>(
    mut outcome: Outcome<'w, 'a>,
    queue: &[u32],
    effort: u64,
    stop: Stop<'_>,
) -> Outcome<'w, 'a> {
    let effort = outcome.run.work.saturating_add(effort);
    for keep in STEPS {
        if outcome.failed.is_empty() || !outcome.unattempted.is_empty() || !outcome.run.limits.bind(outcome.run.world) {
            return outcome;
        }
        if let Some(better) = step(&outcome, keep, queue, effort, stop) {
            outcome = better;
        }
    }
    outcome
}

/// How often the choice is doubled for `minValues`.
const WIDER_MAX: u32 = 10;

/// Gives back and places in turn while that gets pods placed.
fn step<'w, 'a>(
    from: &Outcome<'w, 'a>,
    keep: Keep,
    queue: &[u32],
    effort: u64,
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let mut now = from.clone();
    let mut narrowed = 0;
    while !now.failed.is_empty() && now.run.work < effort && !stop() {
        let placed = now.run.placed;
        let left = left_over(now.run.world, &now.failed);
        let left: Vec<u32> = queue.iter().copied().filter(|pod| left[*pod as usize]).collect();
        if !give_back(&mut now.run, keep, narrowed) {
            break;
        }
        narrowed = now.run.claims.len();
        now = solve(now.run, &left, &mut FewestPods, stop);
        if now.run.placed == placed {
            break;
        }
    }
    (now.run.placed > from.run.placed && now.unattempted.is_empty()).then_some(now)
}

/// Narrows the claims of limited pools from `first` on and takes the limits anew; whether any are looser now.
fn give_back(run: &mut Run<'_, '_>, keep: Keep, first: usize) -> bool {
    let world = run.world;
    for at in first..run.claims.len() {
        let template = &world.templates[run.claims[at].template];
        if template.limited.is_empty() {
            continue;
        }
        if let Some(rows) = kept(run, at, template, keep) {
            run.give_up_rows(at, rows);
        }
    }
    run.retake_limits()
}

/// The rows a claim keeps, if that is fewer than it has; more than wanted where `minValues` ask for more choice.
fn kept(run: &mut Run<'_, '_>, at: usize, template: &Template, keep: Keep) -> Option<Bits> {
    let world = run.world;
    let claim = run.claims[at].clone();
    let (_, state) = offered(world, run, &claim);
    let (_, cheapest, _) = run.states.cheapest(world, state, &claim.rows)?;
    let model = match keep {
        Keep::Double | Keep::Cheapest => cheapest,
        Keep::Least => {
            let prices = run.states.prices(world, state);
            let usable = prices
                .iter()
                .map(|(_, row, _)| *row)
                .filter(|row| claim.rows.get(*row as usize));
            // The first of equals is the cheapest.
            usable.min_by(|a, b| share(world, claim.template, *a).total_cmp(&share(world, claim.template, *b)))?
        }
    };
    let types = world.types(claim.template);
    let requirements = &run.states.get(claim.state).requirements;
    let least = if keep == Keep::Double { 2 } else { 1 };
    (0..WIDER_MAX)
        .map(|step| within(world, template, &claim.rows, model, least << step))
        .find(|rows| unmet(types, requirements, rows).is_empty())
        .filter(|rows| *rows != claim.rows)
}

/// The rows that in every limited resource are at most `times` as large as `model`.
pub(crate) fn within(world: &World<'_>, template: &Template, rows: &Bits, model: u32, times: i64) -> Bits {
    let model = &world.catalogues[template.catalogue]
        .instance_type(model as usize)
        .capacity;
    let mut rows = rows.clone();
    for limit in &template.limited {
        let most = model.get(limit.name).saturating_mul(times);
        for (_, row) in limit.largest.iter().take_while(|(capacity, _)| *capacity > most) {
            rows.remove(*row as usize);
        }
    }
    rows
}

/// The largest part of what some limit leaves that one machine of a row takes.
pub(crate) fn share(world: &World<'_>, number: usize, row: u32) -> f64 {
    let template = &world.templates[number];
    let capacity = &world.types(number).instance_type(row as usize).capacity;
    let limits = template.limited.iter().zip(world.limits.left(number));
    let taken = |name| if name == sym::NODES { 1 } else { capacity.get(name) };
    let parts = limits.map(|(limit, left)| taken(limit.name) as f64 / (*left).max(1) as f64);
    parts.fold(0.0, f64::max)
}
