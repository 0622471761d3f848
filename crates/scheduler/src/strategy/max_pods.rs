//! Max pods: places as many pods as possible where limits or capacity run out. A claim is opened with the row that fits most pods of the
//! class per share of the limits, and stays that small. Besides the order by size, other orders are tried.

use crate::compile::catalogue::{RowId, TypeRow};
use crate::compile::classes::{ClassId, PodClass};
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::templates::TemplateId;
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use crate::search::assignment::Assignment;
use crate::search::instance::Instance;
use crate::search::query::{Narrowed, Query};
use crate::strategy::greedy::{Attempt, ClaimChooser, FewestPods, place_on_open_claim, solve};
use crate::strategy::limit_retry::{share, within};
use crate::strategy::outcome::{Outcome, Stop, left_over};

/// Further outcomes for a queue of which some pods failed: in the order of the queue, with the failed pods first, and from the smallest pod
/// on. Stops after an outcome without failed pods.
pub(crate) fn max_pods<'w, 'a>(
    instance: &'w Instance<'a>,
    queue: &[PodId],
    failed: &[(PodId, bool)],
    effort: u64,
    stop: Stop<'_>,
) -> Vec<Outcome<'w, 'a>> {
    let mut outcomes: Vec<Outcome<'w, 'a>> = Vec::new();
    let problem = &instance.problem;
    if !some_pod_would_fit(instance, failed) {
        return outcomes;
    }
    let late = left_over(problem, failed);
    let (mut late_first, rest): (Vec<PodId>, Vec<PodId>) = queue.iter().partition(|pod| late[**pod]);
    late_first.extend(rest);
    let small_first: Vec<PodId> = queue.iter().rev().copied().collect();
    for queue in [queue, &late_first, &small_first] {
        let work_done: u64 = outcomes.iter().map(|outcome| outcome.assignment.work).sum();
        if work_done >= effort || stop() || outcomes.last().is_some_and(|outcome| outcome.failed.is_empty()) {
            break;
        }
        let mut max_pods = MaxPods {
            left: IdVec::filled(0, problem.classes.len()),
            effort: effort - work_done,
        };
        for class in queue.iter().filter_map(|pod| problem.of_pod[*pod]) {
            max_pods.left[class] += 1;
        }
        outcomes.push(solve(Assignment::by_price(instance), queue, &mut max_pods, stop));
    }
    outcomes
}

/// Returns whether some failed pod fits an empty assignment.
fn some_pod_would_fit(instance: &Instance<'_>, failed: &[(PodId, bool)]) -> bool {
    let problem = &instance.problem;
    let mut seen: IdVec<PodClass, bool> = IdVec::filled(false, problem.classes.len());
    let first_of_class = |(pod, deferred): &(PodId, bool)| {
        let class = problem.of_pod[*pod]?;
        (!deferred && !std::mem::replace(&mut seen[class], true)).then_some(*pod)
    };
    let firsts: Vec<PodId> = failed.iter().filter_map(first_of_class).collect();
    solve(Assignment::new(instance), &firsts, &mut FewestPods, &|| false)
        .assignment
        .placed
        > 0
}

/// Opens claims with the row that fits most pods of the class per share of the limits.
struct MaxPods {
    /// Per class: the number of pods that are not placed yet.
    left: IdVec<PodClass, i64>,
    /// After this much work, rows are not compared any more.
    effort: u64,
}

impl ClaimChooser for MaxPods {
    fn place(&mut self, assignment: &mut Assignment<'_, '_>, query: &Query<'_>, class: ClassId, pod: PodId) -> Attempt {
        let attempt = if place_on_open_claim(assignment, query, class, pod, |_, _, _| true) {
            Attempt::Placed
        } else {
            self.open(assignment, query, class, pod)
        };
        if attempt == Attempt::Placed {
            self.left[class] -= 1;
        }
        attempt
    }
}

impl MaxPods {
    fn open(&self, assignment: &mut Assignment<'_, '_>, query: &Query<'_>, class: ClassId, pod: PodId) -> Attempt {
        match assignment.first_template(query) {
            Ok((template, narrowed)) => {
                let narrowed = self.restrict_size(assignment, query, template, class, narrowed);
                assignment.open(template, &narrowed, class, pod);
                Attempt::Placed
            }
            Err(rejection) => rejection.into(),
        }
    }

    /// Restricts a new claim to rows that use no more of a limit than the one with most pods per share.
    fn restrict_size(
        &self,
        assignment: &mut Assignment<'_, '_>,
        query: &Query<'_>,
        id: TemplateId,
        class: ClassId,
        narrowed: Narrowed,
    ) -> Narrowed {
        let problem = assignment.problem;
        let template = &problem.templates[id];
        if template.limited.is_empty() || assignment.work > self.effort {
            return narrowed;
        }
        assignment.work += narrowed.rows.len() as u64 / 16;
        let most = if one_per_node(query) {
            1
        } else {
            self.left[class].max(1)
        };
        let mut best: Option<(f64, RowId)> = None;
        // Cheapest first, so that the cheapest of equals is chosen.
        for (_, row, _) in assignment.specs.offers_by_price(problem, narrowed.spec) {
            if !narrowed.rows.get(*row) {
                continue;
            }
            let pods = pods_per_node(problem, id, *row, query.class).min(most) as f64;
            let density = pods / share(problem, id, *row).max(f64::MIN_POSITIVE);
            if best.is_none_or(|(known, _)| density > known * (1.0 + f64::EPSILON)) {
                best = Some((density, *row));
            }
        }
        let Some((_, model)) = best else { return narrowed };
        let rows: IdSet<TypeRow> = within(problem, template, &narrowed.rows, model, 1);
        assignment.restrict(&narrowed, rows).unwrap_or(narrowed)
    }
}

/// Returns whether pods of the class cannot share a node.
pub(super) fn one_per_node(query: &Query<'_>) -> bool {
    !(query.allowed.host_anti_affinity.is_empty()
        && query.allowed.host_spread.is_empty()
        && query.class.shape.host_ports.is_empty())
}

/// The number of pods of a class that fit an empty node of a row.
fn pods_per_node(problem: &Problem<'_>, id: TemplateId, row: RowId, class: &PodClass) -> i64 {
    let of_each = problem.usable(id, row).zip(&class.requests);
    let counts = of_each.filter(|(_, wanted)| **wanted > 0);
    counts.map(|(usable, wanted)| usable / wanted).min().unwrap_or(i64::MAX)
}
