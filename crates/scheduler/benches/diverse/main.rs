//! The reference benchmark (contract section 29): `cargo bench -p kerf-scheduler --bench diverse`.
//!
//! Before criterion's figures it prints one line per row. Each row is measured in its own process: the first, cold solve, and the mean of
//! repeated solves. `KERF_BENCH_ONCE=1` stops after that table. `KERF_BENCH_ROWS=text` prints only rows whose name contains the text.
//! `KERF_BENCH_WINS=1` prints how often each strategy wins instead.
//!
//! Columns: pods; wall time of the first solve, and its pods per second and nanoseconds per pod; the ratio to the pods per second of
//! upstream (its figure for one fresh solve on two shared processors); wall and processor time of a repeated solve; allocations per pod;
//! memory of the process before the first solve and at its peak; launches, cost per hour and pods left over of the plan.
//!
//! For rows that start each solve from the snapshot, the last columns are the figures of the reference benchmark (SCH-446), whose clock
//! covers only the solve: mean time to compile the cluster, which is not part of it; mean time of a solve by a fresh solver; pods per
//! second; and of the first solve the placed pods, the nodes, and the pods per node (least, mean, most, standard deviation).

#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads clocks and its environment, and prints"
)]

mod allocations;
mod clusters;
mod measure;
mod rows;
mod wins;

use criterion::{BatchSize, Criterion, Throughput};
use kerf_model::pod::Pod;
use kerf_scheduler::{Options, Request, solve};
use kerf_testkit::workload;
use kerf_units::policy::Packing;
use std::hint::black_box;
use std::sync::Arc;

const ROW: &str = "KERF_BENCH_ROW";

fn main() {
    if let Ok(row) = std::env::var(ROW) {
        rows::run(&row);
        return;
    }
    if std::env::var_os("KERF_BENCH_WINS").is_some() {
        wins::print();
        return;
    }
    let wanted = std::env::var("KERF_BENCH_ROWS").unwrap_or_default();
    measure::header();
    for row in rows::names().filter(|row| row.contains(&wanted)) {
        let this = std::env::current_exe().expect("this program's path");
        let status = std::process::Command::new(this).env(ROW, &row).status();
        assert!(status.is_ok_and(|status| status.success()), "row {row} failed");
    }
    if std::env::var_os("KERF_BENCH_ONCE").is_some() {
        return;
    }
    let snapshot = workload::cluster(400);
    let upstream = Options {
        packing: Packing::Upstream,
        ..Options::default()
    };
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut group = criterion.benchmark_group("diverse");
    for count in [100, 1000, 20_000] {
        let pods = workload::diverse(count);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("{count} x 400"), |bencher| {
            let run = |pods: &Vec<Arc<Pod>>| black_box(solve(&Request::new(&snapshot, pods), &upstream, &|| false));
            bencher.iter_batched_ref(|| pods.clone(), |pods| run(pods), BatchSize::LargeInput);
        });
    }
    group.finish();
    criterion.final_summary();
}
