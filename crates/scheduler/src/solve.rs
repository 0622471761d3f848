//! The entry points of the crate.

use crate::binder::choose;
use crate::compile::prepared::Prepared;
use crate::compile::problem::Problem;
use crate::options::{Options, Request, WhatIf};
use crate::output::{plan, reasons};
use crate::search::instance::Instance;
use crate::strategy::{Outcome, Strategy, ranked, without};
use kerf_model::plan::{Plan, Refusal};
use kerf_model::pod::Pod;

/// Decides where the pods of a request go. `stop` is polled between stages. Once it returns true, the placements made so far are kept, and
/// pods not reached are in [`Plan::unattempted`] (SCH-047).
pub fn solve(request: &Request<'_>, options: &Options, stop: &(dyn Fn() -> bool + Sync)) -> Plan {
    let prepared = prepare(request, options);
    prepared.solve(&WhatIf::from(request), options, stop)
}

fn prepare(request: &Request<'_>, options: &Options) -> Prepared {
    let requests = request.pods.iter().map(|pod| &pod.shape.requests);
    Prepared::with(request.snapshot, options, requests)
}

/// Returns why each pool and each existing node refuses one pod of the request, given the placements of the others. Nodes and pools that
/// would take the pod are left out. Nodes are listed first in the order they are tried, then nodes that take no pods, then pools, then pools that
/// take no part. A pod that [`solve`] leaves over is explained by that same plan. Returns nothing for an invalid pod and for one that is
/// not in the request.
pub fn explain(request: &Request<'_>, options: &Options, pod: &Pod) -> Vec<Refusal> {
    let prepared = prepare(request, options);
    let instance = Instance::new(Problem::compile(&prepared, &WhatIf::from(request), options));
    let problem = &instance.problem;
    let Some(id) = problem.of_pod.ids().find(|id| problem.pod(*id).uid == pod.uid) else {
        return Vec::new();
    };
    let Some(class) = problem.of_pod[id] else {
        return Vec::new();
    };
    let mut outcome = chosen(&prepared, &WhatIf::from(request), options, &instance, &|| false);
    if !outcome.failed.iter().any(|(failed, _)| *failed == id) {
        outcome = without(&instance, id);
    }
    reasons(&mut outcome.assignment, class)
}

/// How a plan came about, for comparisons of strategies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Winner {
    /// The strategy whose outcome is the plan.
    pub strategy: Strategy,
    /// The strategy whose outcome repacking or rebinding improved; the same as `strategy` where neither did.
    pub started_by: Strategy,
    /// Whether limit retry placed more pods.
    pub limit_retried: bool,
}

/// Returns how the plan of [`solve`] came about.
pub fn winner(request: &Request<'_>, options: &Options) -> Winner {
    let prepared = prepare(request, options);
    let instance = Instance::new(Problem::compile(&prepared, &WhatIf::from(request), options));
    let outcome = chosen(&prepared, &WhatIf::from(request), options, &instance, &|| false);
    Winner {
        strategy: outcome.strategy,
        started_by: outcome.started_by(),
        limit_retried: outcome.limit_retried,
    }
}

impl Prepared {
    /// Decides where the pods of a question go. `stop` is as in [`solve`](crate::solve).
    pub fn solve(&self, what_if: &WhatIf<'_>, options: &Options, stop: &(dyn Fn() -> bool + Sync)) -> Plan {
        let requests = || what_if.pods.iter().map(|pod| &pod.shape.requests);
        if self.min_values != options.min_values_policy || !self.resources.covers(requests()) {
            let again = Self::with(&self.snapshot, options, requests());
            return again.solve(what_if, options, stop);
        }
        let instance = Instance::new(Problem::compile(self, what_if, options));
        plan(chosen(self, what_if, options, &instance, stop))
    }
}

/// The outcome that is planned.
fn chosen<'w, 'a>(
    prepared: &Prepared,
    what_if: &WhatIf<'a>,
    options: &Options,
    instance: &'w Instance<'a>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<'w, 'a> {
    let ranked = ranked(instance, stop);
    if options.forecast_binding {
        return choose(prepared, what_if, options, ranked, stop);
    }
    ranked.best
}
