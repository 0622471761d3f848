//! How far a pool's limits are from letting it make one more node.

use super::amounts;
use crate::bits::Bits;
use crate::limits::Limits;
use crate::world::World;
use kerf_model::intern::sym;
use kerf_model::nodepool::NodePool;

/// The `nodes` limit.
pub(super) fn of_nodes(pool: &NodePool) -> Option<String> {
    let most = pool.limits.as_ref()?.get(sym::NODES);
    let nodes = if most == 1 { "node" } else { "nodes" };
    Some(format!(
        "its limit of {most} {nodes} is used up by nodes that are there or planned"
    ))
}

/// The first limited resource of which even the smallest machine among `rows` has more than is left.
pub(super) fn nearest(world: &World<'_>, limits: &Limits, number: usize, rows: &Bits) -> Option<String> {
    let template = &world.templates[number];
    let limited = template.limited.iter().zip(limits.left(number));
    for (limit, left) in limited {
        let capacities = limit.largest.iter().filter(|(_, row)| rows.get(*row as usize));
        let Some(least) = capacities.map(|(capacity, _)| *capacity).min() else {
            continue;
        };
        if least <= *left {
            continue;
        }
        let name = world.interner().text(limit.name);
        let most = template.pool.limits.as_ref().map_or(0, |limits| limits.get(limit.name));
        let (least, rest) = amounts(limit.name, least, (*left).max(0));
        let most = super::amount(limit.name, most);
        return Some(format!(
            "{rest} {name} of its limit of {most} is left; its smallest instance type has {least}"
        ));
    }
    None
}
