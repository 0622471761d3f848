//! The entry points.

use crate::options::{Options, Request, WhatIf};
use crate::prepared::Prepared;
use crate::reasons;
use crate::strategy;
use crate::world::World;
use kerf_model::plan::{Plan, Refusal};
use kerf_model::pod::Pod;

/// Decides where the pods of a request go. `stop` is polled between stages; once it says true, placements made so far are kept and pods
/// not reached stand in [`Plan::unattempted`] (SCH-047).
pub fn solve(request: &Request<'_>, options: &Options, stop: &(dyn Fn() -> bool + Sync)) -> Plan {
    let prepared = prepare(request, options);
    prepared.solve(&WhatIf::from(request), options, stop)
}

fn prepare(request: &Request<'_>, options: &Options) -> Prepared {
    let requests = request.pods.iter().map(|pod| &pod.shape.requests);
    Prepared::with(request.snapshot, options, requests)
}

/// Why each pool and each existing node refuses one pod of the request, given where the others go; a machine that would take it is not
/// named. Nodes come first, in the order they are tried and then those that take no pods; pools that take no part come last. A pod that
/// [`solve`] leaves over is judged by the very plan that leaves it over. Empty for a pod that validation refuses or that is not asked for.
pub fn explain(request: &Request<'_>, options: &Options, pod: &Pod) -> Vec<Refusal> {
    let prepared = prepare(request, options);
    let world = World::compile(&prepared, &WhatIf::from(request), options);
    let others = |at: &usize| world.pods[*at].uid != pod.uid;
    let Some(at) = (0..world.pods.len()).find(|at| !others(at)) else {
        return Vec::new();
    };
    let Some(class) = world.of_pod[at] else {
        return Vec::new();
    };
    let mut outcome = strategy::best(&world, &|| false);
    if !outcome.failed.iter().any(|(failed, _)| *failed as usize == at) {
        outcome = strategy::without(&world, at as u32);
    }
    reasons::explain(&mut outcome.run, class)
}
