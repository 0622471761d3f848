//! The portfolio: runs the strategies, combines their outcomes and keeps the best.

use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::parallel::run_in_parallel;
use crate::search::assignment::Assignment;
use crate::search::instance::Instance;
use crate::strategy::best_fit::best_fit;
use crate::strategy::bounded_growth::bounded_growth;
use crate::strategy::combination::{combine, join};
use crate::strategy::greedy::{FewestPods, greedy_by_price, solve};
use crate::strategy::independent::independent_parts;
use crate::strategy::limit_retry::retry_limits;
use crate::strategy::lower_bound::lower_bound;
use crate::strategy::max_pods::max_pods;
use crate::strategy::objective::{Aim, Objective, Rank};
use crate::strategy::outcome::{Outcome, Stop, Strategy};
use crate::strategy::patterns::patterns;
use crate::strategy::priced_start::PricedStart;
use crate::strategy::repacking::repack;
use kerf_model::price::Price;
use kerf_units::policy::Packing;
use std::cmp::Reverse;

/// The algorithm of a strategy: computes an outcome from a start, a queue and an effort. Returns `None` where it does not apply.
type Algorithm = for<'w, 'a> fn(&PricedStart<'w, 'a>, &[PodId], u64, Stop<'_>) -> Option<Outcome<'w, 'a>>;

/// With more pods than this, only the first two strategies run. README.md: without the bound, plans cost the same and take a quarter more
/// time; the others win only small inputs.
pub(super) const PRICED_PODS_MAX: usize = 2000;

/// With more pods than this, cheapest packing does not search for the best balanced outcome, too: it would take twice as long.
const BOTH_AIMS_PODS_MAX: usize = 10_000;

/// The strategies after the greedy. Of equal outcomes the earlier one wins.
const STRATEGIES: [(Strategy, Algorithm); 4] = [
    (Strategy::Patterns, patterns),
    (Strategy::BestFit, best_fit),
    (Strategy::BoundedGrowth, bounded_growth),
    (Strategy::GreedyByPrice, greedy_by_price),
];

/// The shares of what an extra node must save that strategies add to the price of a node. The later ones are tried only where the earlier
/// ones need too many nodes.
const EXTRA_NODE_SHARES: [f64; 3] = [0.0, 0.25, 1.0];

/// The best outcome, and what it was compared with.
#[derive(Debug)]
pub(crate) struct Ranked<'w, 'a> {
    pub(crate) best: Outcome<'w, 'a>,
    /// The measure by which outcomes are compared. `None` where only the greedy ran.
    pub(crate) objective: Option<Objective>,
    /// The other outcomes that may be planned, in the order of their ranks. Empty unless the options ask for forecasts.
    pub(crate) others: Vec<(Rank, Outcome<'w, 'a>)>,
}

impl<'w, 'a> Ranked<'w, 'a> {
    fn only(best: Outcome<'w, 'a>) -> Self {
        Self {
            best,
            objective: None,
            others: Vec::new(),
        }
    }

    /// Keeps an outcome that is not the best.
    fn note(&mut self, rank: Rank, outcome: Outcome<'w, 'a>) {
        self.others.push((rank, outcome));
    }

    /// Makes an outcome the best.
    fn replace(&mut self, rank: Rank, outcome: Outcome<'w, 'a>) {
        let before = std::mem::replace(&mut self.best, outcome);
        self.note(rank, before);
    }

    /// The outcomes to improve by repacking: the best, and the cheapest of those with more nodes than a plan may have, if it is cheaper.
    fn repacking_bases(&mut self, objective: &Objective) -> Vec<&Outcome<'w, 'a>> {
        let order = |outcome: &mut Outcome<'w, 'a>| (Reverse(outcome.assignment.placed), outcome.assignment.cost());
        let best = order(&mut self.best);
        let others = self.others.iter_mut().enumerate();
        let crowded = others
            .filter(|(_, (_, outcome))| outcome.unattempted.is_empty() && objective.exceeded_by(outcome))
            .map(|(at, (_, outcome))| (order(outcome), at));
        let cheaper = crowded.min().filter(|(order, _)| *order < best);
        let cheaper = cheaper.map(|(_, at)| &self.others[at].1);
        std::iter::once(&self.best).chain(cheaper).collect()
    }

    /// Sorts the outcomes that are not the best, if the options ask for forecasts, else drops them.
    fn keep_for_forecasts(&mut self, problem: &Problem<'_>) {
        let forecasts = problem.options.forecast_binding;
        self.others
            .retain(|(_, outcome)| forecasts && outcome.unattempted.is_empty());
        self.others.sort_by_key(|(rank, _)| *rank);
    }
}

/// The outcome of the greedy where no other strategy may be better, else the best outcome of all. Parts of the queue that do not affect each
/// other are planned one by one, and small queues as a whole, too: the number of nodes is bounded for a plan, so that a part may take nodes
/// that another leaves.
pub(crate) fn ranked<'w, 'a>(instance: &'w Instance<'a>, stop: Stop<'_>) -> Ranked<'w, 'a> {
    let problem = &instance.problem;
    let mut greedy = solve(Assignment::new(instance), &problem.queue, &mut FewestPods, stop);
    if is_final(instance, &mut greedy) {
        return Ranked::only(greedy);
    }
    let parts = independent_parts(instance, &problem.queue);
    let apart = parts.and_then(|parts| best_of_parts(instance, &parts, &mut greedy, stop));
    let Some(mut apart) = apart else {
        return ranked_of_aims(instance, &problem.queue, greedy, stop);
    };
    let objective = Objective::new(problem, &mut greedy, Aim::Configured);
    if problem.queue.len() > PRICED_PODS_MAX {
        return Ranked {
            objective: Some(objective),
            ..Ranked::only(apart)
        };
    }
    let mut ranked = ranked_of_aims(instance, &problem.queue, greedy, stop);
    // A plan for several parts has no higher price than the plans for each, whatever its nodes cost besides.
    let order = |outcome: &mut Outcome<'_, '_>| (Reverse(outcome.assignment.placed), outcome.assignment.cost());
    let (of_apart, of_whole) = (objective.rank(&mut apart), objective.rank(&mut ranked.best));
    if of_whole < of_apart && order(&mut ranked.best) <= order(&mut apart) {
        ranked.note(of_apart, apart);
    } else {
        ranked.replace(of_whole, apart);
    }
    ranked.objective.get_or_insert(objective);
    ranked.keep_for_forecasts(problem);
    ranked
}

/// The best outcome of a queue. Under cheapest packing the search for the best balanced outcome runs, too, and the cheaper one is kept:
/// searches with and without a cost per node go different ways.
fn ranked_of_aims<'w, 'a>(
    instance: &'w Instance<'a>,
    queue: &[PodId],
    mut greedy: Outcome<'w, 'a>,
    stop: Stop<'_>,
) -> Ranked<'w, 'a> {
    let problem = &instance.problem;
    let other_aim = Aim::BalancedForCheapest;
    if queue.len() > BOTH_AIMS_PODS_MAX || !other_aim.differs(problem) {
        return ranked_from(instance, queue, greedy, Aim::Configured, stop);
    }
    let mut ranked = ranked_from(instance, queue, greedy.clone(), Aim::Configured, stop);
    if stop() {
        return ranked;
    }
    let mut other = ranked_from(instance, queue, greedy.clone(), other_aim, stop).best;
    let of_greedy = || Objective::new(problem, &mut greedy, Aim::Configured);
    let objective = ranked.objective.clone().unwrap_or_else(of_greedy);
    let (rank, reached) = (objective.rank(&mut ranked.best), objective.rank(&mut other));
    if reached < rank && other.unattempted.is_empty() {
        ranked.replace(rank, other);
    } else {
        ranked.note(reached, other);
    }
    ranked.keep_for_forecasts(problem);
    ranked
}

/// Returns whether no other strategy may take the place of the greedy.
fn is_final(instance: &Instance<'_>, greedy: &mut Outcome<'_, '_>) -> bool {
    let problem = &instance.problem;
    let none_better = |packing: Option<Packing>| packing.unwrap_or(problem.options.packing) == Packing::Upstream;
    let mut templates = problem.templates.iter();
    templates.all(|template| none_better(template.pool.packing.packing))
        || greedy.assignment.claims.is_empty()
        || !greedy.unattempted.is_empty()
        || Objective::new(problem, greedy, Aim::Configured).launches_as_upstream(greedy)
}

/// The best outcomes of parts that do not affect each other, as one. Returns `None` where it is not as good as they are, or not as good as
/// the greedy.
fn best_of_parts<'w, 'a>(
    instance: &'w Instance<'a>,
    parts: &[Vec<PodId>],
    greedy: &mut Outcome<'w, 'a>,
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let problem = &instance.problem;
    let mut outcomes = Vec::with_capacity(parts.len());
    for part in parts {
        let mut greedy = solve(Assignment::new(instance), part, &mut FewestPods, stop);
        let outcome = match is_final(instance, &mut greedy) {
            true => greedy,
            false => ranked_of_aims(instance, part, greedy, stop).best,
        };
        outcomes.push(outcome);
    }
    if stop() {
        return None;
    }
    let mut joined = join(&outcomes, instance, &problem.queue, stop);
    if !joined.assignment.narrow_to_limits() {
        return None;
    }
    let mut joined = retry_limits(joined, &problem.queue, problem.options.effort, stop);
    let placed: u64 = outcomes.iter().map(|outcome| outcome.assignment.placed).sum();
    let cost: Price = outcomes.iter_mut().map(|outcome| outcome.assignment.cost()).sum();
    let is_as_good = joined.assignment.placed >= placed.max(greedy.assignment.placed)
        && joined.assignment.cost() <= cost
        && (joined.assignment.placed > greedy.assignment.placed || cost <= greedy.assignment.cost());
    (is_as_good && joined.unattempted.is_empty()).then_some(joined)
}

/// Runs the strategies of the options on a queue, each with limit retry. The best outcome places most pods, then has the lowest cost, then is
/// of the earlier strategy. Strategies do not depend on each other, so that they may run in parallel.
fn ranked_from<'w, 'a>(
    instance: &'w Instance<'a>,
    queue: &[PodId],
    mut best: Outcome<'w, 'a>,
    aim: Aim,
    stop: Stop<'_>,
) -> Ranked<'w, 'a> {
    let problem = &instance.problem;
    let effort = problem.options.effort;
    best = retry_limits(best, queue, effort, stop);
    if effort < queue.len() as u64 || lower_bound(&mut best) {
        return Ranked::only(best);
    }
    let objective = Objective::new(problem, &mut best, aim);
    let mut rank = objective.rank(&mut best);
    let mut ranked = Ranked::only(best);
    let strategies = if queue.len() > PRICED_PODS_MAX {
        &STRATEGIES[..2]
    } else {
        &STRATEGIES
    };
    let mut values_of_best = None;
    for share_of_extra in EXTRA_NODE_SHARES {
        let start = PricedStart::new(instance, queue, effort, objective.node_costs(share_of_extra));
        let run = |(strategy, algorithm): &(Strategy, Algorithm)| {
            let mut outcome = (!stop()).then(|| algorithm(&start, queue, effort, stop)).flatten()?;
            outcome.strategy = *strategy;
            if !outcome.assignment.narrow_to_limits() {
                return None;
            }
            let mut outcome = retry_limits(outcome, queue, effort, stop);
            Some((objective.rank(&mut outcome), outcome))
        };
        let mut exceeded = false;
        for (reached, outcome) in run_in_parallel(strategies, problem.options.threads, run)
            .into_iter()
            .flatten()
        {
            exceeded |= objective.exceeded_by(&outcome);
            if objective.launches_as_upstream(&outcome) {
                continue;
            }
            if reached < rank && outcome.unattempted.is_empty() {
                ranked.replace(std::mem::replace(&mut rank, reached), outcome);
            } else {
                ranked.note(reached, outcome);
            }
        }
        values_of_best.get_or_insert(start);
        if !exceeded {
            break;
        }
    }
    if !ranked.best.failed.is_empty() {
        for outcome in max_pods(instance, queue, &ranked.best.failed.clone(), effort, stop) {
            let mut outcome = retry_limits(outcome, queue, effort, stop);
            outcome.strategy = Strategy::MaxPods;
            let reached = objective.rank(&mut outcome);
            let allowed = !objective.launches_as_upstream(&outcome) && outcome.unattempted.is_empty();
            if reached < rank && allowed {
                ranked.replace(std::mem::replace(&mut rank, reached), outcome);
            }
        }
    }
    for share_of_extra in EXTRA_NODE_SHARES {
        let Some(start) = values_of_best.as_ref().filter(|_| !stop()) else {
            break;
        };
        let others = ranked.others.iter_mut().map(|(_, outcome)| outcome);
        let mut outcomes: Vec<_> = std::iter::once(&mut ranked.best).chain(others).collect();
        outcomes.retain(|outcome| outcome.unattempted.is_empty());
        let node_costs = objective.node_costs(share_of_extra);
        let combined = combine(&mut outcomes, start, &node_costs, queue, stop);
        let Some(mut outcome) = combined.filter(|outcome| outcome.unattempted.is_empty()) else {
            break;
        };
        let exceeded = objective.exceeded_by(&outcome);
        if outcome.assignment.narrow_to_limits() && !objective.launches_as_upstream(&outcome) {
            let mut outcome = retry_limits(outcome, queue, effort, stop);
            let reached = objective.rank(&mut outcome);
            if reached < rank && outcome.unattempted.is_empty() {
                ranked.replace(std::mem::replace(&mut rank, reached), outcome);
            }
        }
        if !exceeded {
            break;
        }
    }
    if let Some(start) = values_of_best.filter(|_| !stop()) {
        let bases = ranked.repacking_bases(&objective);
        let one = |base: &&Outcome<'w, 'a>| {
            let mut outcome = repack(base, &start, &objective, queue, stop)?;
            outcome.limit_retried = base.limit_retried;
            (outcome.unattempted.is_empty() && outcome.assignment.narrow_to_limits()).then_some(outcome)
        };
        let repacked = run_in_parallel(&bases, problem.options.threads, one);
        for mut outcome in repacked.into_iter().flatten() {
            let reached = objective.rank(&mut outcome);
            if reached < rank {
                ranked.replace(std::mem::replace(&mut rank, reached), outcome);
            }
        }
    }
    ranked.keep_for_forecasts(problem);
    ranked.objective = Some(objective);
    ranked
}
