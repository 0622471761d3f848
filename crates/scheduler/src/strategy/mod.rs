//! Strategies over the one feasibility core: which machine a pod is offered to, and in which order.

mod greedy;

use crate::options::Packing;
use crate::run::Run;
use crate::world::World;

/// Where a strategy got to.
#[derive(Clone, Debug)]
pub(crate) struct Outcome<'w, 'a> {
    pub(crate) run: Run<'w, 'a>,
    /// Pods that found no place, and whether only reservations were in the way.
    pub(crate) failed: Vec<(u32, bool)>,
    /// Pods not reached before the deadline.
    pub(crate) unattempted: Vec<u32>,
}

/// Runs the strategies a caller asked for and returns the best outcome: most pods, then least cost, then the earlier strategy.
pub(crate) fn best<'w, 'a>(world: &'w World<'a>, stop: &(dyn Fn() -> bool + Sync)) -> Outcome<'w, 'a> {
    let queue = greedy::queue(world);
    let first = greedy::solve(world, &queue, stop);
    match world.options.packing {
        Packing::Upstream => first,
        Packing::Cheapest => first,
    }
}
