//! What the demo prints at the end.

use super::bill::Bill;
use super::machine_change::{ledger, saved};
use super::observer::{Observer, Sample};
use crate::columns::columns;
use crate::exit::Exit;
use jiff::Timestamp;
use std::io::{self, Write};
use std::time::Duration;

const BAR: usize = 40;

/// Prints load and price over time, all decisions by reason, and whether everything ran, and returns the exit status. A row shows the moment of its
/// time.
pub(super) fn print(
    rows: &[(Timestamp, Sample)],
    observer: &Observer,
    late: &[String],
    bill: &Bill,
    wall: Duration,
) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    let dearest = rows
        .iter()
        .map(|(_, sample)| sample.price.per_hour())
        .fold(0.0, f64::max);
    let mut table = vec![["TIME", "PODS", "NODES", "$/H", ""].map(str::to_owned).to_vec()];
    for (at, sample) in rows {
        let share = if dearest > 0.0 {
            sample.price.per_hour() / dearest
        } else {
            0.0
        };
        table.push(vec![
            at.strftime("%H:%M:%S").to_string(),
            sample.running.to_string(),
            sample.nodes.to_string(),
            sample.price.to_string(),
            "#".repeat((share * BAR as f64).round() as usize),
        ]);
    }
    writeln!(out, "\n{}", columns(&table))?;
    let entries = ledger(&observer.decisions);
    let mut table = vec![
        ["WHY", "LAUNCHED", "REMOVED", "CHANGE IN $/H"]
            .map(str::to_owned)
            .to_vec(),
    ];
    table.extend(entries.iter().map(|entry| {
        vec![
            entry.cause.clone(),
            entry.launched.to_string(),
            entry.removed.to_string(),
            format!("{:+.4}", entry.change),
        ]
    }));
    writeln!(out, "{}", columns(&table))?;
    writeln!(
        out,
        "{:.1} hours of cluster time in {:.1} s; the machines cost {:.2} $",
        bill.hours(),
        wall.as_secs_f64(),
        bill.dollars()
    )?;
    let saved = saved(&entries);
    writeln!(out, "consolidation (Empty, Underutilized) saved {saved:.4} $/h in all")?;
    let well = "every pod that should run ran; no machine leaked; no protected pod was disrupted";
    Ok(conclude(&mut out, observer, late, well)?)
}

/// Prints what did not run in time and the invariants that broke; if there is nothing of either, that all went `well`. Returns the exit status.
pub(super) fn conclude(out: &mut impl Write, observer: &Observer, late: &[String], well: &str) -> io::Result<Exit> {
    for line in late {
        writeln!(out, "NOT RUNNING {line}")?;
    }
    for line in &observer.broken {
        writeln!(out, "BROKEN {line}")?;
    }
    if !observer.broken.is_empty() {
        return Ok(Exit::Broken);
    }
    if !late.is_empty() {
        return Ok(Exit::No);
    }
    writeln!(out, "{well}")?;
    Ok(Exit::Done)
}
