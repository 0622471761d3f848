//! Provisioning: where pods that need a place go, and which machines to launch for them.

use crate::inputs::Inputs;
use crate::memory::Memory;
use crate::verify::violations;
use kerf_check::Violation;
use kerf_disruption::reschedulable_now;
use kerf_model::in_flight::InFlight;
use kerf_model::node::Node;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{EffectiveZone, Options, PinnedPlacements, PinnedRequest, PlanRank, Prepared, Request, WhatIf};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The pods of a pass, pending ones first (SCH-031).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Pending pods, then pods of nodes that go.
    pub pods: Vec<Arc<Pod>>,
    /// How many of them are pending.
    pub pending: usize,
}

impl Batch {
    /// The pods of a snapshot that need a place: pending pods, and pods of nodes that go (SCH-025). Pods for which a NodeClaim was made are
    /// left out.
    pub(crate) fn of(inputs: &Inputs<'_>) -> Self {
        let snapshot = inputs.snapshot;
        let mut pods = snapshot.pending.clone();
        let pending = pods.len();
        let going = snapshot.nodes.iter().filter(|node| node.marked_for_deletion);
        let moving: Vec<&Arc<Pod>> = going
            .flat_map(|node| &node.pods)
            .filter(|pod| pod.node_name.is_some() && reschedulable_now(pod, snapshot, inputs.now))
            .collect();
        if !moving.is_empty() {
            let planned = snapshot.nodes.iter().filter(|node| node.is_planned());
            let served: BTreeSet<&str> = planned.flat_map(|node| &node.pods).map(|pod| &*pod.uid).collect();
            pods.extend(moving.into_iter().filter(|pod| !served.contains(&*pod.uid)).cloned());
        }
        Self { pods, pending }
    }

    /// Keeps some of its pods, in the same order.
    fn narrow(&mut self, pods: Vec<Arc<Pod>>) {
        self.pending = pods.iter().filter(|pod| pod.node_name.is_none()).count();
        self.pods = pods;
    }
}

/// Why there is no plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoPlan {
    /// No pod needs a place.
    NothingToPlace,
    /// No pool may get new nodes (SCH-049).
    NoDynamicPools,
}

/// What a pass of provisioning came to.
#[derive(Debug)]
pub struct Provision {
    /// The pods the pass was about.
    pub batch: Batch,
    /// Where they go, or why that was not computed.
    pub plan: Result<Plan, NoPlan>,
    /// How many pods of the batch can use each zone (SCH-350).
    pub zones: BTreeMap<EffectiveZone, usize>,
    /// The plan checker's objections. The plan is carried out all the same, as kube-scheduler has the last word on every placement; each
    /// objection is a bug of the solver.
    pub violations: Vec<Violation>,
    /// A solver that remembers nothing gives another plan, which is a bug. Looked at if [`crate::Settings::compare`] asks for it.
    pub differs: bool,
    /// Some pods were not reached before the end, so that another pass should follow at once (SCH-047).
    pub any_unreached: bool,
}

impl Provision {
    fn none(batch: Batch, why: NoPlan) -> Self {
        Self {
            batch,
            plan: Err(why),
            zones: BTreeMap::new(),
            violations: Vec::new(),
            differs: false,
            any_unreached: false,
        }
    }
}

/// Plans for the pods of a snapshot that need a place. Pods that are not reached when `stop` says so are in the plan as not attempted, and
/// come first in the next pass.
pub fn provision(inputs: &Inputs<'_>, memory: &mut Memory, stop: &(dyn Fn() -> bool + Sync)) -> Provision {
    let snapshot = inputs.snapshot;
    let mut batch = Batch::of(inputs);
    batch.narrow(memory.fairness.select(&batch.pods));
    if batch.pods.is_empty() {
        return Provision::none(batch, NoPlan::NothingToPlace);
    }
    if !snapshot.has_eligible_pool() {
        return Provision::none(batch, NoPlan::NoDynamicPools);
    }
    let options = &inputs.settings.solver;
    let prepared = memory.prepared.read(snapshot, options);
    let request = Request::new(snapshot, &batch.pods);
    let what_if = WhatIf::from(&request);
    let zones = prepared.effective_zones(&what_if, options);
    let mut plan = prepared.solve(&what_if, options, stop);
    let differs = inputs.settings.compare && !stop() && kerf_scheduler::solve(&request, options, &|| false) != plan;
    let mut objections = violations(snapshot, &batch.pods, &plan, options);
    let rank = |plan: &Plan| PlanRank::new(plan, &snapshot.pools, options);
    if (!plan.launches.is_empty() || plan.left_over() > 0)
        && let Some(pinned) = pinned_plan(inputs, &prepared, &batch.pods, options, stop)
        && rank(&pinned) < rank(&plan)
    {
        let against = violations(snapshot, &batch.pods, &pinned, options);
        if against.is_empty() {
            (plan, objections) = (pinned, against);
        }
    }
    memory.fairness.note(&batch.pods, &plan);
    Provision {
        any_unreached: memory.fairness.any_unreached(),
        batch,
        plan: Ok(plan),
        zones,
        violations: objections,
        differs,
    }
}

/// The plan that leaves pods where earlier passes planned them, if they planned any onto machines that are still on their way.
fn pinned_plan(
    inputs: &Inputs<'_>,
    prepared: &Prepared,
    pods: &[Arc<Pod>],
    options: &Options,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Plan> {
    let planned = planned_earlier(inputs.snapshot, inputs.in_flight, pods);
    let pinned = PinnedRequest::new(inputs.snapshot, pods, &planned)?;
    let request = Request::new(&pinned.snapshot, &pinned.rest);
    let plan = prepared
        .next(&pinned.snapshot, options)
        .solve(&WhatIf::from(&request), options, stop);
    Some(pinned.complete(plan))
}

/// Onto which machine on its way each of these pods was planned before.
fn planned_earlier(snapshot: &Snapshot, in_flight: &InFlight, pods: &[Arc<Pod>]) -> PinnedPlacements {
    let coming = snapshot.nodes.iter().filter(|node| is_coming(node));
    let coming: BTreeMap<&str, &Arc<str>> = coming
        .filter_map(|node| Some((node.claim_name.as_deref()?, &node.name)))
        .collect();
    if coming.is_empty() || in_flight.planned.is_empty() {
        return PinnedPlacements::new();
    }
    let place = |pod: &Arc<Pod>| {
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        let machine = coming.get(&**in_flight.planned.get(&key)?)?;
        Some((key, Arc::clone(machine)))
    };
    pods.iter().filter_map(place).collect()
}

/// Whether a machine was launched and does not take pods yet.
fn is_coming(node: &Node) -> bool {
    node.managed && !node.initialized && !node.marked_for_deletion && node.provider_id.is_some()
}
