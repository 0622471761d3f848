//! Why a node stays, or what would become of it.

use super::text::Paragraphs;
use crate::consolidate::{Look, MoveReport, NodeName, ObstacleReport, look};
use crate::exit::Exit;
use jiff::Timestamp;
use kerf_disruption::Command;
use kerf_model::node::Node;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::Options;
use serde::Serialize;
use std::sync::Arc;

/// The answer in a word.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is among those that would be removed now.
    Goes,
    /// It stays.
    Stays,
}

/// The document `kerf explain node/NAME` prints; described in docs/explanations.md.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeExplanation {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    node: NodeName,
    verdict: Verdict,
    message: String,
    /// The pods on it, DaemonSets' included.
    pods: usize,
    /// Since when it is no longer what its pool asks for, and in what.
    #[serde(skip_serializing_if = "Option::is_none")]
    drifted: Option<String>,
    #[serde(rename = "move", skip_serializing_if = "Option::is_none")]
    going: Option<MoveReport>,
    obstacles: Vec<ObstacleReport>,
}

/// Explains a node by the name of its Node object, or of its NodeClaim while it has none.
pub(super) fn explain(
    snapshot: &Snapshot,
    options: &Options,
    spot_to_spot: bool,
    now: Timestamp,
    name: &str,
) -> Option<NodeExplanation> {
    let named = |node: &Arc<Node>| *node.name == *name || node.claim_name.as_deref() == Some(name);
    let index = snapshot.nodes.iter().position(named)?;
    let node = snapshot.nodes.get(index)?;
    let Look { moves, stays } = look(snapshot, options, spot_to_spot, now);
    let of_it = |command: &&Command| command.candidates.iter().any(|candidate| candidate.index == index);
    let command = moves.iter().find(of_it);
    let obstacles: Vec<ObstacleReport> = stays
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
        verdict: if command.is_some() {
            Verdict::Goes
        } else {
            Verdict::Stays
        },
        message,
        pods: node.pods.len(),
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
    /// How the command ends.
    pub(super) fn exit(&self) -> Exit {
        match self.verdict {
            Verdict::Goes => Exit::Done,
            Verdict::Stays => Exit::No,
        }
    }
}

/// The explanation for people.
pub(super) fn render(explanation: &NodeExplanation) -> String {
    let mut text = Paragraphs::default();
    let said = match explanation.verdict {
        Verdict::Goes => &explanation.message,
        // Why is told below.
        Verdict::Stays => "stays",
    };
    text.line(&format!("Node {} {said}.", explanation.node.node));
    text.blank();
    let mut facts = Vec::new();
    let node = &explanation.node;
    for (name, value) in [
        ("NodePool", &node.node_pool),
        ("NodeClaim", &node.node_claim),
        ("type", &node.instance_type),
    ] {
        facts.extend(value.as_ref().map(|value| (name.to_owned(), value.clone())));
    }
    let price = node
        .price_per_hour
        .map_or_else(|| "unknown".to_owned(), |price| format!("{price:.4} $/h"));
    facts.push(("price".to_owned(), price));
    facts.push(("pods".to_owned(), format!("{}, DaemonSets' included", explanation.pods)));
    facts.extend(
        explanation
            .drifted
            .as_ref()
            .map(|drifted| ("drifted".to_owned(), drifted.clone())),
    );
    if let Some(going) = &explanation.going {
        facts.push(("command".to_owned(), going.message.clone()));
        facts.push(("saves".to_owned(), format!("{:.4} $/h", going.savings_per_hour)));
    }
    text.table(&facts);
    if !explanation.obstacles.is_empty() {
        text.blank();
        text.line("Why it stays:");
    }
    for obstacle in &explanation.obstacles {
        let about = obstacle.objects.join(", ");
        text.line(&format!("  {} ({about})", obstacle.code));
        text.line(&format!("    {}", obstacle.message));
        text.line(&format!("    to change it: {}", obstacle.remedy));
    }
    text.finish()
}
