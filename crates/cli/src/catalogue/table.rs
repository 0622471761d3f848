//! The instance types as a table.

use super::report::{OfferingReport, TypeReport};
use crate::columns::columns;
use std::collections::BTreeSet;

/// One line for each type, with its lowest available prices.
pub(super) fn render(reports: &[TypeReport]) -> String {
    let header = [
        "TYPE",
        "ARCH",
        "CPU",
        "MEMORY",
        "PODS",
        "ON-DEMAND $/H",
        "SPOT $/H",
        "ZONES",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(reports.iter().map(row));
    columns(&rows)
}

fn row(report: &TypeReport) -> Vec<String> {
    let available = || report.offerings.iter().filter(|one| one.available);
    let lowest = |capacity_type: &str| {
        let prices = available().filter(|one| one.capacity_type == capacity_type);
        let lowest = prices.map(|one| one.price_per_hour).reduce(f64::min);
        lowest.map_or_else(|| "-".to_owned(), |price| format!("{price:.4}"))
    };
    let amount = |name: &str| report.allocatable.get(name).cloned().unwrap_or_default();
    let zones: BTreeSet<&str> = available().map(|one: &OfferingReport| one.zone.as_str()).collect();
    let zones: Vec<&str> = zones.into_iter().collect();
    vec![
        report.name.clone(),
        report.labels.get("kubernetes.io/arch").cloned().unwrap_or_default(),
        amount("cpu"),
        amount("memory"),
        amount("pods"),
        lowest("on-demand"),
        lowest("spot"),
        zones.join(","),
    ]
}
