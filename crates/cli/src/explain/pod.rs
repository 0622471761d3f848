//! Why a pod is where it is, or nowhere.

use super::text::Paragraphs;
use crate::counted::counted;
use crate::decision::{Cluster, DecisionInputs};
use crate::exit::Exit;
use crate::listed::listed;
use crate::node_report::NodeReport;
use crate::simulate::{ReasonReport, SimulationReport, planned_or_explained};
use kerf_decide::{Memory, provision};
use kerf_model::intern::sym;
use kerf_model::plan::{Launch, Refuser};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Request, explain as refusals};
use kerf_state::lean::LeanPod;
use serde::Serialize;
use std::sync::Arc;

/// Where a pod stands before anything is decided, from its object.
pub(super) struct Standing {
    namespace: String,
    name: String,
    /// The answer, where the object gives it.
    settled: Option<(PodOutcome, String)>,
    node: Option<String>,
}

/// The answer in a word.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PodOutcome {
    /// It is bound to a node.
    Bound,
    /// It has ended.
    Finished,
    /// It would be placed on a node that is there or on its way.
    ExistingNode,
    /// It would get a new node.
    NewNode,
    /// A later pass places it: only capacity reservations are in the way.
    Deferred,
    /// Nothing takes it.
    Unschedulable,
    /// Validation refuses it.
    Ignored,
    /// Scheduling gates hold it back.
    Gated,
    /// Kerf makes no nodes for pods like it.
    NotConsidered,
}

/// The document `kerf explain pod/NAME` prints; described in docs/explanations.md.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodExplanation {
    api_version: &'static str,
    kind: &'static str,
    pod: String,
    #[serde(rename = "verdict")]
    outcome: PodOutcome,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    instance_types: Vec<TypeReport>,
    refusals: Vec<ReasonReport>,
    considered: Considered,
}

/// An instance type the new node may be of.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct TypeReport {
    name: String,
    price_per_hour: Option<f64>,
}

/// How many there are to choose from.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Considered {
    nodes: usize,
    node_pools: usize,
}

impl Standing {
    /// The standing of a pod, if there is such a pod.
    pub(super) fn of(cluster: &Cluster, namespace: &str, name: &str) -> Option<Self> {
        let pod = cluster.pod(namespace, name)?;
        let bound = &pod.spec.node_name;
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            settled: settled(pod),
            node: (!bound.is_empty()).then(|| bound.clone()),
        })
    }

    fn is(&self, pod: &Pod) -> bool {
        *pod.namespace == self.namespace && *pod.name == self.name
    }
}

fn settled(pod: &LeanPod) -> Option<(PodOutcome, String)> {
    let phase = pod.status.phase.as_str();
    if matches!(phase, "Succeeded" | "Failed") {
        return Some((PodOutcome::Finished, format!("has ended: its phase is {phase}")));
    }
    if !pod.spec.node_name.is_empty() {
        return Some((PodOutcome::Bound, format!("is bound to node {}", pod.spec.node_name)));
    }
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let owned_by = |version: &str, kind: &str| {
        owners
            .iter()
            .any(|owner| owner.api_version == version && owner.kind == kind)
    };
    if owned_by("apps/v1", "DaemonSet") {
        let text = "belongs to a DaemonSet: it goes to nodes that are there, and no node is made for it";
        return Some((PodOutcome::NotConsidered, text.to_owned()));
    }
    if owned_by("v1", "Node") {
        let text = "is a static pod: its node's kubelet runs it, and no node is made for it";
        return Some((PodOutcome::NotConsidered, text.to_owned()));
    }
    if !pod.spec.scheduling_gates.is_empty() {
        let text = "is held back by its scheduling gates; nothing schedules it before they are removed".to_owned();
        return Some((PodOutcome::Gated, text));
    }
    None
}

/// Explains a pod.
pub(super) fn explain(inputs: &DecisionInputs, standing: &Standing) -> PodExplanation {
    let snapshot = &*inputs.snapshot;
    let mut explanation = PodExplanation {
        api_version: "kerf.sh/v1alpha1",
        kind: "PodExplanation",
        pod: format!("{}/{}", standing.namespace, standing.name),
        outcome: PodOutcome::NotConsidered,
        message: "does not wait for capacity".to_owned(),
        node: None,
        instance_types: Vec::new(),
        refusals: Vec::new(),
        considered: Considered {
            nodes: snapshot.nodes.len(),
            node_pools: snapshot.pools.len(),
        },
    };
    if let Some((outcome, message)) = &standing.settled {
        (explanation.outcome, explanation.message) = (*outcome, message.clone());
        let there = |node: &&Arc<kerf_model::node::Node>| node.node_name.as_deref() == standing.node.as_deref();
        let node = snapshot
            .nodes
            .iter()
            .find(there)
            .filter(|_| *outcome == PodOutcome::Bound);
        explanation.node = node.map(|node| NodeReport::existing(&snapshot.interner, node, &[]));
        return explanation;
    }
    let mine = |pods: &[Arc<Pod>]| pods.iter().any(|pod| standing.is(pod));
    let mut unlaunched = snapshot
        .nodes
        .iter()
        .filter(|node| node.node_name.is_none() && node.provider_id.is_none());
    if let Some(claim) = unlaunched.find(|claim| mine(&claim.pods)) {
        explanation.outcome = PodOutcome::ExistingNode;
        explanation.message = format!(
            "waits for NodeClaim {}, which was made for it and is not launched yet",
            claim.name
        );
        explanation.node = Some(NodeReport {
            pods: claim.pods.iter().map(|pod| pod.key()).collect(),
            ..NodeReport::existing(&snapshot.interner, claim, &[])
        });
        return explanation;
    }
    let decision = provision(&inputs.view(), &mut Memory::default(), &|| false);
    let Some(pod) = decision.batch.pods.iter().find(|pod| standing.is(pod)) else {
        return explanation;
    };
    let plan = planned_or_explained(inputs, &decision);
    if let Some((_, faults)) = plan.ignored.iter().find(|(pod, _)| standing.is(pod)) {
        let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
        explanation.outcome = PodOutcome::Ignored;
        explanation.message = format!("cannot be considered: {}", texts.join("; "));
        return explanation;
    }
    let request = Request::new(snapshot, &decision.batch.pods);
    let mut refusals = refusals(&request, &inputs.settings.solver, pod);
    let report = SimulationReport::new(snapshot, &plan);
    let place = report
        .nodes
        .into_iter()
        .find(|node| node.pods.contains(&explanation.pod));
    if let Some(launch) = plan.launches.iter().find(|launch| mine(&launch.pods)) {
        explanation.outcome = PodOutcome::NewNode;
        explanation.message = format!("would get a new node of NodePool {}", launch.pool);
        explanation.instance_types = instance_types(snapshot, launch);
        refusals.retain(|refusal| refusal.by != Refuser::Pool(Arc::clone(&launch.pool)));
    } else if let Some(placed) = plan.existing.iter().find(|placed| mine(&placed.pods)) {
        explanation.outcome = PodOutcome::ExistingNode;
        explanation.message = format!("would be placed on node {}, which has room for it", placed.node);
        refusals.retain(|refusal| refusal.by != Refuser::Node(Arc::clone(&placed.node)));
    } else if let Some(left) = plan.unschedulable.iter().find(|left| standing.is(&left.pod)) {
        (explanation.outcome, explanation.message) = if left.deferred {
            (
                PodOutcome::Deferred,
                "waits for a later pass: only capacity reservations are in the way".to_owned(),
            )
        } else {
            (PodOutcome::Unschedulable, left.message())
        };
    }
    explanation.node = place;
    explanation.refusals = refusals.iter().map(ReasonReport::of).collect();
    explanation
}

/// The types a launch offers the cloud, cheapest first, each at its cheapest offering.
fn instance_types(snapshot: &Snapshot, launch: &Launch) -> Vec<TypeReport> {
    let interner = &*snapshot.interner;
    let named = |number: &u32| {
        let kind = launch.catalogue.types.get(*number as usize)?;
        let offerings = kind.offerings.iter().filter(|offering| offering.available);
        let fitting =
            offerings.filter(|offering| launch.requirements.intersects(&offering.requirements, interner).is_ok());
        let held = |reserved: bool| !reserved || !launch.reservations.is_empty();
        let price = fitting
            .filter(|offering| held(offering.capacity_type() == Some(sym::RESERVED)))
            .map(|offering| offering.price)
            .min();
        Some(TypeReport {
            name: interner.text(kind.name).to_owned(),
            price_per_hour: price.map(Price::per_hour),
        })
    };
    launch.types.iter().filter_map(named).collect()
}

impl PodExplanation {
    /// How the command ends.
    pub(super) fn exit(&self) -> Exit {
        match self.outcome {
            PodOutcome::Bound | PodOutcome::Finished | PodOutcome::ExistingNode | PodOutcome::NewNode => Exit::Done,
            PodOutcome::Deferred
            | PodOutcome::Unschedulable
            | PodOutcome::Ignored
            | PodOutcome::Gated
            | PodOutcome::NotConsidered => Exit::No,
        }
    }
}

/// How many instance types a text names.
const TYPES_SHOWN: usize = 5;

/// The explanation for people.
pub(super) fn render(explanation: &PodExplanation) -> String {
    let mut text = Paragraphs::default();
    let placed = matches!(explanation.outcome, PodOutcome::ExistingNode | PodOutcome::NewNode);
    if explanation.outcome == PodOutcome::Unschedulable {
        text.line(&format!(
            "Pod {} has no place: no node and no NodePool takes it.",
            explanation.pod
        ));
    } else {
        text.line(&format!("Pod {} {}.", explanation.pod, explanation.message));
    }
    if let Some(node) = &explanation.node {
        text.blank();
        text.table(&facts(explanation, node));
    }
    let (nodes, pools): (Vec<&ReasonReport>, Vec<_>) =
        explanation.refusals.iter().partition(|refusal| refusal.node.is_some());
    let heading = |what: &str| {
        if placed {
            format!("Why no other {what}:")
        } else {
            format!("Why no {what}:")
        }
    };
    text.refusals(&heading("NodePool"), &pools);
    text.refusals(&heading("node"), &nodes);
    if explanation.outcome == PodOutcome::Unschedulable && explanation.refusals.is_empty() {
        let considered = &explanation.considered;
        text.blank();
        text.line(&format!(
            "There is nothing to choose from: {} and {}.",
            counted(considered.node_pools, "NodePool"),
            counted(considered.nodes, "node")
        ));
    }
    text.finish()
}

fn facts(explanation: &PodExplanation, node: &NodeReport) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    let price =
        |price: Option<f64>| price.map_or_else(|| "price unknown".to_owned(), |price| format!("{price:.4} $/h"));
    let what: Vec<String> = [&node.instance_type, &node.zone, &node.capacity_type]
        .into_iter()
        .flatten()
        .cloned()
        .chain(std::iter::once(price(node.price_per_hour)))
        .collect();
    let types = &explanation.instance_types;
    if explanation.outcome == PodOutcome::NewNode {
        fact("cheapest", what.join(", "));
        let types: Vec<String> = types
            .iter()
            .map(|kind| format!("{} ({})", kind.name, price(kind.price_per_hour)))
            .collect();
        fact("instance types", listed(&types, TYPES_SHOWN));
    } else {
        fact("node", format!("{} ({})", node.name, what.join(", ")));
        if let Some(pool) = &node.node_pool {
            fact("NodePool", pool.clone());
        }
    }
    for name in ["cpu", "memory"] {
        if let (Some(requests), Some(allocatable)) = (node.requests.get(name), node.allocatable.get(name)) {
            fact(name, format!("{requests} of {allocatable} requested, daemons included"));
        }
    }
    if explanation.outcome != PodOutcome::Bound {
        let others = node.pods.len().saturating_sub(1);
        let others = if others == 0 {
            "no other pending pod".to_owned()
        } else {
            counted(others, "other pending pod")
        };
        fact("together with", others);
    }
    facts
}
