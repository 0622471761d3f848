//! What the ways to pack cost, and how many nodes they take, against the greedy of upstream: `cargo bench -p kerf-scheduler --bench
//! packing` prints the tables of docs/packing.md.
//!
//! `KERF_BENCH_EACH=N` sets the number of workloads of each kind (30), `KERF_BENCH_KIND=text` selects kinds, `KERF_BENCH_LIST=1` prints
//! one line per workload too. `KERF_BENCH_COSTS=0,0.02` sets the node overhead costs of the curve, in dollars per hour.
//!
//! `KERF_BENCH_WRITE=FOLDER` also writes the tables into `packing.md` of that folder and the plots into its folder `packing`.
//!
//! `KERF_BENCH_BINDING=N` prints what becomes of plans when kube-scheduler binds their pods instead, on N small clusters.
//!
//! Ratios are means over workloads, of the price and of the number of nodes. A workload counts as dearer where its plan costs more than
//! the greedy's and places as many pods.

#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads clocks and its environment, and prints"
)]

mod binding;
mod document;
mod workloads;

use kerf_model::plan::{Launch, Plan};
use kerf_model::price::Price;
use kerf_scheduler::{Options, Request, cost_bound, solve};
use kerf_testkit::fixture::Fixture;
use kerf_units::policy::{NodeOverheadCost, Packing};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is read of a plan.
#[derive(Clone, Copy)]
struct Figures {
    pods: usize,
    nodes: usize,
    price: Price,
}

impl Figures {
    fn of(plan: &Plan) -> Self {
        Self {
            pods: plan.launches.iter().map(|launch| launch.pods.len()).sum(),
            nodes: plan.launches.len(),
            price: plan.launches.iter().filter_map(Launch::price).sum(),
        }
    }
}

/// Sums over workloads.
#[derive(Clone, Copy, Default)]
struct Sums {
    workloads: usize,
    price: f64,
    price_max: f64,
    nodes: f64,
    dearer: usize,
    /// By how much prices exceed the bound, as a share of it.
    gap: f64,
    gap_max: f64,
    took: Duration,
}

impl Sums {
    fn add(&mut self, greedy: Figures, this: Figures, gap: f64, took: Duration) {
        let price = this.price.per_hour() / greedy.price.per_hour();
        self.workloads += 1;
        self.price += price;
        self.price_max = self.price_max.max(price);
        self.nodes += this.nodes as f64 / greedy.nodes as f64;
        self.dearer += usize::from(this.pods == greedy.pods && this.price > greedy.price);
        self.gap += gap;
        self.gap_max = self.gap_max.max(gap);
        self.took += took;
    }

    /// The columns that do not depend on the machine.
    fn row(&self, name: &str) -> String {
        let each = self.workloads.max(1) as f64;
        format!(
            "| {name} | {} | {:.3} | {:.3} | {:.2} | {} | {:.1} % | {:.1} % |",
            self.workloads,
            self.price / each,
            self.price_max,
            self.nodes / each,
            self.dearer,
            100.0 * self.gap / each,
            100.0 * self.gap_max,
        )
    }

    fn print(&self, name: &str) {
        let each = self.workloads.max(1) as f64;
        println!("{} {:.1} |", self.row(name), self.took.as_secs_f64() * 1000.0 / each);
    }
}

/// What one workload costs, packed in one way.
struct Record {
    /// The number of the workload.
    workload: usize,
    way: usize,
    gap: f64,
}

/// The ways to pack that are compared, with their names. Plans are chosen by what they cost as planned, which is what is compared.
fn ways() -> Vec<(String, Options)> {
    let costs = std::env::var("KERF_BENCH_COSTS").unwrap_or_else(|_| "0,0.005,0.01,0.02,0.05,0.1,0.2".to_owned());
    let mut ways: Vec<(String, Options)> = [("upstream", Packing::Upstream), ("cheapest", Packing::Cheapest)]
        .into_iter()
        .map(|(name, packing)| {
            let options = Options {
                packing,
                forecast_binding: false,
                ..Options::default()
            };
            (name.to_owned(), options)
        })
        .collect();
    for text in costs.split(',') {
        let node_overhead: NodeOverheadCost = text.parse().expect("KERF_BENCH_COSTS lists amounts");
        let options = Options {
            packing: Packing::Balanced,
            node_overhead,
            forecast_binding: false,
            ..Options::default()
        };
        ways.push((format!("balanced, {text} $/h per node"), options));
    }
    ways
}

fn main() {
    if let Ok(worlds) = std::env::var("KERF_BENCH_BINDING") {
        binding::print(worlds.parse().expect("KERF_BENCH_BINDING is a number"));
        return;
    }
    let each = std::env::var("KERF_BENCH_EACH").map_or(30, |text| text.parse().expect("KERF_BENCH_EACH is a number"));
    let wanted = std::env::var("KERF_BENCH_KIND").unwrap_or_default();
    let list = std::env::var_os("KERF_BENCH_LIST").is_some();
    let ways = ways();
    let mut totals = vec![Sums::default(); ways.len()];
    let mut by_kind: BTreeMap<(usize, &str), Sums> = BTreeMap::new();
    let mut records: Vec<Record> = Vec::new();
    let workloads = workloads::all(each);
    for (number, workload) in workloads
        .iter()
        .enumerate()
        .filter(|(_, workload)| workload.kind.contains(&wanted))
    {
        let fixture = Fixture::read(&workload.text);
        let mut greedy = None;
        for (way, (name, options)) in ways.iter().enumerate() {
            let start = Instant::now();
            let plan = solve(&Request::pending(&fixture.snapshot), options, &|| false);
            let took = start.elapsed();
            let figures = Figures::of(&plan);
            let greedy = *greedy.get_or_insert(figures);
            let bound = cost_bound(&Request::pending(&fixture.snapshot), options, &plan);
            let gap = figures.price.per_hour() / bound.per_hour() - 1.0;
            totals[way].add(greedy, figures, gap, took);
            by_kind
                .entry((way, workload.kind))
                .or_default()
                .add(greedy, figures, gap, took);
            records.push(Record {
                workload: number,
                way,
                gap,
            });
            if list {
                println!(
                    "{number:>4} {:<14} {name:<28} {:>9.4} $/h {:>5} nodes {:>6} pods {:>8.1} ms",
                    workload.kind,
                    figures.price.per_hour(),
                    figures.nodes,
                    figures.pods,
                    took.as_secs_f64() * 1000.0
                );
            }
        }
    }
    println!(
        "| packing | workloads | price | highest | nodes | dearer | gap | worst | ms |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    for ((name, _), sums) in ways.iter().zip(&totals) {
        sums.print(name);
    }
    println!(
        "\n| kind, packing | workloads | price | highest | nodes | dearer | gap | worst | ms |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    for ((way, kind), sums) in &by_kind {
        sums.print(&format!("{kind}, {}", ways[*way].0));
    }
    if let Some(folder) = std::env::var_os("KERF_BENCH_WRITE") {
        let names: Vec<&str> = ways.iter().map(|(name, _)| &**name).collect();
        document::write(folder.as_ref(), &names, &totals, &by_kind, &records);
    }
}
