//! The `SimulationReport`: what one provisioning decision would do, as a stable document.

use super::constraint_costs::ConstraintCost;
use crate::node_report::NodeReport;
use kerf_check::Violation;
use kerf_decide::GapCause;
use kerf_model::intern::sym;
use kerf_model::plan::{Cause, Plan, Refusal, Refuser};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::cost_gap;
use serde::Serialize;
use std::collections::BTreeMap;

/// The document `kerf simulate` prints; described in docs/simulation-report.md.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SimulationReport {
    api_version: &'static str,
    kind: &'static str,
    pub(crate) nodes: Vec<NodeReport>,
    pub(crate) unschedulable: Vec<UnschedulableReport>,
    pub(crate) ignored: Vec<IgnoredReport>,
    pub(crate) totals: Totals,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bound: Option<Bound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) constraint_costs: Option<Vec<ConstraintCost>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verification: Option<Verification>,
}

/// What no plan for the same pods undercuts.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bound {
    pub(crate) price_per_hour: f64,
    /// How much more the plan costs, as a share of the bound. Absent where the bound is zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gap: Option<f64>,
    /// What the gap is due to, as far as re-solving without it shows. The sum is the gap.
    pub(crate) causes: Vec<CauseOfGap>,
}

/// A part of the gap between a plan and its lower bound.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CauseOfGap {
    pub(crate) cause: &'static str,
    pub(crate) price_per_hour: f64,
}

impl Bound {
    pub(crate) fn new(bound: Price, plan: &Plan, causes: &[(GapCause, Price)]) -> Self {
        let causes = causes.iter().map(|(cause, part)| CauseOfGap {
            cause: match cause {
                GapCause::ForecastBinding => "forecast binding",
                GapCause::Packing => "packing",
                GapCause::Topology => "topology",
                GapCause::Limits => "limits",
                GapCause::MinValues => "minValues",
                GapCause::WholeMachines => "whole machines",
            },
            price_per_hour: part.per_hour(),
        });
        Self {
            price_per_hour: bound.per_hour(),
            gap: cost_gap(bound, plan),
            causes: causes.collect(),
        }
    }
}

/// A pod without a place.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnschedulableReport {
    pub(crate) pod: String,
    pub(crate) message: String,
    pub(crate) deferred: bool,
    pub(crate) reasons: Vec<ReasonReport>,
}

/// Why one pool does not take a pod.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReasonReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nearest_miss: Option<String>,
}

impl ReasonReport {
    pub(crate) fn of(refusal: &Refusal) -> Self {
        let (node_pool, node) = match &refusal.by {
            Refuser::Pool(pool) => (Some(pool.to_string()), None),
            Refuser::Node(node) => (None, Some(node.to_string())),
        };
        Self {
            node_pool,
            node,
            code: refusal.cause.code(),
            message: refusal.cause.to_string(),
            nearest_miss: refusal.nearest_miss.clone(),
        }
    }
}

/// A pod validation refuses.
#[derive(Serialize, Debug)]
pub(crate) struct IgnoredReport {
    pub(crate) pod: String,
    pub(crate) reasons: Vec<IgnoredReason>,
}

/// One reason validation gives.
#[derive(Serialize, Debug)]
pub(crate) struct IgnoredReason {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// Sums over the report. Prices are dollars per hour; utilisation is requests over allocatable of the new nodes, 0 to 1.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Totals {
    pub(crate) pods: usize,
    /// How many of them are virtual: they keep the room of CapacityBuffers.
    pub(crate) buffer_pods: usize,
    pub(crate) scheduled: usize,
    pub(crate) scheduled_to_existing: usize,
    pub(crate) unschedulable: usize,
    pub(crate) ignored: usize,
    pub(crate) new_nodes: usize,
    pub(crate) price_per_hour: f64,
    pub(crate) existing_price_per_hour: f64,
    pub(crate) cpu_utilization: Option<f64>,
    pub(crate) memory_utilization: Option<f64>,
}

/// The objections of the plan checker (`--verify`).
#[derive(Serialize, Debug)]
pub(crate) struct Verification {
    pub(crate) valid: bool,
    pub(crate) violations: Vec<String>,
}

impl Verification {
    pub(crate) fn of(violations: &[Violation]) -> Self {
        Self {
            valid: violations.is_empty(),
            violations: violations.iter().map(ToString::to_string).collect(),
        }
    }
}

impl SimulationReport {
    /// Renders a plan made from `snapshot`.
    pub(crate) fn new(snapshot: &Snapshot, plan: &Plan) -> Self {
        let interner = &*snapshot.interner;
        let mut nodes: Vec<NodeReport> = Vec::new();
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut requested, mut offered) = (Resources::new(), Resources::new());
        for launch in &plan.launches {
            let number = numbers.entry(&launch.pool).or_default();
            *number += 1;
            let (node, allocatable) = NodeReport::with_allocatable(interner, launch, *number);
            nodes.push(node);
            requested.add(&launch.requests);
            offered.add(&allocatable);
        }
        for placement in &plan.existing {
            let node = snapshot.node(&placement.node);
            nodes.extend(node.map(|node| NodeReport::existing(interner, node, &placement.pods)));
        }
        let unschedulable = unschedulable(plan);
        let ignored: Vec<IgnoredReport> = plan.ignored.iter().map(|(pod, faults)| ignored(pod, faults)).collect();
        let scheduled_to_existing = plan.placed_pods();
        let scheduled = plan.launched_pods() + scheduled_to_existing;
        let price = plan.price();
        let existing_price: Price = snapshot.nodes.iter().filter_map(|node| node.price).sum();
        let totals = Totals {
            pods: scheduled + unschedulable.len() + ignored.len(),
            buffer_pods: buffer_pods(plan),
            scheduled,
            scheduled_to_existing,
            unschedulable: unschedulable.len(),
            ignored: ignored.len(),
            new_nodes: plan.launches.len(),
            price_per_hour: price.per_hour(),
            existing_price_per_hour: existing_price.per_hour(),
            cpu_utilization: share(requested.get(sym::CPU), offered.get(sym::CPU)),
            memory_utilization: share(requested.get(sym::MEMORY), offered.get(sym::MEMORY)),
        };
        let (api_version, kind) = ("kerf.sh/v1alpha1", "SimulationReport");
        Self {
            api_version,
            kind,
            nodes,
            unschedulable,
            ignored,
            totals,
            bound: None,
            constraint_costs: None,
            verification: None,
        }
    }
}

fn buffer_pods(plan: &Plan) -> usize {
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let existing = plan.existing.iter().flat_map(|placement| &placement.pods);
    let left = plan.unschedulable.iter().map(|left| &left.pod);
    let all = launched.chain(existing).chain(left).chain(&plan.unattempted);
    all.filter(|pod| pod.capacity_buffer.is_some()).count()
}

fn share(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 10_000.0).round() / 10_000.0)
}

fn unschedulable(plan: &Plan) -> Vec<UnschedulableReport> {
    let refused = plan.unschedulable.iter().map(|left| UnschedulableReport {
        pod: left.pod.key(),
        message: left.message(),
        deferred: left.deferred,
        reasons: left.refusals.iter().map(ReasonReport::of).collect(),
    });
    let unattempted = plan.unattempted.iter().map(|pod| UnschedulableReport {
        pod: pod.key(),
        message: "not reached before the deadline".to_owned(),
        deferred: true,
        reasons: Vec::new(),
    });
    let mut all: Vec<_> = refused.chain(unattempted).collect();
    for left in all.iter_mut().filter(|left| left.reasons.is_empty() && !left.deferred) {
        let (code, message) = (Cause::NoTemplates.code(), Cause::NoTemplates.to_string());
        left.reasons.push(ReasonReport {
            node_pool: None,
            node: None,
            code,
            message,
            nearest_miss: None,
        });
    }
    all
}

fn ignored(pod: &Pod, faults: &[kerf_model::pod::PodFault]) -> IgnoredReport {
    let reasons = faults
        .iter()
        .map(|fault| IgnoredReason {
            code: fault.code(),
            message: fault.to_string(),
        })
        .collect();
    IgnoredReport {
        pod: pod.key(),
        reasons,
    }
}
