//! The `ConsolidationReport`: what would go, what it saves, and what stays and why, as a stable document.

use crate::node_report::NodeReport;
use jiff::Timestamp;
use kerf_decide::Forecast;
use kerf_disruption::{Command, Obstacle};
use kerf_model::intern::{Sym, sym};
use kerf_model::node::Node;
use kerf_model::plan::Launch;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use serde::Serialize;

/// The document `kerf simulate --consolidate` prints; described in docs/consolidation-report.md.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsolidationReport {
    api_version: &'static str,
    kind: &'static str,
    now: String,
    pub(crate) moves: Vec<MoveReport>,
    pub(crate) stays: Vec<StayReport>,
    pub(crate) totals: Totals,
}

/// One command.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MoveReport {
    pub(crate) reason: &'static str,
    pub(crate) decision: &'static str,
    pub(crate) nodes: Vec<Going>,
    pub(crate) replacements: Vec<NodeReport>,
    pub(crate) savings_per_hour: f64,
    pub(crate) pods: usize,
    /// What moving them costs, in plain pods.
    pub(crate) disruption: f64,
    pub(crate) message: String,
}

/// A node that is removed.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Going {
    #[serde(flatten)]
    pub(crate) node: NodeName,
    /// Pods that have to move, as `namespace/name`.
    pub(crate) pods: Vec<String>,
    /// What moving them costs, in plain pods.
    pub(crate) disruption: f64,
}

/// A node that stays.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StayReport {
    #[serde(flatten)]
    pub(crate) node: NodeName,
    pub(crate) obstacles: Vec<ObstacleReport>,
}

/// Which node, of what kind, at what price.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeName {
    pub(crate) node: String,
    pub(crate) node_claim: Option<String>,
    pub(crate) node_pool: Option<String>,
    pub(crate) instance_type: Option<String>,
    pub(crate) price_per_hour: Option<f64>,
}

/// One thing in the way.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObstacleReport {
    pub(crate) code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    pub(crate) objects: Vec<String>,
    pub(crate) message: String,
    pub(crate) remedy: String,
}

/// Sums. Prices are dollars per hour, of the nodes whose price is known.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Totals {
    pub(crate) nodes: usize,
    pub(crate) price_per_hour: f64,
    pub(crate) removed: usize,
    pub(crate) launched: usize,
    pub(crate) pods_moved: usize,
    pub(crate) disruption: f64,
    pub(crate) savings_per_hour: f64,
}

impl ObstacleReport {
    pub(crate) fn of(obstacle: &Obstacle) -> Self {
        Self {
            code: obstacle.code,
            reason: obstacle.reason.map(kerf_model::budget::DisruptionReason::as_str),
            objects: obstacle.objects.iter().map(ToString::to_string).collect(),
            message: obstacle.message.clone(),
            remedy: obstacle.remedy.clone(),
        }
    }
}

impl NodeName {
    pub(crate) fn of(snapshot: &Snapshot, node: &Node) -> Self {
        let label = |key: Sym| node.label(key).map(|value| snapshot.interner.text(value).to_owned());
        Self {
            node: node.name.to_string(),
            node_claim: node.claim_name.as_ref().map(ToString::to_string),
            node_pool: label(sym::NODEPOOL),
            instance_type: label(sym::INSTANCE_TYPE),
            price_per_hour: node.price.map(Price::per_hour),
        }
    }
}

impl MoveReport {
    pub(crate) fn of(snapshot: &Snapshot, command: &Command) -> Self {
        let nodes: Vec<Going> = command
            .candidates
            .iter()
            .map(|candidate| Going {
                node: NodeName::of(snapshot, &candidate.node),
                pods: candidate.pods.iter().map(|pod| pod.key()).collect(),
                disruption: candidate.cost.as_pods(),
            })
            .collect();
        let replacement = |(at, launch): (usize, &Launch)| NodeReport::new(&snapshot.interner, launch, at + 1);
        Self {
            reason: command.reason.as_str(),
            decision: command.decision().as_str(),
            replacements: command.replacements.iter().enumerate().map(replacement).collect(),
            savings_per_hour: command.savings().per_hour(),
            pods: nodes.iter().map(|node| node.pods.len()).sum(),
            disruption: total(nodes.iter().map(|node| node.disruption)),
            nodes,
            message: command.short(),
        }
    }
}

/// The sum; of nothing it is zero, not what `sum` has, which prints as -0.0.
fn total(all: impl Iterator<Item = f64>) -> f64 {
    all.fold(0.0, |sum, one| sum + one)
}

impl ConsolidationReport {
    pub(crate) fn new(snapshot: &Snapshot, forecast: &Forecast, now: Timestamp) -> Self {
        let moves: Vec<MoveReport> = forecast
            .commands
            .iter()
            .map(|command| MoveReport::of(snapshot, command))
            .collect();
        let stays = forecast.obstacles.iter().filter_map(|(index, obstacles)| {
            Some(StayReport {
                node: NodeName::of(snapshot, snapshot.nodes.get(*index)?),
                obstacles: obstacles.iter().map(ObstacleReport::of).collect(),
            })
        });
        let savings: Price = forecast.commands.iter().map(Command::savings).sum();
        let price: Price = snapshot.nodes.iter().filter_map(|node| node.price).sum();
        Self {
            api_version: "kerf.sh/v1alpha1",
            kind: "ConsolidationReport",
            now: now.to_string(),
            totals: Totals {
                nodes: snapshot.nodes.len(),
                price_per_hour: price.per_hour(),
                removed: moves.iter().map(|one| one.nodes.len()).sum(),
                launched: moves.iter().map(|one| one.replacements.len()).sum(),
                pods_moved: moves.iter().map(|one| one.pods).sum(),
                disruption: total(moves.iter().map(|one| one.disruption)),
                savings_per_hour: savings.per_hour(),
            },
            stays: stays.collect(),
            moves,
        }
    }
}
