//! Repacking that leaves a part of each node free.

use crate::compile::catalogue::RowId;
use crate::strategy::objective::Objective;
use crate::strategy::outcome::{Outcome, Stop};
use crate::strategy::priced_start::PricedStart;
use crate::strategy::repacking::quotes::filled_up_to;
use crate::strategy::repacking::repack::repack_leaving;

/// An outcome with the pods of another one on nodes of which this share of each resource stays free, where larger nodes can be had: kube-scheduler
/// may bind pods to other nodes than planned, and the pods planned there find room elsewhere.
pub(crate) fn repack_with_room<'w, 'a>(
    free_share: f64,
    outcome: &Outcome<'w, 'a>,
    objective: &Objective,
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let problem = outcome.assignment.problem;
    let (queue, effort) = (&problem.queue, problem.options.effort);
    let start = PricedStart::new(outcome.assignment.instance, queue, effort, objective.node_costs(0.0));
    let mut repacked = repack_leaving(free_share, outcome, &start, objective, queue, stop)?;
    let assignment = &mut repacked.assignment;
    for at in assignment.claims.ids() {
        let claim = &assignment.claims[at];
        let leaves_room = |row: &RowId| {
            let mut usable = problem.usable(claim.template, *row).zip(&claim.used);
            usable.all(|(usable, used)| *used <= filled_up_to(usable, free_share))
        };
        let rows = claim.rows.iter().filter(leaves_room).collect();
        assignment.try_restrict_rows(at, rows);
    }
    (repacked.unattempted.is_empty() && assignment.narrow_to_limits()).then_some(repacked)
}
