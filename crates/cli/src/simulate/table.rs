//! The report for people: a table of nodes, then what was left and why.

use super::constraint_costs;
use super::report::SimulationReport;
use crate::columns::columns;
use crate::counted::counted;
use crate::listed::listed;
use crate::node_report::NodeReport;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Renders the report.
pub(crate) fn render(report: &SimulationReport) -> String {
    let mut text = String::new();
    if !report.nodes.is_empty() {
        let header = [
            "NODE", "POOL", "TYPE", "ZONE", "CAPACITY", "$/H", "PODS", "CPU", "MEMORY", "OPTIONS",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        rows.extend(report.nodes.iter().map(row));
        text.push_str(&columns(&rows));
        text.push('\n');
    }
    left_over(report, &mut text);
    summary(report, &mut text);
    if let Some(costs) = &report.constraint_costs {
        text.push('\n');
        text.push_str(&constraint_costs::render(costs, report.totals.unschedulable));
    }
    text
}

fn row(node: &NodeReport) -> Vec<String> {
    let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let used = |name: &str| match (node.requests.get(name), node.allocatable.get(name)) {
        (Some(requests), Some(allocatable)) => format!("{requests}/{allocatable}"),
        _ => "-".to_owned(),
    };
    vec![
        if node.existing {
            format!("{} (existing)", node.name)
        } else {
            node.name.clone()
        },
        or_dash(&node.node_pool),
        or_dash(&node.instance_type),
        or_dash(&node.zone),
        or_dash(&node.capacity_type),
        node.price_per_hour
            .map_or_else(|| "-".to_owned(), |price| format!("{price:.4}")),
        node.pods.len().to_string(),
        used("cpu"),
        used("memory"),
        node.instance_type_options.to_string(),
    ]
}

fn left_over(report: &SimulationReport, text: &mut String) {
    let mut groups: BTreeMap<Vec<String>, Vec<&str>> = BTreeMap::new();
    for left in &report.unschedulable {
        let lines = left.reasons.iter().map(|reason| {
            let by = reason.node_pool.as_ref().map(|pool| format!("nodepool {pool}: "));
            let by = by
                .or_else(|| reason.node.as_ref().map(|node| format!("node {node}: ")))
                .unwrap_or_default();
            let miss = reason
                .nearest_miss
                .as_ref()
                .map(|miss| format!(" [{miss}]"))
                .unwrap_or_default();
            format!("{by}{}{miss}", reason.message)
        });
        let lines: Vec<String> = if left.reasons.is_empty() {
            vec![left.message.clone()]
        } else {
            lines.collect()
        };
        groups.entry(lines).or_default().push(&left.pod);
    }
    section("Not scheduled", &groups, text);
    let mut groups: BTreeMap<Vec<String>, Vec<&str>> = BTreeMap::new();
    for left in &report.ignored {
        groups
            .entry(left.reasons.iter().map(|reason| reason.message.clone()).collect())
            .or_default()
            .push(&left.pod);
    }
    section("Ignored", &groups, text);
}

const NAMES_MAX: usize = 5;

fn section(title: &str, groups: &BTreeMap<Vec<String>, Vec<&str>>, text: &mut String) {
    if groups.is_empty() {
        return;
    }
    let _ = writeln!(text, "{title}:");
    for (reasons, pods) in groups {
        let _ = writeln!(text, "  {}", listed(pods, NAMES_MAX));
        for reason in reasons {
            let _ = writeln!(text, "    {reason}");
        }
    }
    text.push('\n');
}

fn summary(report: &SimulationReport, text: &mut String) {
    let totals = &report.totals;
    let _ = write!(text, "{}", counted(totals.pods, "pod"));
    if totals.buffer_pods > 0 {
        let _ = write!(text, " ({} of CapacityBuffers)", totals.buffer_pods);
    }
    let _ = write!(text, ": {} scheduled", totals.scheduled);
    if totals.scheduled_to_existing > 0 {
        let _ = write!(text, " ({} on existing nodes)", totals.scheduled_to_existing);
    }
    let _ = writeln!(text, ", {} not, {} ignored", totals.unschedulable, totals.ignored);
    let _ = write!(
        text,
        "{}: {:.4} $/h",
        counted(totals.new_nodes, "new node"),
        totals.price_per_hour
    );
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    if totals.new_nodes > 0 {
        let (cpu, memory) = (percent(totals.cpu_utilization), percent(totals.memory_utilization));
        let _ = write!(text, ", {cpu} of cpu and {memory} of memory requested");
    }
    text.push('\n');
    if totals.existing_price_per_hour > 0.0 {
        let _ = writeln!(text, "existing nodes: {:.4} $/h", totals.existing_price_per_hour);
    }
    if let Some(bound) = &report.bound {
        let _ = write!(text, "lower bound: {:.4} $/h", bound.price_per_hour);
        if bound.gap.is_some() {
            let _ = write!(text, ", the plan costs {} more", percent(bound.gap));
        }
        text.push('\n');
        // The others print as zero.
        let causes = bound.causes.iter().filter(|one| one.price_per_hour >= 0.000_05);
        let causes: Vec<String> = causes
            .map(|one| format!("{} {:.4} $/h", one.cause, one.price_per_hour))
            .collect();
        if !causes.is_empty() {
            let _ = writeln!(text, "  due to: {}", causes.join(", "));
        }
    }
    if let Some(verification) = &report.verification {
        if verification.valid {
            text.push_str("verified: every placement is one kube-scheduler would make\n");
        } else {
            let _ = writeln!(
                text,
                "INVALID PLAN, {}; this is a bug in Kerf, please report it with the input:",
                counted(verification.violations.len(), "violation")
            );
            for violation in &verification.violations {
                let _ = writeln!(text, "  {violation}");
            }
        }
    }
}
