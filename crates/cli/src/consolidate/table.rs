//! The report for people: the nodes that are removed, then those that stay, with the reasons.

use super::report::{ConsolidationReport, MoveReport, NodeName, ObstacleReport, StayReport};
use crate::columns::columns;
use crate::counted::counted;
use crate::listed::listed;
use std::fmt::Write;

const NAMES_MAX: usize = 5;

/// Renders the report.
pub(crate) fn render(report: &ConsolidationReport) -> String {
    let mut text = String::new();
    if report.moves.is_empty() {
        text.push_str("Nothing would go now.\n\n");
    } else {
        text.push_str("Would go now, in this order:\n");
        let moves = report.moves.iter().enumerate();
        moves.for_each(|(at, one)| go(at + 1, one, &mut text));
        text.push('\n');
    }
    stay(&report.stays, &mut text);
    let totals = &report.totals;
    let _ = writeln!(
        text,
        "{}, {:.4} $/h: {} would go, {} would come instead, {} would move; saves {:.4} $/h",
        counted(totals.nodes, "node"),
        totals.price_per_hour,
        totals.removed,
        totals.launched,
        counted(totals.pods_moved, "pod"),
        totals.savings_per_hour
    );
    text
}

fn go(number: usize, one: &MoveReport, text: &mut String) {
    let what = match one.replacements.len() {
        0 => format!("remove {}", counted(one.nodes.len(), "node")),
        new => format!("replace {} with {new}", counted(one.nodes.len(), "node")),
    };
    let _ = writeln!(
        text,
        "  {number}. {what}, saves {:.4} $/h: {} ({})",
        one.savings_per_hour,
        one.because(),
        one.reason
    );
    let header = ["    NODE", "POOL", "TYPE", "PRICE", "PODS TO MOVE", "DISRUPTION"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for going in &one.nodes {
        let mut row = vec![format!("    {}", going.node.node)];
        row.extend(of(&going.node));
        row.extend([going.pods.len().to_string(), format!("{:.2}", going.disruption)]);
        rows.push(row);
    }
    for new in &one.replacements {
        rows.push(vec![
            "    + new node".to_owned(),
            or_dash(new.node_pool.as_deref()),
            or_other(new.instance_type.as_deref(), new.instance_type_options),
            dollars(new.price_per_hour),
        ]);
    }
    text.push_str(&columns(&rows));
}

impl MoveReport {
    /// Why, in words.
    pub(crate) fn because(&self) -> &'static str {
        match (self.reason, self.nodes.len(), self.replacements.len()) {
            ("Empty", 1, _) => "nothing on it needs a place",
            ("Empty", _, _) => "nothing on them needs a place",
            ("Drifted", 1, 0) => "it has drifted, and its pods fit on other nodes",
            ("Drifted", 1, _) => "it has drifted, and a new node takes its pods",
            ("Drifted", _, _) => "they have drifted, and their pods fit on other or new nodes",
            (_, 1, 0) => "its pods fit on other nodes",
            (_, 1, _) => "its pods fit on a cheaper node",
            (_, _, 0) => "their pods fit on other nodes",
            (..) => "their pods fit on other nodes and a cheaper one",
        }
    }
}

fn or_dash(value: Option<&str>) -> String {
    value.unwrap_or("-").to_owned()
}

/// The cheapest type, and how many others the cloud may give instead.
fn or_other(cheapest: Option<&str>, options: usize) -> String {
    match options.saturating_sub(1) {
        0 => or_dash(cheapest),
        others => format!("{} or {others} more", or_dash(cheapest)),
    }
}

fn dollars(price: Option<f64>) -> String {
    price.map_or_else(|| "-".to_owned(), |price| format!("{price:.4} $/h"))
}

fn of(node: &NodeName) -> [String; 3] {
    [
        or_dash(node.node_pool.as_deref()),
        or_dash(node.instance_type.as_deref()),
        dollars(node.price_per_hour),
    ]
}

/// Code, message and remedy of an obstacle.
type ReasonTexts<'a> = (&'a str, &'a str, &'a str);

/// Nodes that stay, those with the same reasons together.
fn stay(stays: &[StayReport], text: &mut String) {
    let mut groups: Vec<(Vec<ReasonTexts<'_>>, Vec<&str>)> = Vec::new();
    for one in stays {
        let reasons: Vec<_> = one.obstacles.iter().map(texts).collect();
        match groups.iter_mut().find(|(known, _)| *known == reasons) {
            Some((_, names)) => names.push(&one.node.node),
            None => groups.push((reasons, vec![&one.node.node])),
        }
    }
    if groups.is_empty() {
        return;
    }
    text.push_str("Stays, and what would change that:\n");
    for (reasons, names) in groups {
        let _ = writeln!(text, "  {}", listed(&names, NAMES_MAX));
        for (code, message, remedy) in reasons {
            let _ = writeln!(text, "    {code}: {message}\n      remedy: {remedy}");
        }
    }
    text.push('\n');
}

fn texts(obstacle: &ObstacleReport) -> ReasonTexts<'_> {
    (obstacle.code, &obstacle.message, &obstacle.remedy)
}
