//! What is missing in a pool's limits for one more node.

use crate::compile::catalogue::TypeRow;
use crate::compile::limits::Limits;
use crate::compile::problem::Problem;
use crate::compile::templates::TemplateId;
use crate::dense::id_set::IdSet;
use crate::output::reasons::text::{amount, amounts};
use kerf_model::intern::sym;
use kerf_model::nodepool::NodePool;

/// The text for a limit on the number of nodes that is reached.
pub(super) fn node_limit(pool: &NodePool) -> Option<String> {
    let most = pool.limits.as_ref()?.get(sym::NODES);
    let nodes = if most == 1 { "node" } else { "nodes" };
    Some(format!(
        "its limit of {most} {nodes} is used up by nodes that are there or planned"
    ))
}

/// The text for the first limited resource of which even the smallest of `rows` has more than is left.
pub(super) fn nearest_limit(
    problem: &Problem<'_>,
    limits: &Limits,
    id: TemplateId,
    rows: &IdSet<TypeRow>,
) -> Option<String> {
    let template = &problem.templates[id];
    let limited = template.limited.iter().zip(limits.left(id));
    for (limit, left) in limited {
        let capacities = limit.largest.iter().filter(|(_, row)| rows.get(*row));
        let Some(least) = capacities.map(|(capacity, _)| *capacity).min() else {
            continue;
        };
        if least <= *left {
            continue;
        }
        let name = problem.interner().text(limit.name);
        let most = template.pool.limits.as_ref().map_or(0, |limits| limits.get(limit.name));
        let (least, rest) = amounts(limit.name, least, (*left).max(0));
        let most = amount(limit.name, most);
        return Some(format!(
            "{rest} {name} of its limit of {most} is left; its smallest instance type has {least}"
        ));
    }
    None
}
