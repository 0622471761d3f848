//! Why a node stays, or what would become of it.

use super::text::Paragraphs;
use crate::consolidate::{MoveReport, NodeName, ObstacleReport, forecast};
use crate::counted::counted;
use crate::decision::{Cluster, DecisionInputs};
use crate::exit::Exit;
use crate::listed::listed;
use crate::manifests::InputError;
use kerf_decide::Forecast;
use kerf_disruption::Command;
use kerf_model::node::Node;
use kerf_model::snapshot::Snapshot;
use serde::Serialize;
use std::sync::Arc;

/// The answer in a word.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeOutcome {
    /// It is among those that would be removed now.
    Goes,
    /// It stays.
    Stays,
}

/// The document `kerf explain node/NAME` prints; described in docs/consolidation-report.md.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeExplanation {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    node: NodeName,
    #[serde(rename = "verdict")]
    outcome: NodeOutcome,
    message: String,
    /// The pods on it, DaemonSets' included.
    pods: usize,
    /// When it is replaced because of its age, whatever budgets and pods say.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// What node auto-repair does about unhealthy conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<String>,
    /// Since when it is no longer what its pool asks for, and in what.
    #[serde(skip_serializing_if = "Option::is_none")]
    drifted: Option<String>,
    #[serde(rename = "move", skip_serializing_if = "Option::is_none")]
    going: Option<MoveReport>,
    obstacles: Vec<ObstacleReport>,
}

/// The provider id of a Node or NodeClaim. Where several have the same, the machine goes by the name of one of them.
pub(super) fn provider_id(cluster: &Cluster, name: &str) -> Option<String> {
    let (nodes, claims) = (&cluster.objects.nodes, &cluster.objects.claims);
    let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
    let claim = || claims.iter().find(|claim| claim.metadata.name.as_deref() == Some(name));
    let id = match node {
        Some(node) => Some(node.spec.provider_id.clone()),
        None => claim()?.status.as_ref()?.provider_id.clone(),
    };
    id.filter(|id| !id.is_empty())
}

/// Where a snapshot has the node of this name, or while it has no Node object, of this NodeClaim; or else of this provider id.
pub(super) fn find(snapshot: &Snapshot, name: &str, id: Option<&str>) -> Option<usize> {
    let named = |node: &Arc<Node>| *node.name == *name || node.claim_name.as_deref() == Some(name);
    let is_it = |node: &Arc<Node>| id.is_some() && node.provider_id.as_deref() == id;
    let mut nodes = snapshot.nodes.iter();
    nodes.position(named).or_else(|| snapshot.nodes.iter().position(is_it))
}

/// Explains a node by its index in the snapshot. `repairs` is what node auto-repair says about it.
pub(super) fn explain(inputs: &DecisionInputs, index: usize, repairs: Vec<String>) -> Option<NodeExplanation> {
    let snapshot = &inputs.snapshot;
    let node = snapshot.nodes.get(index)?;
    let Forecast {
        commands, obstacles, ..
    } = forecast(inputs, Some(index));
    let of_it = |command: &&Command| command.candidates.iter().any(|candidate| candidate.index == index);
    let command = commands.iter().find(of_it);
    let obstacles: Vec<ObstacleReport> = obstacles
        .iter()
        .filter(|(at, _)| *at == index)
        .flat_map(|(_, obstacles)| obstacles)
        .map(ObstacleReport::of)
        .collect();
    let message = match (command, obstacles.as_slice()) {
        (Some(command), _) => format!("would go now ({})", command.reason.as_str()),
        (None, [one]) => format!("stays: {}", one.message),
        (None, several) => format!("stays, for {} reasons", several.len()),
    };
    Some(NodeExplanation {
        api_version: "kerf.sh/v1alpha1",
        kind: "NodeExplanation",
        node: NodeName::of(snapshot, node),
        outcome: if command.is_some() {
            NodeOutcome::Goes
        } else {
            NodeOutcome::Stays
        },
        message,
        pods: node.pods.len(),
        expires: node.lifecycle.expires.map(|at| at.to_string()),
        repairs,
        drifted: node
            .lifecycle
            .drifted
            .as_ref()
            .map(|(reason, since)| format!("{reason} since {since}")),
        going: command.map(|command| MoveReport::of(snapshot, command)),
        obstacles,
    })
}

impl NodeExplanation {
    /// The exit code, given the errors of the input. An answer is not reliable if the node can be removed and whole documents, which may
    /// have an object that protects it, were left out.
    pub(super) fn exit(&self, errors: &[InputError]) -> Exit {
        let unread = self.obstacles.iter().any(|obstacle| obstacle.code == "Unreadable");
        let unknown = errors.iter().any(|error| error.object.is_none());
        match self.outcome {
            NodeOutcome::Goes if unknown => Exit::BadInput,
            NodeOutcome::Goes => Exit::Done,
            NodeOutcome::Stays if unread => Exit::BadInput,
            NodeOutcome::Stays => Exit::No,
        }
    }

    fn headline(&self) -> String {
        let name = &self.node.node;
        let is_going = |obstacle: &ObstacleReport| matches!(obstacle.code, "Queued" | "Deleting");
        match (&self.going, self.obstacles.iter().any(is_going)) {
            (Some(going), _) => format!("Node {name} would go now: {} ({}).", going.because(), going.reason),
            (None, true) => format!("Node {name} is on its way out already."),
            (None, false) => format!("Node {name} stays."),
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
        let node = &self.node;
        for (name, value) in [
            ("NodePool", &node.node_pool),
            ("NodeClaim", &node.node_claim),
            ("type", &node.instance_type),
            ("drifted", &self.drifted),
        ] {
            if let Some(value) = value {
                fact(name, value.clone());
            }
        }
        let price = |price: Option<f64>| price.map_or_else(|| "unknown".to_owned(), |price| format!("{price:.4} $/h"));
        fact("price", price(node.price_per_hour));
        if let Some(expires) = &self.expires {
            fact(
                "expires",
                format!("{expires}; then it is replaced whatever budgets and pods say"),
            );
        }
        for repair in &self.repairs {
            fact("unhealthy", repair.clone());
        }
        fact("pods", format!("{}, DaemonSets' included", self.pods));
        let Some(going) = &self.going else { return facts };
        let others: Vec<&str> = going.nodes.iter().map(|going| &*going.node.node).collect();
        let others: Vec<&str> = others.into_iter().filter(|name| *name != node.node).collect();
        if !others.is_empty() {
            fact("together with", listed(&others, NAMES_SHOWN));
        }
        for new in &going.replacements {
            let kind = new.instance_type.as_deref().unwrap_or("a new node");
            let types = counted(new.instance_type_options, "type");
            let text = format!("{kind}, {} ({types} to choose from)", price(new.price_per_hour));
            fact("replaced by", text);
        }
        fact("pods to move", going.pods.to_string());
        fact(
            "disruption",
            format!("{:.2} (1 for each node and each ordinary pod)", going.disruption),
        );
        let priced = going.nodes.iter().all(|going| going.node.price_per_hour.is_some());
        fact("saves", price(priced.then_some(going.savings_per_hour)));
        facts
    }
}

/// How many names a line has.
const NAMES_SHOWN: usize = 5;

/// The explanation for people.
pub(super) fn render(explanation: &NodeExplanation) -> String {
    let mut text = Paragraphs::default();
    text.line(&explanation.headline());
    text.blank();
    text.table(&explanation.facts());
    if !explanation.obstacles.is_empty() {
        text.blank();
        text.line("Why, and what would change that:");
    }
    for obstacle in &explanation.obstacles {
        let about: Vec<&str> = obstacle.objects.iter().map(String::as_str).collect();
        let only = obstacle
            .reason
            .map(|reason| format!(", for reason {reason}"))
            .unwrap_or_default();
        text.line(&format!("  {} ({}){only}", obstacle.code, listed(&about, NAMES_SHOWN)));
        text.line(&format!("    {}", obstacle.message));
        text.line(&format!("    remedy: {}", obstacle.remedy));
    }
    text.finish()
}
