//! Strategies over the one feasibility core: which machine a pod is offered to, and in which order.

mod by_value;
mod greedy;
mod relief;
mod snug;
mod values;

use crate::options::Packing;
use crate::run::Run;
use crate::strategy::greedy::FewestPods;
use crate::world::World;
use kerf_model::price::Price;
use std::cmp::Reverse;

/// Where a strategy got to.
#[derive(Clone, Debug)]
pub(crate) struct Outcome<'w, 'a> {
    pub(crate) run: Run<'w, 'a>,
    /// Pods that found no place, and whether only reservations were in the way.
    pub(crate) failed: Vec<(u32, bool)>,
    /// Pods not reached before the deadline.
    pub(crate) unattempted: Vec<u32>,
}

impl Outcome<'_, '_> {
    /// More pods first, then less cost.
    fn rank(&mut self) -> (Reverse<u64>, Price) {
        (Reverse(self.run.placed), self.run.cost())
    }
}

/// Runs the strategies a caller asked for, each relieved of limits it ran into, and returns the best outcome: most pods, then least cost,
/// then the earlier strategy. Strategies beyond the first run only while the effort they are likely to take is left.
pub(crate) fn best<'w, 'a>(world: &'w World<'a>, stop: &(dyn Fn() -> bool + Sync)) -> Outcome<'w, 'a> {
    let queue = greedy::queue(world);
    let mut best = greedy::solve(Run::new(world), &queue, &mut FewestPods, stop);
    if world.options.packing == Packing::Upstream || best.run.claims.is_empty() || !best.unattempted.is_empty() {
        return best;
    }
    let mut left = world.options.effort;
    best = relief::relieve(best, &queue, left, stop);
    let mut rank = best.rank();
    let strategies: [by_value::Strategy; 4] = [by_value::patterns, snug::snug, by_value::thrifty, by_value::plain];
    for strategy in strategies {
        if left < best.run.work.max(queue.len() as u64) || stop() {
            break;
        }
        let Some(mut outcome) = strategy(world, &queue, &best, left, stop) else {
            continue;
        };
        outcome = relief::relieve(outcome, &queue, left, stop);
        left = left.saturating_sub(outcome.run.work);
        let reached = outcome.rank();
        if reached < rank && outcome.unattempted.is_empty() {
            (best, rank) = (outcome, reached);
        }
    }
    best
}

/// The greedy over all pods but one.
pub(crate) fn without<'w, 'a>(world: &'w World<'a>, pod: u32) -> Outcome<'w, 'a> {
    let mut queue = greedy::queue(world);
    queue.retain(|other| *other != pod);
    greedy::solve(Run::new(world), &queue, &mut FewestPods, &|| false)
}
