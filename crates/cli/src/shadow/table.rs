//! The comparison as text.

use super::comparison::{Comparison, Launched, ScaleUps};
use crate::columns::columns;
use std::fmt::Write;

/// The whole report.
pub(super) fn render(comparison: &Comparison) -> String {
    let (Some(from), Some(to)) = (comparison.from, comparison.to) else {
        return "no records\n".to_owned();
    };
    let mut text = format!("observed {:.1} h, from {from} to {to}\n", comparison.hours());
    if let Some(cost) = &comparison.cost {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "the cluster cost {:.4} $/h on average, {:.4} at least, {:.4} at most",
            cost.average, cost.least, cost.most
        );
    }
    text.push_str("\nMachines for pods that waited\n");
    text.push_str(&scale_ups(comparison));
    text.push_str("\nDisruption\n");
    text.push_str(&disruption(comparison));
    let _ = writeln!(
        text,
        "\nCommands of Kerf that were not carried out would have saved {:.4} $ while they held, {:.4} $/h on average.",
        comparison.missed_savings, comparison.missed_savings_per_hour
    );
    text
}

fn scale_ups(comparison: &Comparison) -> String {
    let calm = &comparison.scale_ups;
    if calm.count == 0 && comparison.disturbed_scale_ups.count == 0 {
        return "no pod waited\n".to_owned();
    }
    let header = [
        "SCALE-UPS",
        "PODS",
        "WHO",
        "MACHINES",
        "$/H",
        "WITHOUT PRICE",
        "PODS LEFT OVER",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(rows_of(calm, ""));
    rows.extend(rows_of(&comparison.disturbed_scale_ups, ", machines went"));
    let mut text = columns(&rows);
    if calm.count > 0 {
        let difference = calm.kerf.price_per_hour - calm.other.price_per_hour;
        let share = match calm.other.price_per_hour > 0.0 {
            true => format!(" ({:+.1} %)", 100.0 * difference / calm.other.price_per_hour),
            false => String::new(),
        };
        let _ = writeln!(text, "Kerf's machines would have cost {difference:+.4} $/h{share}.");
    }
    text
}

fn rows_of(sums: &ScaleUps, note: &str) -> Vec<Vec<String>> {
    if sums.count == 0 {
        return Vec::new();
    }
    let row = |who: &str, launched: &Launched| {
        vec![
            format!("{}{note}", sums.count),
            sums.pods.to_string(),
            who.to_owned(),
            launched.machines.to_string(),
            format!("{:.4}", launched.price_per_hour),
            launched.without_price.to_string(),
            launched.left_over.to_string(),
        ]
    };
    vec![row("Kerf", &sums.kerf), row("other", &sums.other)]
}

fn disruption(comparison: &Comparison) -> String {
    if comparison.disruption.is_empty() {
        return "no node went, and Kerf found none that should\n".to_owned();
    }
    let header = [
        "REASON",
        "COMMANDS OF KERF",
        "CARRIED OUT",
        "REST WOULD SAVE $/H",
        "NODES THE OTHER ENDED",
        "OF THEM NOT KERF'S",
        "THEIR $/H",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(comparison.disruption.iter().map(|(reason, sums)| {
        vec![
            reason.clone(),
            sums.commands.to_string(),
            sums.carried_out.to_string(),
            format!("{:.4}", sums.not_carried_out_savings),
            sums.other_nodes.to_string(),
            sums.other_only_nodes.to_string(),
            format!("{:.4}", sums.other_only_price),
        ]
    }));
    columns(&rows)
}
