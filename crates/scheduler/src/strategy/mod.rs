//! Strategies over the one feasibility core: which machine a pod is offered to, and in which order.

mod frugal;
mod greedy;
mod minimal;
mod patterns;
mod relief;
mod shelves;
mod snug;
mod thrifty;
mod values;
mod worth;

use crate::options::Packing;
use crate::run::Run;
use crate::strategy::greedy::FewestPods;
use crate::strategy::values::Values;
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

/// Says whether the deadline has come.
pub(crate) type Stop<'x> = &'x (dyn Fn() -> bool + Sync);

/// Where strategies that weigh prices start.
struct Start<'w, 'a> {
    run: Run<'w, 'a>,
    values: Values,
}

impl<'w, 'a> Start<'w, 'a> {
    fn new(world: &'w World<'a>, queue: &[u32], effort: u64) -> Self {
        let mut run = Run::by_price(world);
        let values = Values::new(&mut run, queue, effort);
        Self { run, values }
    }
}

/// A strategy: from a start, a queue and effort to an outcome; nothing where it does not apply.
type Strategy = for<'w, 'a> fn(&Start<'w, 'a>, &[u32], u64, Stop<'_>) -> Option<Outcome<'w, 'a>>;

/// By pod: whether it is left over.
fn left_over(world: &World<'_>, failed: &[(u32, bool)]) -> Vec<bool> {
    let mut left = vec![false; world.pods.len()];
    for (pod, _) in failed {
        left[*pod as usize] = true;
    }
    left
}

/// Beyond so many pods, strategies that hardly ever win there are left out.
const FEW_PODS: usize = 2000;

/// Strategies besides the greedy. Of equally good outcomes the earlier one wins.
const STRATEGIES: [Strategy; 4] = [patterns::patterns, snug::snug, thrifty::thrifty, greedy::plain];

/// Runs the strategies a caller asked for, each relieved of limits it ran into, and returns the best outcome: most pods, then least cost,
/// then the earlier strategy. What a strategy does depends on no other, so that they may run side by side.
pub(crate) fn best<'w, 'a>(world: &'w World<'a>, stop: Stop<'_>) -> Outcome<'w, 'a> {
    let queue = &world.queue;
    let mut best = greedy::solve(Run::new(world), queue, &mut FewestPods, stop);
    if world.options.packing == Packing::Upstream || best.run.claims.is_empty() || !best.unattempted.is_empty() {
        return best;
    }
    let effort = world.options.effort;
    best = relief::relieve(best, queue, effort, stop);
    if effort < queue.len() as u64 || minimal::minimal(&mut best) {
        return best;
    }
    let mut rank = best.rank();
    let strategies = if queue.len() > FEW_PODS {
        &STRATEGIES[..2]
    } else {
        &STRATEGIES
    };
    let start = Start::new(world, queue, effort);
    let run = |strategy: &Strategy| {
        let outcome = (!stop()).then(|| strategy(&start, queue, effort, stop)).flatten()?;
        let mut outcome = relief::relieve(outcome, queue, effort, stop);
        Some((outcome.rank(), outcome))
    };
    for (reached, outcome) in side_by_side(strategies, world.options.threads, run)
        .into_iter()
        .flatten()
    {
        if reached < rank && outcome.unattempted.is_empty() {
            (best, rank) = (outcome, reached);
        }
    }
    if !best.failed.is_empty() {
        for outcome in frugal::frugal(world, queue, &best.failed.clone(), effort, stop) {
            let mut outcome = relief::relieve(outcome, queue, effort, stop);
            let reached = outcome.rank();
            if reached < rank && outcome.unattempted.is_empty() {
                (best, rank) = (outcome, reached);
            }
        }
    }
    best
}

/// The results of `work` on each item, in their order, from so many threads.
fn side_by_side<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut results = Vec::with_capacity(items.len());
    for together in items.chunks(threads.max(1)) {
        let Some((first, others)) = together.split_first() else {
            continue;
        };
        std::thread::scope(|scope| {
            let work = &work;
            let others: Vec<_> = others.iter().map(|item| scope.spawn(move || work(item))).collect();
            results.push(work(first));
            for other in others {
                match other.join() {
                    Ok(result) => results.push(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }
    results
}

/// The greedy over all pods but one.
pub(crate) fn without<'w, 'a>(world: &'w World<'a>, pod: u32) -> Outcome<'w, 'a> {
    let mut queue = world.queue.clone();
    queue.retain(|other| *other != pod);
    greedy::solve(Run::new(world), &queue, &mut FewestPods, &|| false)
}
