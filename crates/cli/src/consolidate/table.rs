//! The report for people: what goes, then what stays and why.

use super::report::{ConsolidationReport, MoveReport, NodeName, ObstacleReport, StayReport};
use crate::simulate::columns;
use std::fmt::Write;

const NAMES_MAX: usize = 5;

/// Renders the report.
pub(crate) fn render(report: &ConsolidationReport) -> String {
    let mut text = String::new();
    if report.moves.is_empty() {
        text.push_str("Nothing would go now.\n\n");
    } else {
        text.push_str("Would go now:\n");
        report.moves.iter().for_each(|one| go(one, &mut text));
        text.push('\n');
    }
    stay(&report.stays, &mut text);
    let totals = &report.totals;
    let _ = writeln!(
        text,
        "{}, {:.4} $/h: {} would go, {} come instead, {} move; saves {:.4} $/h",
        plural(totals.nodes, "node"),
        totals.price_per_hour,
        totals.removed,
        totals.launched,
        plural(totals.pods_moved, "pod"),
        totals.savings_per_hour
    );
    text
}

fn go(one: &MoveReport, text: &mut String) {
    let mut rows = Vec::new();
    for going in &one.nodes {
        let mut row = vec![format!("  {}", going.node.node)];
        row.extend(of(&going.node));
        row.push(if going.pods.is_empty() {
            "empty".to_owned()
        } else {
            format!("{} to move", plural(going.pods.len(), "pod"))
        });
        rows.push(row);
    }
    for new in &one.replacements {
        let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        rows.push(vec![
            "  + new node".to_owned(),
            or_dash(&new.node_pool),
            or_dash(&new.instance_type),
            new.price_per_hour
                .map_or_else(|| "-".to_owned(), |price| format!("{price:.4} $/h")),
            format!("{} to choose from", plural(new.instance_type_options, "type")),
        ]);
    }
    let _ = writeln!(
        text,
        " {} ({}), saves {:.4} $/h",
        one.reason, one.decision, one.savings_per_hour
    );
    text.push_str(&columns(&rows));
}

fn of(node: &NodeName) -> [String; 3] {
    let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    [
        or_dash(&node.node_pool),
        or_dash(&node.instance_type),
        node.price_per_hour
            .map_or_else(|| "-".to_owned(), |price| format!("{price:.4} $/h")),
    ]
}

/// Code, message and remedy of an obstacle.
type Told<'a> = (&'a str, &'a str, &'a str);

/// Nodes that stay, those with the same reasons together.
fn stay(stays: &[StayReport], text: &mut String) {
    let mut groups: Vec<(Vec<Told<'_>>, Vec<&str>)> = Vec::new();
    for one in stays {
        let reasons: Vec<_> = one.obstacles.iter().map(told).collect();
        match groups.iter_mut().find(|(known, _)| *known == reasons) {
            Some((_, names)) => names.push(&one.node.node),
            None => groups.push((reasons, vec![&one.node.node])),
        }
    }
    if groups.is_empty() {
        return;
    }
    text.push_str("Stays:\n");
    for (reasons, names) in groups {
        let more = names.len().saturating_sub(NAMES_MAX);
        let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let _ = writeln!(text, "  {shown}{more}");
        for (code, message, remedy) in reasons {
            let _ = writeln!(text, "    {code}: {message}\n      to change it: {remedy}");
        }
    }
    text.push('\n');
}

fn told(obstacle: &ObstacleReport) -> Told<'_> {
    (obstacle.code, &obstacle.message, &obstacle.remedy)
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}
