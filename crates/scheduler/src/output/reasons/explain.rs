//! Every reason against one pod, for `explain`.

use crate::compile::classes::ClassId;
use crate::output::reasons::nodes::node_refusals;
use crate::output::reasons::pools::{idle_pools, pool_refusal, refuse};
use crate::output::reasons::reason::{Depth, query};
use crate::search::allowed::AllowedPlacement;
use crate::search::assignment::Assignment;
use kerf_model::plan::Refusal;

/// The refusals of existing nodes, of pools that would not make a new node, and of nodes and pools that take no part.
pub(crate) fn reasons(assignment: &mut Assignment<'_, '_>, class_id: ClassId) -> Vec<Refusal> {
    let problem = assignment.problem;
    let class = problem.class(class_id);
    let Some((_, level)) = class.reported() else {
        return Vec::new();
    };
    let mut all = node_refusals(assignment, class_id, level);
    let allowed = AllowedPlacement::compute(problem, &assignment.counts, class, level);
    for template in problem.templates.ids() {
        if let Ok(allowed) = &allowed {
            let query = query(assignment, class_id, level, allowed);
            if assignment.check_template(&query, template).is_ok() {
                continue;
            }
        }
        let (cause, nearest_miss) = refuse(assignment, class_id, level, template, Depth::Thorough);
        all.push(pool_refusal(
            &problem.templates[template].pool.name,
            cause,
            nearest_miss,
        ));
    }
    all.extend(idle_pools(problem));
    all
}
