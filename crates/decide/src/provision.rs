//! Provisioning: where pods that need a place go, and which machines to launch for them.

use crate::held::{BindingInProgress, held_launches};
use crate::inputs::Inputs;
use crate::memory::Memory;
use crate::planner::{CheckedPlan, Planner};
use kerf_check::Violation;
use kerf_disruption::reschedulable_now;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{EffectiveZone, Request, WhatIf};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The pods that kube-scheduler may still bind are left out one plan after the other, until the plans have so many pods together: five plans for
/// 5,000 pods. Then the launches for such pods are taken out of the last one.
const PODS_PLANNED_WITHOUT_MAX: usize = 25_000;

/// The pods of a pass, pending ones first (SCH-031).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Pending pods, untried pods, then pods of nodes that go.
    pub pods: Vec<Arc<Pod>>,
    /// How many of them have no node.
    pub pending: usize,
}

impl Batch {
    /// The pods of a snapshot that need a place: pending pods, and pods of nodes that go (SCH-025). Pods for which a NodeClaim was made are
    /// left out.
    ///
    /// Where pods are pending, untried ones join them. kube-scheduler tries pods one by one, so the pods of one Deployment would otherwise be
    /// planned in many passes, each with machines of its own.
    pub(crate) fn of(inputs: &Inputs<'_>) -> Self {
        let snapshot = inputs.snapshot;
        let mut pods = snapshot.pending.clone();
        if pods.iter().any(|pod| !pod.is_virtual()) {
            pods.extend(snapshot.untried.iter().cloned());
        }
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

    /// Leaves some of its pods out.
    fn leave_out(&mut self, pods: &[Arc<Pod>]) {
        if pods.is_empty() {
            return;
        }
        let uids: BTreeSet<&str> = pods.iter().map(|pod| &*pod.uid).collect();
        let others = self.pods.iter().filter(|pod| !uids.contains(&*pod.uid));
        self.narrow(others.cloned().collect());
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

/// The result of a pass of provisioning.
#[derive(Debug)]
pub struct Provision {
    /// The pods that the pass planned.
    pub batch: Batch,
    /// Where they go, or why that was not computed.
    pub plan: Result<Plan, NoPlan>,
    /// How many pods of the batch can use each zone (SCH-350).
    pub zones: BTreeMap<EffectiveZone, usize>,
    /// The plan checker's objections; each is a bug of the solver. The plan is carried out all the same, because kube-scheduler decides every
    /// placement itself.
    pub violations: Vec<Violation>,
    /// Whether a solver without memory gives another plan, which is a bug. Computed only if [`crate::Settings::compare`] is set.
    pub differs: bool,
    /// Whether some pods were not reached before the end, so that another pass should follow at once (SCH-047).
    pub any_unreached: bool,
    /// The pods of the pass for which no machine is launched yet: kube-scheduler still binds pods to the nodes they were planned onto, or the
    /// last launches of their NodePool found no capacity and others are under way. Another pass should follow soon.
    pub held: Vec<Arc<Pod>>,
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
            held: Vec::new(),
        }
    }
}

/// Plans for the pods of a snapshot that need a place. If `stop` returns true, pods not reached yet are in the plan as not attempted, and come
/// first in the next pass.
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
    let zones = prepared.effective_zones(&WhatIf::from(&Request::new(snapshot, &batch.pods)), options);
    let planner = Planner::new(inputs, &prepared, &batch.pods, stop);
    let plan_for = |pods: &[Arc<Pod>]| planner.plan(pods);
    let greedy_for = |pods: &[Arc<Pod>]| planner.greedy_plan(pods);
    let binding = BindingInProgress::of(inputs);
    let (checked, mut held) = without_pods_being_bound(&binding, &mut batch, &plan_for, &greedy_for);
    let CheckedPlan {
        mut plan,
        violations,
        differs,
    } = checked;
    let without_capacity = held_launches(inputs.in_flight, &mut plan);
    batch.leave_out(&without_capacity);
    held.extend(without_capacity);
    memory.fairness.note(&batch.pods, &plan);
    leave_to_kube_scheduler(&mut plan, snapshot);
    Provision {
        any_unreached: memory.fairness.any_unreached(),
        batch,
        plan: Ok(plan),
        zones,
        violations,
        differs,
        held,
    }
}

/// The plan without the pods for which there is no room, but which kube-scheduler may still bind to the nodes of their scale-up, and these pods. They
/// are left out of the batch.
fn without_pods_being_bound(
    binding: &BindingInProgress<'_>,
    batch: &mut Batch,
    plan_for: &dyn Fn(&[Arc<Pod>]) -> CheckedPlan,
    greedy_for: &dyn Fn(&[Arc<Pod>]) -> Plan,
) -> (CheckedPlan, Vec<Arc<Pod>>) {
    let mut held = pods_without_room(binding, batch, greedy_for);
    let mut rest = batch.clone();
    rest.leave_out(&held);
    let mut plan = plan_for(&rest.pods);
    // Only a plan without launches for them tells whether binding goes on: on existing nodes another may have pods that depend on its launches.
    if binding.goes_on(&plan.plan) {
        let mut room = binding.room_beside(&plan.plan).without(&held);
        let launched = binding.take_launches(&mut plan.plan, &mut room);
        rest.leave_out(&launched);
        held.extend(launched);
        *batch = rest;
        return (plan, held);
    }
    if !held.is_empty() {
        plan = plan_for(&batch.pods);
    }
    (plan, Vec::new())
}

/// The pods that kube-scheduler may still bind to the nodes of their scale-up, but for which plans find no room there, as far as the nodes have room for
/// them in sum.
fn pods_without_room(
    binding: &BindingInProgress<'_>,
    batch: &Batch,
    greedy_for: &dyn Fn(&[Arc<Pod>]) -> Plan,
) -> Vec<Arc<Pod>> {
    let mut rest = batch.clone();
    let mut held = Vec::new();
    let mut room = None;
    // Each plan may give the places of others away. Which pods find no room is all that is asked, so the greedy does.
    let mut pods_planned = 0;
    while binding.concerns_any(&rest.pods) && pods_planned < PODS_PLANNED_WITHOUT_MAX {
        let plan = greedy_for(&rest.pods);
        room = Some(binding.room_beside(&plan));
        let launched = binding.launched(&plan);
        if launched.is_empty() {
            break;
        }
        pods_planned += rest.pods.len();
        rest.leave_out(&launched);
        held.extend(launched);
    }
    room.map_or_else(Vec::new, |mut room| room.take_smallest(held))
}

/// Removes untried pods without a place from a plan: only once kube-scheduler has found no place for them are they unschedulable.
fn leave_to_kube_scheduler(plan: &mut Plan, snapshot: &Snapshot) {
    if snapshot.untried.is_empty() {
        return;
    }
    let untried: BTreeSet<&str> = snapshot.untried.iter().map(|pod| &*pod.uid).collect();
    plan.unschedulable.retain(|left| !untried.contains(&*left.pod.uid));
    plan.ignored.retain(|(pod, _)| !untried.contains(&*pod.uid));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use jiff::Timestamp;
    use kerf_model::in_flight::InFlight;
    use kerf_model::intern::{Interner, sym};
    use kerf_model::node::Node;
    use kerf_model::nodepool::NodePool;
    use kerf_model::plan::{Launch, Placement};

    /// Plans that each launch a machine for the first pod that is left, for more pods than can be left out one by one.
    // SCH-045 as docs/deviations.md has it
    #[test]
    fn launches_for_pods_being_bound_are_held_however_many_pods_there_are() {
        let mut snapshot = Snapshot::new(Arc::new(Interner::default()));
        let mut node = Node::empty("a-1".into(), sym::HOSTNAME);
        (node.managed, node.claim_name) = (true, Some("claim-a-1".into()));
        snapshot.nodes.push(Arc::new(node));
        let name = |number| format!("pod-{number}");
        let pods: Vec<Arc<Pod>> = (0..PODS_PLANNED_WITHOUT_MAX / 2)
            .map(|number| Arc::new(Pod::new("ns", &name(number))))
            .collect();
        let key = |pod: &Arc<Pod>| (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        let in_flight = InFlight {
            planned: pods.iter().map(|pod| (key(pod), "claim-a-1".into())).collect(),
            ..InFlight::default()
        };
        let inputs = Inputs {
            snapshot: &Arc::new(snapshot),
            in_flight: &in_flight,
            settings: &Settings::default(),
            now: Timestamp::UNIX_EPOCH,
        };
        let pool = NodePool::empty("default".into(), sym::HOSTNAME);
        let plan_for = |pods: &[Arc<Pod>]| {
            let (first, rest) = pods.split_first().expect("more pods than plans");
            let launch = Launch {
                pods: vec![Arc::clone(first)],
                ..Launch::of_template(&pool)
            };
            let placement = Placement {
                node: "a-1".into(),
                pods: rest.to_vec(),
            };
            CheckedPlan {
                plan: Plan {
                    launches: vec![launch],
                    existing: vec![placement],
                    ..Plan::default()
                },
                violations: Vec::new(),
                differs: false,
            }
        };
        let mut batch = Batch {
            pending: pods.len(),
            pods: pods.clone(),
        };
        let binding = BindingInProgress::of(&inputs);
        let greedy_for = |pods: &[Arc<Pod>]| plan_for(pods).plan;
        let (checked, held) = without_pods_being_bound(&binding, &mut batch, &plan_for, &greedy_for);
        assert_eq!(checked.plan.launches.len(), 0);
        assert_eq!(held, pods[..held.len()]);
        assert_eq!(batch.pods, pods[held.len()..]);
        assert_eq!(checked.plan.existing[0].pods, batch.pods);
    }
}
