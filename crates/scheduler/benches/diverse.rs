//! The reference benchmark (contract section 29): `cargo bench -p kerf-scheduler --bench diverse`. Before criterion's figures it prints, for
//! one cold solve of each row, pods per second, nodes and dollars per hour. `KERF_BENCH_ONCE=1` stops after that table.

#[path = "../tests/support/workload.rs"]
mod workload;

use criterion::{BatchSize, Criterion, Throughput};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Packing, PreferencePolicy, Request, solve};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

fn once(name: &str, snapshot: &Snapshot, pods: &[Arc<Pod>], options: &Options) {
    let request = Request::new(snapshot, pods);
    let start = Instant::now();
    let plan: Plan = solve(&request, options, &|| false);
    let seconds = start.elapsed().as_secs_f64();
    let price: f64 = plan
        .launches
        .iter()
        .filter_map(kerf_model::plan::Launch::price)
        .map(kerf_model::price::Price::per_hour)
        .sum();
    println!(
        "{name:<28} {:>7} pods {:>9.2} ms {:>10.0} pods/s {:>8.0} ns/pod {:>6} nodes {price:>10.2} $/h {:>5} left",
        pods.len(),
        seconds * 1e3,
        pods.len() as f64 / seconds,
        seconds * 1e9 / pods.len() as f64,
        plan.launches.len(),
        plan.unschedulable.len() + plan.unattempted.len(),
    );
}

fn main() {
    let snapshot = workload::cluster(400);
    let upstream = Options {
        packing: Packing::Upstream,
        ..Options::default()
    };
    let ignore = Options {
        preference_policy: PreferencePolicy::Ignore,
        ..Options {
            packing: Packing::Upstream,
            ..Options::default()
        }
    };
    for count in [250, 1000, 5000] {
        let pods = workload::plain(count);
        once("resources only, greedy", &snapshot, &pods, &upstream);
        once("resources only, cheapest", &snapshot, &pods, &Options::default());
    }
    for count in [1, 50, 500, 1000, 5000, 10_000, 20_000] {
        let pods = workload::diverse(count);
        once("diverse, greedy", &snapshot, &pods, &upstream);
        once("diverse, cheapest", &snapshot, &pods, &Options::default());
    }
    let many = workload::diverse(100_000);
    once("diverse, 800 types, greedy", &workload::cluster(800), &many, &upstream);
    let preferring = workload::preferences(4000, &snapshot.interner);
    once("preferences, Respect", &snapshot, &preferring, &upstream);
    once("preferences, Ignore", &snapshot, &preferring, &ignore);
    if std::env::var_os("KERF_BENCH_ONCE").is_some() {
        return;
    }
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
