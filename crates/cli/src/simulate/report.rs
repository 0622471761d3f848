//! The `SimulationReport`: what one provisioning decision would do, as a stable document.

use kerf_check::Violation;
use kerf_model::instance_type::{InstanceType, allocatable};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::plan::{Cause, Launch, Plan, Refusal, Refuser};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    pub(crate) verification: Option<Verification>,
}

/// A node that receives pods.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeReport {
    pub(crate) name: String,
    pub(crate) node_pool: Option<String>,
    pub(crate) existing: bool,
    pub(crate) instance_type: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) capacity_type: Option<String>,
    pub(crate) price_per_hour: Option<f64>,
    pub(crate) pods: Vec<String>,
    pub(crate) requests: BTreeMap<String, String>,
    pub(crate) allocatable: BTreeMap<String, String>,
    pub(crate) instance_type_options: usize,
}

impl NodeReport {
    /// A node to launch, the `number`th of its pool.
    pub(crate) fn new(interner: &Interner, launch: &Launch, number: usize) -> Self {
        new_node(interner, launch, number).0
    }

    /// A node that is there, with what it has once `pods` are on it too.
    pub(crate) fn existing(interner: &Interner, node: &Node, pods: &[Arc<Pod>]) -> Self {
        let label = |key: Sym| node.label(key).map(|value| interner.text(value).to_owned());
        let mut requests = node.requested.clone();
        for pod in pods {
            requests.add(&pod.shape.requests);
        }
        Self {
            name: node.name.to_string(),
            node_pool: label(sym::NODEPOOL),
            existing: true,
            instance_type: label(sym::INSTANCE_TYPE),
            zone: label(sym::ZONE),
            capacity_type: label(sym::CAPACITY_TYPE),
            price_per_hour: node.price.map(Price::per_hour),
            pods: keys(pods),
            requests: printed(interner, &requests),
            allocatable: printed(interner, &node.allocatable),
            instance_type_options: 1,
        }
    }
}

/// A pod that goes nowhere.
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

/// What the plan checker says (`--verify`).
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
            let (node, allocatable) = new_node(interner, launch, *number);
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
        let scheduled_to_existing = plan.existing.iter().map(|placement| placement.pods.len()).sum();
        let scheduled = plan.launches.iter().map(|launch| launch.pods.len()).sum::<usize>() + scheduled_to_existing;
        let price: Price = plan.launches.iter().filter_map(Launch::price).sum();
        let existing_price: Price = snapshot.nodes.iter().filter_map(|node| node.price).sum();
        let totals = Totals {
            pods: scheduled + unschedulable.len() + ignored.len(),
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
            verification: None,
        }
    }
}

fn share(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 10_000.0).round() / 10_000.0)
}

fn new_node(interner: &Interner, launch: &Launch, number: usize) -> (NodeReport, Resources) {
    let text = |id: Option<Sym>| id.map(|id| interner.text(id).to_owned());
    let cheapest = launch.cheapest.and_then(|(instance_type, offering)| {
        let instance_type = launch.catalogue.types.get(instance_type as usize)?;
        Some((instance_type, instance_type.offerings.get(offering as usize)?))
    });
    let allocatable = cheapest
        .map(|(instance_type, _)| type_allocatable(interner, instance_type))
        .unwrap_or_default();
    let report = NodeReport {
        name: format!("{}-{number}", launch.pool),
        node_pool: Some(launch.pool.to_string()),
        existing: false,
        instance_type: text(cheapest.map(|(instance_type, _)| instance_type.name)),
        zone: text(cheapest.and_then(|(_, offering)| offering.zone())),
        capacity_type: text(cheapest.and_then(|(_, offering)| offering.capacity_type())),
        price_per_hour: launch.price().map(Price::per_hour),
        pods: keys(&launch.pods),
        requests: printed(interner, &launch.requests),
        allocatable: printed(interner, &allocatable),
        instance_type_options: launch.types.len(),
    };
    (report, allocatable)
}

fn type_allocatable(interner: &Interner, instance_type: &InstanceType) -> Resources {
    let huge = |name: Sym| interner.text(name).starts_with("hugepages-");
    allocatable(&instance_type.capacity, &instance_type.overhead, huge)
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

fn keys(pods: &[Arc<Pod>]) -> Vec<String> {
    let mut keys: Vec<String> = pods.iter().map(|pod| pod.key()).collect();
    keys.sort();
    keys
}

fn printed(interner: &Interner, resources: &Resources) -> BTreeMap<String, String> {
    let entry = |(name, amount): (Sym, i64)| (interner.text(name).to_owned(), Resources::print(name, amount));
    resources.iter().map(entry).collect()
}
