//! How often each strategy wins: `KERF_BENCH_WINS=1 cargo bench -p kerf-scheduler --bench diverse` prints the figures of
//! `src/strategy/README.md`.

use crate::clusters;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Request, Strategy, winner};
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::Fixture;
use kerf_testkit::{generate, workload};
use kerf_units::policy::{Packing, PreferencePolicy};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Random clusters of each kind.
const SEEDS: u64 = 500;

/// A generator of random clusters in the fixture language.
type Generator = fn(&mut Draw) -> String;

/// The inputs each strategy wins, those it starts, and the number of inputs where limit retry placed more pods.
#[derive(Default)]
struct Wins {
    won: BTreeMap<Strategy, Vec<String>>,
    started: BTreeMap<Strategy, usize>,
    limit_retries: usize,
}

impl Wins {
    /// Solves one input and counts the winner.
    fn count(&mut self, input: String, snapshot: &Snapshot, pods: &[Arc<Pod>], options: &Options) {
        let winner = winner(&Request::new(snapshot, pods), options);
        self.won.entry(winner.strategy).or_default().push(input);
        *self.started.entry(winner.started_by).or_default() += 1;
        self.limit_retries += usize::from(winner.limit_retried);
    }

    /// Prints one line per strategy: the inputs it wins, those it wins or starts, and the first ones it wins.
    fn print(&self, set: &str) {
        let inputs: usize = self.won.values().map(Vec::len).sum();
        println!("{set}: {inputs} inputs, {} with limit retry", self.limit_retries);
        for strategy in Strategy::ALL {
            let won = self.won.get(&strategy).map_or(&[][..], Vec::as_slice);
            let started = self.started.get(&strategy).copied().unwrap_or_default();
            let shown = won.len().min(6);
            println!(
                "  {:<16} {:>5} {started:>5}  {}",
                strategy.name(),
                won.len(),
                won[..shown].join("; ")
            );
        }
    }
}

/// Prints the wins on the benchmark rows and on random clusters.
pub(crate) fn print() {
    for packing in [Packing::Balanced, Packing::Cheapest] {
        println!("packing {packing}");
        let options = Options {
            packing,
            ..Options::default()
        };
        rows(&options);
        random_clusters(&options);
    }
}

fn rows(options: &Options) {
    let mut rows = Wins::default();
    let cluster = workload::cluster(400);
    let unlimited = clusters::without_limits(workload::cluster(400));
    for count in [250, 1000, 5000, 20_000] {
        rows.count(format!("resources {count}"), &cluster, &workload::plain(count), options);
    }
    for count in [1, 50, 500, 1000, 2000, 5000, 10_000, 20_000] {
        rows.count(format!("diverse {count}"), &cluster, &workload::diverse(count), options);
    }
    for count in [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000] {
        rows.count(
            format!("doubling {count}"),
            &unlimited,
            &workload::diverse(count),
            options,
        );
    }
    for preference_policy in [PreferencePolicy::Respect, PreferencePolicy::Ignore] {
        let options = Options {
            preference_policy,
            ..options.clone()
        };
        let pods = workload::preferences(4000, &cluster.interner);
        rows.count(format!("preferences {preference_policy:?}"), &cluster, &pods, &options);
    }
    let large = workload::cluster(800);
    let pods = workload::diverse(100_000);
    rows.count("diverse 100000, limits".to_owned(), &large, &pods, options);
    let large = clusters::without_limits(large);
    rows.count("diverse 100000, no limits".to_owned(), &large, &pods, options);
    for (count, nodes) in [(1, 2000), (20_000, 2000)] {
        let (busy, pods) = (clusters::busy(nodes, 30), clusters::newcomers(count));
        rows.count(format!("{count} new on {nodes} nodes"), &busy, &pods, options);
    }
    rows.print("benchmark rows");
}

fn random_clusters(options: &Options) {
    let generators: [(&str, Generator); 5] = [
        ("common", generate::common),
        ("wide", generate::wide),
        ("small", generate::small),
        ("plain", generate::plain),
        ("zonal", generate::zonal),
    ];
    for (kind, generator) in generators {
        let mut random = Wins::default();
        for seed in 0..SEEDS {
            let fixture = Fixture::read(&generator(&mut Draw::new(seed)));
            let snapshot = &fixture.snapshot;
            random.count(format!("seed {seed}"), snapshot, &snapshot.pending, options);
        }
        random.print(&format!("random clusters, {kind}"));
    }
}
