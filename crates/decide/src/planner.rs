//! The plans of a pass of provisioning: with pods where earlier passes planned them, or anywhere.

use crate::inputs::Inputs;
use crate::verify::violations;
use kerf_check::Violation;
use kerf_model::in_flight::InFlight;
use kerf_model::node::Node;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, PinnedPlacements, PinnedRequest, PlanRank, Prepared, Request, WhatIf};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Up to so many pods are planned where earlier passes planned them and also anywhere. Forecasts for more take seconds while kube-apiserver works.
const PODS_PLANNED_TWICE_MAX: usize = 1_000;

/// A plan with the results of its checks.
pub(crate) struct CheckedPlan {
    pub(crate) plan: Plan,
    /// The plan checker's objections.
    pub(crate) violations: Vec<Violation>,
    /// Whether a solver without memory gives another plan.
    pub(crate) differs: bool,
}

impl CheckedPlan {
    /// A plan that breaks no rule.
    const fn sound(plan: Plan, differs: bool) -> Self {
        Self {
            plan,
            violations: Vec::new(),
            differs,
        }
    }
}

/// Makes the plans of a pass.
pub(crate) struct Planner<'a> {
    inputs: &'a Inputs<'a>,
    prepared: &'a Prepared,
    /// Where earlier passes planned the pods.
    planned: PinnedPlacements,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> Planner<'a> {
    /// Makes plans for these pods, or some of them.
    pub(crate) fn new(
        inputs: &'a Inputs<'a>,
        prepared: &'a Prepared,
        pods: &[Arc<Pod>],
        stop: &'a (dyn Fn() -> bool + Sync),
    ) -> Self {
        Self {
            inputs,
            prepared,
            planned: planned_earlier(inputs.snapshot, inputs.in_flight, pods),
            stop,
        }
    }

    /// The better of the plan that leaves pods where earlier passes planned them, and one that puts them anywhere. For many pods only that is made
    /// of which the greedy's plan is better.
    pub(crate) fn plan(&self, pods: &[Arc<Pod>]) -> CheckedPlan {
        let options = &self.inputs.settings.solver;
        if pods.len() <= PODS_PLANNED_TWICE_MAX || self.planned.is_empty() {
            return self.better(pods, options);
        }
        let greedy = greedy(options);
        let mut keeping = self.pinned(pods, &greedy);
        if let Some(plan) = keeping.take_if(|plan| is_best(plan)) {
            return CheckedPlan::sound(plan, false);
        }
        let is_better = |keeping: &Plan| self.rank(keeping) <= self.rank(&self.free(pods, &greedy).0);
        if let Some(plan) = keeping.filter(is_better).and_then(|_| self.pinned(pods, options)) {
            return CheckedPlan::sound(plan, false);
        }
        let (free, differs) = self.free(pods, options);
        self.checked(pods, free, differs)
    }

    /// The plan of the greedy alone.
    pub(crate) fn greedy_plan(&self, pods: &[Arc<Pod>]) -> Plan {
        self.better(pods, &greedy(&self.inputs.settings.solver)).plan
    }

    /// The better of both plans.
    fn better(&self, pods: &[Arc<Pod>], options: &Options) -> CheckedPlan {
        let mut pinned = self.pinned(pods, options);
        if let Some(plan) = pinned.take_if(|plan| is_best(plan)) {
            return CheckedPlan::sound(plan, false);
        }
        let (free, differs) = self.free(pods, options);
        match pinned.filter(|pinned| self.rank(pinned) <= self.rank(&free)) {
            Some(pinned) => CheckedPlan::sound(pinned, differs),
            None => self.checked(pods, free, differs),
        }
    }

    /// The plan that leaves pods where earlier passes planned them, if they planned any onto machines that stay. It breaks no rule.
    fn pinned(&self, pods: &[Arc<Pod>], options: &Options) -> Option<Plan> {
        let pinned = PinnedRequest::new(self.inputs.snapshot, pods, &self.planned)?;
        let request = Request::new(&pinned.snapshot, &pinned.rest);
        let prepared = self.prepared.next(&pinned.snapshot, options);
        let plan = prepared.solve(&WhatIf::from(&request), options, self.stop);
        let plan = pinned.complete(plan);
        self.violations(pods, &plan).is_empty().then_some(plan)
    }

    /// The plan that puts pods anywhere, and whether a solver without memory gives another one.
    fn free(&self, pods: &[Arc<Pod>], options: &Options) -> (Plan, bool) {
        let request = Request::new(self.inputs.snapshot, pods);
        let plan = self.prepared.solve(&WhatIf::from(&request), options, self.stop);
        let compare = self.inputs.settings.compare && !(self.stop)();
        let differs = compare && kerf_scheduler::solve(&request, options, &|| false) != plan;
        (plan, differs)
    }

    fn checked(&self, pods: &[Arc<Pod>], plan: Plan, differs: bool) -> CheckedPlan {
        CheckedPlan {
            violations: self.violations(pods, &plan),
            plan,
            differs,
        }
    }

    fn violations(&self, pods: &[Arc<Pod>], plan: &Plan) -> Vec<Violation> {
        violations(self.inputs.snapshot, pods, plan, &self.inputs.settings.solver)
    }

    fn rank(&self, plan: &Plan) -> PlanRank {
        PlanRank::new(plan, &self.inputs.snapshot.pools, &self.inputs.settings.solver)
    }
}

/// Whether there is no better plan: it launches nothing and leaves no pod over.
const fn is_best(plan: &Plan) -> bool {
    plan.launches.is_empty() && plan.left_over() == 0
}

/// The options for the greedy alone.
fn greedy(options: &Options) -> Options {
    Options {
        effort: 0,
        ..options.clone()
    }
}

/// Onto which machine that stays each of these pods was planned before.
fn planned_earlier(snapshot: &Snapshot, in_flight: &InFlight, pods: &[Arc<Pod>]) -> PinnedPlacements {
    if in_flight.planned.is_empty() {
        return PinnedPlacements::new();
    }
    let staying = snapshot.nodes.iter().filter(|node| stays(node));
    let staying: BTreeMap<&str, &Arc<str>> = staying
        .filter_map(|node| Some((node.claim_name.as_deref()?, &node.name)))
        .collect();
    let place = |pod: &Arc<Pod>| {
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        let machine = staying.get(&**in_flight.planned.get(&key)?)?;
        Some((key, Arc::clone(machine)))
    };
    pods.iter().filter_map(place).collect()
}

/// Whether a machine was launched and is not to go.
fn stays(node: &Node) -> bool {
    node.managed && !node.marked_for_deletion && node.provider_id.is_some()
}
