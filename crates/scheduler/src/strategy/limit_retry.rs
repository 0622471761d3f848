//! Limit retry: places more pods where limits stopped a strategy. A new claim subtracts its largest row from the limits of its pool
//! (SCH-148), usually far more than it is launched as. Here claims give up rows that are much larger than their cheapest one, and failed
//! pods are tried again, until no more can be placed.

use crate::compile::catalogue::{RowId, TypeRow};
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::templates::{Template, TemplateId, unmet};
use crate::compile::topology::ClaimId;
use crate::dense::id_set::IdSet;
use crate::search::assignment::Assignment;
use crate::search::launch_spec::launch_spec;
use crate::strategy::greedy::{FewestPods, solve};
use crate::strategy::outcome::{Outcome, Stop, left_over};
use kerf_model::intern::sym;

/// Which rows claims of limited pools keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KeptTypes {
    /// Rows up to twice as large as the cheapest, in every limited resource.
    Double,
    /// Rows no larger than the cheapest.
    Cheapest,
    /// Rows no larger than the one that uses the smallest share of the limits, which may be dearer than the cheapest.
    Least,
}

/// In this order: a later step is tried only for pods that the earlier ones leave over.
const STEPS: [KeptTypes; 3] = [KeptTypes::Double, KeptTypes::Cheapest, KeptTypes::Least];

/// Places more pods of an outcome that limits stopped. Returns the outcome unchanged where that is not possible.
pub(crate) fn retry_limits<'w, 'a>(
    mut outcome: Outcome<'w, 'a>,
    queue: &[PodId],
    effort: u64,
    stop: Stop<'_>,
) -> Outcome<'w, 'a> {
    let effort = outcome.assignment.work.saturating_add(effort);
    for keep in STEPS {
        if outcome.failed.is_empty()
            || !outcome.unattempted.is_empty()
            || !outcome.assignment.limits.bind(outcome.assignment.problem.templates)
        {
            return outcome;
        }
        if let Some(better) = step(&outcome, keep, queue, effort, stop) {
            outcome = Outcome {
                strategy: outcome.strategy,
                improves: outcome.improves,
                limit_retried: true,
                ..better
            };
        }
    }
    outcome
}

/// The largest number of times the kept size is doubled to meet `minValues`; 2¹⁰ spans all sizes of a catalogue.
const DOUBLINGS_MAX: u32 = 10;

/// Alternates between restricting claims and placing pods while that places pods.
fn step<'w, 'a>(
    from: &Outcome<'w, 'a>,
    keep: KeptTypes,
    queue: &[PodId],
    effort: u64,
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let mut now = from.clone();
    let mut narrowed = ClaimId::new(0);
    while !now.failed.is_empty() && now.assignment.work < effort && !stop() {
        let placed = now.assignment.placed;
        let left = left_over(now.assignment.problem, &now.failed);
        let left: Vec<PodId> = queue.iter().copied().filter(|pod| left[*pod]).collect();
        if !narrow_claims(&mut now.assignment, keep, narrowed) {
            break;
        }
        narrowed = now.assignment.claims.next_id();
        now = solve(now.assignment, &left, &mut FewestPods, stop);
        if now.assignment.placed == placed {
            break;
        }
    }
    (now.assignment.placed > from.assignment.placed && now.unattempted.is_empty()).then_some(now)
}

/// Restricts the claims of limited pools from `first` on, and recomputes the limits. Returns whether more is left of some limit.
fn narrow_claims(assignment: &mut Assignment<'_, '_>, keep: KeptTypes, first: ClaimId) -> bool {
    let problem = assignment.problem;
    for at in assignment.claims.ids().skip(first.index()) {
        let template = &problem.templates[assignment.claims[at].template];
        if template.limited.is_empty() {
            continue;
        }
        if let Some(rows) = kept_rows(assignment, at, template, keep) {
            assignment.restrict_rows(at, rows);
        }
    }
    assignment.recompute_limits()
}

/// The rows a claim keeps, if these are fewer than it has. It keeps more rows where `minValues` needs them.
fn kept_rows(
    assignment: &mut Assignment<'_, '_>,
    at: ClaimId,
    template: &Template,
    keep: KeptTypes,
) -> Option<IdSet<TypeRow>> {
    let problem = assignment.problem;
    let claim = assignment.claims[at].clone();
    let (_, spec) = launch_spec(problem, &mut assignment.specs, &claim);
    let (_, cheapest, _) = assignment.specs.cheapest(problem, spec, &claim.rows)?;
    let model = match keep {
        KeptTypes::Double | KeptTypes::Cheapest => cheapest,
        KeptTypes::Least => {
            let offers_by_price = assignment.specs.offers_by_price(problem, spec);
            let usable = offers_by_price
                .iter()
                .map(|(_, row, _)| *row)
                .filter(|row| claim.rows.get(*row));
            // The first of equal rows is the cheapest.
            usable.min_by(|a, b| share(problem, claim.template, *a).total_cmp(&share(problem, claim.template, *b)))?
        }
    };
    let types = problem.types(claim.template);
    let requirements = &assignment.specs.get(claim.spec).requirements;
    let least = if keep == KeptTypes::Double { 2 } else { 1 };
    (0..DOUBLINGS_MAX)
        .map(|step| within(problem, template, &claim.rows, model, least << step))
        .find(|rows| unmet(types, requirements, rows).is_empty())
        .filter(|rows| *rows != claim.rows)
}

/// The rows that are at most `times` as large as `model` in every limited resource.
pub(crate) fn within(
    problem: &Problem<'_>,
    template: &Template,
    rows: &IdSet<TypeRow>,
    model: RowId,
    times: i64,
) -> IdSet<TypeRow> {
    let model = &problem.catalogues[template.catalogue].instance_type(model).capacity;
    let mut rows = rows.clone();
    for limit in &template.limited {
        let most = model.get(limit.name).saturating_mul(times);
        for (_, row) in limit.largest.iter().take_while(|(capacity, _)| *capacity > most) {
            rows.remove(*row);
        }
    }
    rows
}

/// The largest fraction of a remaining limit that one node of a row uses.
pub(crate) fn share(problem: &Problem<'_>, id: TemplateId, row: RowId) -> f64 {
    let template = &problem.templates[id];
    let capacity = &problem.types(id).instance_type(row).capacity;
    let limits = template.limited.iter().zip(problem.limits.left(id));
    let taken = |name| if name == sym::NODES { 1 } else { capacity.get(name) };
    let parts = limits.map(|(limit, left)| taken(limit.name) as f64 / (*left).max(1) as f64);
    parts.fold(0.0, f64::max)
}
