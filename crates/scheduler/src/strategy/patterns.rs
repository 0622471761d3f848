//! Patterns (cutting stock): opens nodes by the fillings with the highest value per dollar.
//!
//! Pods with topology, port or volume constraints are placed first, by best fit. Then, for the unconstrained pods of each spec, it
//! repeatedly opens the row whose best filling has the highest value per dollar. A filling is built greedily: always the class whose
//! requests match the free resources best, weighed by unit prices. Cost: rows × pods per node × distinct classes per pattern. A pattern is
//! used as often as its pods last.

use crate::compile::classes::{ClassId, PodClass};
use crate::compile::queue::PodId;
use crate::dense::amounts::{fits, subtract};
use crate::dense::ids::IdVec;
use crate::search::allowed::AllowedPlacement;
use crate::search::assignment::Assignment;
use crate::search::specs::SpecId;
use crate::strategy::best_fit::{BestFit, best_fit_order};
use crate::strategy::bounded_growth::BoundedGrowth;
use crate::strategy::greedy::solve;
use crate::strategy::lp_duals::{PricedType, value_of};
use crate::strategy::outcome::{Outcome, Stop};
use crate::strategy::pod_values::PodValues;
use crate::strategy::priced_start::PricedStart;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Patterns whose ratio is this close to the best are equal, and the one with the most value wins: fewer, larger nodes. README.md: 1.0
/// costs 0.02 % more.
const EQUAL_RATIO: f64 = 0.999;
/// The rows examined per pattern: the most efficient and the cheapest. README.md: fewer cheap rows cost 0.1 % more, and more rows of either
/// sort take more time for at most 0.02 %.
const EFFICIENT_TYPES: usize = 32;
const CHEAP_TYPES: usize = 16;
/// The classes examined per pattern, from the front and the back of the queue. Bounds the work; README.md: 40 to 400 cost the same.
const FRONT_CLASSES: usize = 160;
const BACK_CLASSES: usize = 40;

/// Returns whether only node requirements, taints and resources constrain the pods of a class.
fn unconstrained(class: &PodClass) -> bool {
    class.levels.iter().all(|level| level.own_groups.is_empty())
        && class.inverse_groups.is_empty()
        && class.repelling_groups.is_empty()
        && class.fixed_keys.is_empty()
        && class.shape.host_ports.is_empty()
        && class.volumes.is_empty()
}

/// Places all pods by patterns. Returns `None` where every pod has other constraints.
pub(super) fn patterns<'w, 'a>(
    start: &PricedStart<'w, 'a>,
    queue: &[PodId],
    effort: u64,
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let (problem, values) = (start.assignment.problem, &start.values);
    let unconstrained: IdVec<PodClass, bool> = problem.classes.iter().map(unconstrained).collect();
    let is_unconstrained = |pod: &PodId| problem.of_pod[*pod].is_some_and(|class| unconstrained[class]);
    let (unconstrained_pods, constrained_pods): (Vec<PodId>, Vec<PodId>) =
        queue.iter().copied().partition(is_unconstrained);
    if unconstrained_pods.is_empty() {
        return None;
    }
    let assignment = start.assignment.clone();
    let mut best_fit = BestFit::new(values, &assignment, queue);
    let constrained_pods = best_fit_order(problem, values, &constrained_pods);
    let Outcome {
        assignment: after,
        failed,
        unattempted,
        ..
    } = solve(assignment, &constrained_pods, &mut best_fit, stop);
    let mut assignment = after;
    let mut groups: BTreeMap<SpecId, Vec<ClassQueue>> = BTreeMap::new();
    let mut rest: Vec<PodId> = failed.into_iter().map(|(pod, _)| pod).chain(unattempted).collect();
    for pod in unconstrained_pods {
        let Some(class) = problem.of_pod[pod] else {
            continue;
        };
        if place_free(&mut assignment, &mut best_fit, class, pod) {
            continue;
        }
        match values.by_class[class] {
            Some((spec, _)) => enqueue(groups.entry(spec).or_default(), class, pod),
            None => rest.push(pod),
        }
    }
    for (spec, mut queues) in groups {
        open_best_patterns(&mut assignment, values, spec, &mut queues, effort, stop);
        rest.extend(queues.into_iter().flat_map(|queue_of_class| queue_of_class.pods));
    }
    let order: FxHashMap<PodId, usize> = queue.iter().enumerate().map(|(at, pod)| (*pod, at)).collect();
    rest.sort_unstable_by_key(|pod| order[pod]);
    Some(solve(assignment, &rest, &mut BoundedGrowth(values), stop))
}

/// The pods of one class still to be placed.
struct ClassQueue {
    class: ClassId,
    pods: Vec<PodId>,
}

fn enqueue(queues: &mut Vec<ClassQueue>, class: ClassId, pod: PodId) {
    match queues
        .iter_mut()
        .rev()
        .find(|queue_of_class| queue_of_class.class == class)
    {
        Some(queue_of_class) => queue_of_class.pods.push(pod),
        None => queues.push(ClassQueue { class, pods: vec![pod] }),
    }
}

/// Places an unconstrained pod on an existing node, or on a claim whose price does not rise.
fn place_free(assignment: &mut Assignment<'_, '_>, best_fit: &mut BestFit<'_>, class: ClassId, pod: PodId) -> bool {
    let allowed = AllowedPlacement::default();
    let Some(query) = assignment.query(class, 0, &allowed) else {
        return false;
    };
    if let Some(target) = assignment.first_target(&query) {
        assignment.place_on_target(target, class, pod);
        return true;
    }
    !assignment.claims.is_empty() && best_fit.place_free(assignment, &query, class, pod)
}

/// The number of pods of each class on one node, and their value per dollar.
struct Pattern {
    counts: Vec<(usize, usize)>,
    ratio: f64,
    /// The value of its pods.
    value: f64,
}

/// Opens nodes for the queues of one spec until no pod is left or no node can be opened.
fn open_best_patterns(
    assignment: &mut Assignment<'_, '_>,
    values: &PodValues,
    spec: SpecId,
    queues: &mut Vec<ClassQueue>,
    effort: u64,
    stop: Stop<'_>,
) {
    let (unit_prices, priced_types) = (&values.unit_prices[&spec], &values.priced_types[&spec]);
    let mut by_efficiency: Vec<(f64, usize)> = priced_types
        .iter()
        .enumerate()
        .map(|(at, priced_type)| {
            (
                priced_type.price / value_of(unit_prices, &priced_type.room).max(1.0),
                at,
            )
        })
        .collect();
    by_efficiency.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<usize> = by_efficiency
        .iter()
        .take(EFFICIENT_TYPES)
        .map(|entry| entry.1)
        .chain(0..priced_types.len().min(CHEAP_TYPES))
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    // Pods are taken from the end, so the oldest must be last.
    queues
        .iter_mut()
        .for_each(|queue_of_class| queue_of_class.pods.reverse());
    while !queues.is_empty() && assignment.work < effort && !stop() {
        let patterns: Vec<Pattern> = chosen
            .iter()
            .map(|at| fill(assignment, unit_prices, &priced_types[*at], queues))
            .collect();
        let most = patterns.iter().map(|pattern| pattern.ratio).fold(0.0, f64::max);
        // Among nearly equal patterns, the one that needs the fewest nodes.
        let near = patterns
            .into_iter()
            .filter(|pattern| pattern.ratio > 0.0 && pattern.ratio >= most * EQUAL_RATIO);
        let best = near.reduce(|best, next| if next.value > best.value { next } else { best });
        // The most efficient rows may be too small for the remaining pods.
        let Some(pattern) = best.or_else(|| {
            priced_types
                .iter()
                .map(|priced_type| fill(assignment, unit_prices, priced_type, queues))
                .find(|pattern| pattern.ratio > 0.0)
        }) else {
            return;
        };
        let times = pattern
            .counts
            .iter()
            .map(|(at, n)| queues[*at].pods.len() / n)
            .min()
            .unwrap_or(0);
        for _ in 0..times.max(1) {
            if !open_pattern(assignment, queues, &pattern) {
                return;
            }
        }
        queues.retain(|queue_of_class| !queue_of_class.pods.is_empty());
    }
}

/// Fills one node: always with the class that matches the free resources best.
fn fill(
    assignment: &mut Assignment<'_, '_>,
    unit_prices: &[f64],
    priced_type: &PricedType,
    queues: &[ClassQueue],
) -> Pattern {
    let problem = assignment.problem;
    let mut left = priced_type.room.clone();
    let mut counts: Vec<(usize, usize)> = Vec::new();
    let mut total = 0.0;
    let back = queues
        .len()
        .saturating_sub(BACK_CLASSES)
        .max(FRONT_CLASSES.min(queues.len()));
    let mut candidates: Vec<usize> = (0..queues.len().min(FRONT_CLASSES)).chain(back..queues.len()).collect();
    let mut used = vec![0usize; queues.len()];
    loop {
        candidates.retain(|at| used[*at] < queues[*at].pods.len() && fits(problem.requests(queues[*at].class), &left));
        assignment.work += 1 + candidates.len() as u64 / 16;
        let score = |at: usize| -> f64 {
            let requests = problem.requests(queues[at].class);
            (0..requests.len())
                .filter(|r| priced_type.room[*r] > 0)
                .map(|r| unit_prices[r] * requests[r] as f64 * (left[r] as f64 / priced_type.room[r] as f64))
                .sum()
        };
        let mut best: Option<(f64, usize)> = None;
        for at in &candidates {
            let score = score(*at);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, *at));
            }
        }
        let Some((_, at)) = best else { break };
        subtract(&mut left, problem.requests(queues[at].class));
        total += value_of(unit_prices, problem.requests(queues[at].class));
        used[at] += 1;
    }
    counts.extend(used.iter().enumerate().filter(|(_, n)| **n > 0).map(|(at, n)| (at, *n)));
    Pattern {
        counts,
        ratio: total / priced_type.price.max(1.0),
        value: total,
    }
}

/// Opens one node with the pods of a pattern, largest first.
fn open_pattern(assignment: &mut Assignment<'_, '_>, queues: &mut [ClassQueue], pattern: &Pattern) -> bool {
    let allowed = AllowedPlacement::default();
    let mut claim = None;
    for (at, n) in &pattern.counts {
        let class = queues[*at].class;
        let Some(query) = assignment.query(class, 0, &allowed) else {
            return false;
        };
        for _ in 0..*n {
            let Some(pod) = queues[*at].pods.last().copied() else {
                break;
            };
            let placed = match claim {
                None => assignment
                    .first_template(&query)
                    .map(|(template, narrowed)| claim = Some(assignment.open(template, &narrowed, class, pod)))
                    .is_ok(),
                Some(claim) => assignment
                    .try_claim(&query, claim)
                    .map(|narrowed| assignment.place_on_claim(claim, &narrowed, class, pod))
                    .is_ok(),
            };
            if placed {
                queues[*at].pods.pop();
            } else if claim.is_none() {
                return false;
            } else {
                break;
            }
        }
    }
    claim.is_some()
}
