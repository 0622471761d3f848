//! The greedy of section 16 of `docs/behaviour/scheduling.md`: pods by size; each is offered to existing nodes, then to open claims by
//! fewest pods, then to new claims by pool weight.

use crate::compile::classes::{ClassId, PodClass};
use crate::compile::queue::PodId;
use crate::compile::topology::ClaimId;
use crate::dense::ids::IdVec;
use crate::search::allowed::AllowedPlacement;
use crate::search::assignment::Assignment;
use crate::search::claims::ClaimCursor;
use crate::search::instance::Instance;
use crate::search::query::{Narrowed, Query, Rejection};
use crate::strategy::outcome::{Outcome, Stop, Strategy};
use crate::strategy::priced_start::PricedStart;
use kerf_model::pod::Pod;
use std::collections::VecDeque;

/// The deadline is polled once per this many pods, because a poll reads a clock.
const STOP_EVERY: usize = 256;

/// After this many claims whose growth does not pay, a new claim is opened. Bounds the cost per pod; README.md: 4 to 64 cost the same.
const UNPROFITABLE_CLAIMS_MAX: usize = 16;

/// The result of an attempt to place a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    Placed,
    Failed,
    /// Only reservations prevented it.
    Deferred,
}

impl From<Rejection> for Attempt {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Reserved(_) => Self::Deferred,
            Rejection::Permanent | Rejection::Temporary => Self::Failed,
        }
    }
}

/// Chooses between open claims and a new claim for a pod that no existing node takes.
pub(crate) trait ClaimChooser {
    /// Places the pod on a claim, if one accepts it.
    fn place(&mut self, assignment: &mut Assignment<'_, '_>, query: &Query<'_>, class: ClassId, pod: PodId) -> Attempt;
}

/// Chooses the open claim with the fewest pods (SCH-248), else a new claim.
pub(crate) struct FewestPods;

impl ClaimChooser for FewestPods {
    fn place(&mut self, assignment: &mut Assignment<'_, '_>, query: &Query<'_>, class: ClassId, pod: PodId) -> Attempt {
        if place_on_open_claim(assignment, query, class, pod, |_, _, _| true) {
            return Attempt::Placed;
        }
        place_on_new_claim(assignment, query, class, pod)
    }
}

/// Places the pods of `queue`, and retries failed pods until a full cycle makes no progress (SCH-242, SCH-243).
pub(crate) fn solve<'w, 'a>(
    mut assignment: Assignment<'w, 'a>,
    queue: &[PodId],
    choose: &mut dyn ClaimChooser,
    stop: Stop<'_>,
) -> Outcome<'w, 'a> {
    let problem = assignment.problem;
    let mut waiting: VecDeque<PodId> = queue.iter().copied().collect();
    let mut last_length: IdVec<Pod, u32> = IdVec::filled(0, problem.pods.len());
    let mut failures: IdVec<PodClass, Option<(u64, Attempt)>> = IdVec::filled(None, problem.classes.len());
    let mut latest: IdVec<Pod, Option<Attempt>> = IdVec::filled(None, problem.pods.len());
    let mut steps = 0;
    while let Some(pod) = waiting.front().copied() {
        if last_length[pod] as usize == waiting.len() || (steps % STOP_EVERY == STOP_EVERY - 1 && stop()) {
            break;
        }
        steps += 1;
        waiting.pop_front();
        let Some(class) = problem.of_pod[pod] else {
            continue;
        };
        // Nothing was placed since a pod of the same class failed, so this one fails the same way.
        let attempt = match failures[class] {
            Some((placed, failed)) if placed == assignment.placed => failed,
            _ => attempt(&mut assignment, class, pod, choose),
        };
        latest[pod] = Some(attempt);
        if attempt != Attempt::Placed {
            failures[class] = Some((assignment.placed, attempt));
            waiting.push_back(pod);
            last_length[pod] = waiting.len() as u32;
        }
    }
    assignment.assert_consistent();
    let (mut failed, mut unattempted) = (Vec::new(), Vec::new());
    for pod in waiting {
        match latest[pod] {
            Some(attempt) => failed.push((pod, attempt == Attempt::Deferred)),
            None => unattempted.push(pod),
        }
    }
    Outcome {
        assignment,
        strategy: Strategy::Greedy,
        improves: None,
        limit_retried: false,
        failed,
        unattempted,
    }
}

/// Tries a pod at each of its levels; each level starts with existing nodes (SCH-267).
fn attempt(
    assignment: &mut Assignment<'_, '_>,
    class_id: ClassId,
    pod: PodId,
    choose: &mut dyn ClaimChooser,
) -> Attempt {
    let problem = assignment.problem;
    let class = problem.class(class_id);
    if class.volume_topology.too_many {
        return Attempt::Failed;
    }
    for (level_index, level) in class.levels.iter().enumerate() {
        if problem.req_sets.get(level.full).contradiction.is_some() {
            continue;
        }
        let Ok(allowed) = AllowedPlacement::compute(problem, &assignment.counts, class, level) else {
            continue;
        };
        let query = Query {
            class,
            level,
            allowed: &allowed,
            level_id: assignment.level_id(class_id, level_index),
        };
        if let Some(target) = assignment.first_target(&query) {
            assignment.place_on_target(target, class_id, pod);
            record_relaxation(assignment, pod, level_index);
            return Attempt::Placed;
        }
        match choose.place(assignment, &query, class_id, pod) {
            Attempt::Failed => {}
            Attempt::Placed => {
                record_relaxation(assignment, pod, level_index);
                return Attempt::Placed;
            }
            // No level is skipped because of a reservation (SCH-271).
            Attempt::Deferred => return Attempt::Deferred,
        }
    }
    Attempt::Failed
}

/// Records a pod that was not placed at its strictest level.
fn record_relaxation(assignment: &mut Assignment<'_, '_>, pod: PodId, level_index: usize) {
    if level_index > 0 {
        assignment.relaxed_pods.push((pod, level_index));
    }
}

/// Places a pod on the open claim with the fewest pods that accepts it (SCH-248) and for which `growth_pays`. Returns whether there was
/// one.
pub(crate) fn place_on_open_claim(
    assignment: &mut Assignment<'_, '_>,
    query: &Query<'_>,
    class: ClassId,
    pod: PodId,
    growth_pays: impl Fn(&mut Assignment<'_, '_>, ClaimId, &Narrowed) -> bool,
) -> bool {
    let mut cursor = ClaimCursor::default();
    let mut unprofitable = 0;
    while let Some(claim) = assignment.next_claim(query, &mut cursor) {
        if let Ok(narrowed) = assignment.try_claim(query, claim) {
            if !growth_pays(assignment, claim, &narrowed) {
                unprofitable += 1;
                if unprofitable == UNPROFITABLE_CLAIMS_MAX {
                    return false;
                }
                continue;
            }
            assignment.place_on_claim(claim, &narrowed, class, pod);
            return true;
        }
    }
    false
}

/// Opens a claim of the first template that accepts the pod.
pub(crate) fn place_on_new_claim(
    assignment: &mut Assignment<'_, '_>,
    query: &Query<'_>,
    class: ClassId,
    pod: PodId,
) -> Attempt {
    match assignment.first_template(query) {
        Ok((template, narrowed)) => {
            assignment.open(template, &narrowed, class, pod);
            Attempt::Placed
        }
        Err(rejection) => rejection.into(),
    }
}

/// Runs the greedy with ties between domains broken by price. Applies only where some class has topology constraints.
pub(super) fn greedy_by_price<'w, 'a>(
    start: &PricedStart<'w, 'a>,
    queue: &[PodId],
    _: u64,
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let problem = start.assignment.problem;
    let fixed_keys = |class: &PodClass| {
        !class.fixed_keys.is_empty() || class.levels.iter().any(|level| !level.own_groups.is_empty())
    };
    problem
        .classes
        .iter()
        .any(fixed_keys)
        .then(|| solve(start.assignment.clone(), queue, &mut FewestPods, stop))
}

/// Runs the greedy for all pods except one.
pub(crate) fn without<'w, 'a>(instance: &'w Instance<'a>, pod: PodId) -> Outcome<'w, 'a> {
    let mut queue = instance.problem.queue.clone();
    queue.retain(|other| *other != pod);
    solve(Assignment::new(instance), &queue, &mut FewestPods, &|| false)
}
