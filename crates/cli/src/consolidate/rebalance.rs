//! The `RebalanceReport`: the cheapest nodes for the pods that run, and the commands that lead there.

use super::report::MoveReport;
use crate::columns::columns;
use crate::counted::counted;
use crate::node_report::{HOURS_PER_MONTH, NodeReport};
use jiff::Timestamp;
use kerf_decide::{Rebalance, RebalanceStep, RebalanceTarget};
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The document `kerf simulate --rebalance` prints; described in docs/consolidation-report.md.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RebalanceReport {
    api_version: &'static str,
    kind: &'static str,
    now: String,
    nodes: usize,
    price_per_hour: f64,
    /// Absent where some pod would have no place.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<TargetReport>,
    pub(crate) steps: Vec<StepReport>,
    after: After,
}

/// The nodes that a plan for all pods at once has.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct TargetReport {
    nodes: usize,
    price_per_hour: f64,
    staying_nodes: usize,
    new_nodes: Vec<NodeReport>,
}

/// A command, and the cluster after it.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepReport {
    pass: usize,
    #[serde(flatten)]
    command: MoveReport,
    nodes_after: usize,
    price_per_hour_after: f64,
}

/// The cluster after all steps.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct After {
    nodes: usize,
    price_per_hour: f64,
    pods_moved: usize,
    savings_per_hour: f64,
    savings_per_month: f64,
}

impl RebalanceReport {
    pub(crate) fn new(snapshot: &Snapshot, found: &Rebalance, now: Timestamp) -> Self {
        let steps: Vec<StepReport> = found.steps.iter().map(|step| StepReport::of(snapshot, step)).collect();
        let saves = found.before.per_hour() - found.after().per_hour();
        Self {
            api_version: "kerf.sh/v1alpha1",
            kind: "RebalanceReport",
            now: now.to_string(),
            nodes: found.nodes,
            price_per_hour: found.before.per_hour(),
            target: found.target.as_ref().map(|target| TargetReport::of(snapshot, target)),
            after: After {
                nodes: found.steps.last().map_or(found.nodes, |step| step.nodes),
                price_per_hour: found.after().per_hour(),
                pods_moved: steps.iter().map(|step| step.command.pods).sum(),
                savings_per_hour: saves,
                savings_per_month: saves * HOURS_PER_MONTH,
            },
            steps,
        }
    }
}

impl TargetReport {
    fn of(snapshot: &Snapshot, target: &RebalanceTarget) -> Self {
        let mut of_pool: BTreeMap<&str, usize> = BTreeMap::new();
        let launches = target.launches.iter().map(|launch| {
            let number = of_pool.entry(&*launch.pool).or_default();
            *number += 1;
            NodeReport::new(&snapshot.interner, launch, *number)
        });
        let new_nodes: Vec<NodeReport> = launches.collect();
        Self {
            nodes: target.staying + new_nodes.len(),
            price_per_hour: target.price.per_hour(),
            staying_nodes: target.staying,
            new_nodes,
        }
    }
}

impl StepReport {
    fn of(snapshot: &Snapshot, step: &RebalanceStep) -> Self {
        Self {
            pass: step.pass,
            command: MoveReport::of(snapshot, &step.command),
            nodes_after: step.nodes,
            price_per_hour_after: Price::per_hour(step.price),
        }
    }
}

/// Renders the report for people.
pub(crate) fn render_rebalance(report: &RebalanceReport) -> String {
    let mut text = format!(
        "Today: {}, {:.4} $/h.\n",
        counted(report.nodes, "node"),
        report.price_per_hour
    );
    let _ = match &report.target {
        Some(target) => writeln!(
            text,
            "Planned at once, its pods would need {} for {:.4} $/h: {} of today's that may not go, and {} new{}\n",
            counted(target.nodes, "node"),
            target.price_per_hour,
            target.staying_nodes,
            target.new_nodes.len(),
            kinds(&target.new_nodes),
        ),
        None => writeln!(text, "Planned at once, some pods would have no place.\n"),
    };
    if report.steps.is_empty() {
        text.push_str("No step would save anything.\n");
        return text;
    }
    let header = ["STEP", "PASS", "WHAT", "PODS", "SAVES", "NODES AFTER", "PRICE AFTER"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (at, step) in report.steps.iter().enumerate() {
        rows.push(vec![
            (at + 1).to_string(),
            step.pass.to_string(),
            step.command.message.clone(),
            step.command.pods.to_string(),
            format!("{:.4} $/h", step.command.savings_per_hour),
            step.nodes_after.to_string(),
            format!("{:.4} $/h", step.price_per_hour_after),
        ]);
    }
    text.push_str(&columns(&rows));
    let after = &report.after;
    let _ = writeln!(
        text,
        "\nAfter all steps: {}, {:.4} $/h; saves {:.4} $/h, {:.0} $/month, and moves {}",
        counted(after.nodes, "node"),
        after.price_per_hour,
        after.savings_per_hour,
        after.savings_per_month,
        counted(after.pods_moved, "pod"),
    );
    text
}

/// The kinds of new nodes, such as `: 2 m5.large, 1 m5.xlarge`.
fn kinds(nodes: &[NodeReport]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.instance_type.as_deref().unwrap_or("-")).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    match counts.is_empty() {
        true => ".".to_owned(),
        false => format!(": {}", counts.join(", ")),
    }
}
