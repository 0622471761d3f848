//! Writes what was measured into `docs/packing.md`, and its plots.

use crate::{COLUMNS, Record, Sums};
use kerf_testkit::document::{replace_part, write_plots};
use kerf_testkit::plots::{Plot, Series};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Below the columns of a table.
const RULE: &str = "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|";
/// The way to pack that is the default.
const DEFAULT: &str = "balanced, 0.02 $/h per node";

/// Writes the tables and plots into a folder of documents.
pub(crate) fn write(
    folder: &Path,
    ways: &[&str],
    totals: &[Sums],
    by_kind: &BTreeMap<(usize, &str), Sums>,
    records: &[Record],
) {
    replace_part(&folder.join("packing.md"), "packing", &tables(ways, totals, by_kind));
    let plots = [
        ("gap.svg", gaps(ways, records)),
        ("cost-and-nodes.svg", curve(ways, totals)),
    ];
    write_plots(&folder.join("packing"), plots);
}

fn tables(ways: &[&str], totals: &[Sums], by_kind: &BTreeMap<(usize, &str), Sums>) -> String {
    let mut text = format!("\n| packing | {COLUMNS}\n{RULE}\n");
    for (name, sums) in ways.iter().zip(totals) {
        let _ = writeln!(text, "{}", sums.row(name));
    }
    let _ = write!(text, "\nBy kind, with the default:\n\n| kind | {COLUMNS}\n{RULE}\n");
    let default = ways.iter().position(|name| *name == DEFAULT);
    let of_default = by_kind.iter().filter(|((way, _), _)| Some(*way) == default);
    for ((_, kind), sums) in of_default {
        let _ = writeln!(text, "{}", sums.row(kind));
    }
    text + "\n"
}

/// The gap of every workload, in the order of the gap of the default.
fn gaps(ways: &[&str], records: &[Record]) -> String {
    let shown = ["upstream", DEFAULT, "cheapest"];
    let of_way = |name: &str| -> BTreeMap<usize, f64> {
        let way = ways.iter().position(|known| *known == name);
        let own = records.iter().filter(|record| Some(record.way) == way);
        own.map(|record| (record.workload, record.gap)).collect()
    };
    let mut order: Vec<(usize, f64)> = of_way(DEFAULT).into_iter().collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    let series = shown.iter().map(|name| {
        let gaps = of_way(name);
        let points = order.iter().zip(0..).filter_map(|((workload, _), at)| {
            let gap = gaps.get(workload)?;
            Some((f64::from(at), 100.0 * gap))
        });
        Series {
            name: name.split(',').next().unwrap_or(name).to_owned(),
            points: points.collect(),
            labels: Vec::new(),
        }
    });
    let plot = Plot {
        title: "Gap to the bound",
        x: "workloads, by the gap of balanced packing",
        y: "gap, %",
        series: series.collect(),
    };
    plot.svg(true)
}

/// Price against number of nodes, for each way to pack.
fn curve(ways: &[&str], totals: &[Sums]) -> String {
    let of_way = ways.iter().zip(totals).map(|(name, sums)| {
        let each = sums.workloads.max(1) as f64;
        let label = name.trim_start_matches("balanced, ").trim_end_matches(" per node");
        (label.to_owned(), (sums.nodes / each, sums.price / each))
    });
    let (labels, points): (Vec<String>, Vec<(f64, f64)>) = of_way.unzip();
    let plot = Plot {
        title: "Price against number of nodes, both relative to the greedy",
        x: "nodes",
        y: "price",
        series: vec![Series {
            name: "mean of all workloads".to_owned(),
            points,
            labels,
        }],
    };
    plot.svg(false)
}
