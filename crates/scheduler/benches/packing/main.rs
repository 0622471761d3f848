//! What the ways to pack cost, and how many nodes they take, against the greedy of upstream: `cargo bench -p kerf-scheduler --bench
//! packing` prints the tables of docs/packing.md.
//!
//! `KERF_BENCH_EACH=N` sets the number of workloads of each kind (30), `KERF_BENCH_KIND=text` selects kinds, `KERF_BENCH_LIST=1` prints
//! one line per workload too. `KERF_BENCH_COSTS=0,0.02` sets the node overhead costs of the curve, in dollars per hour.
//!
//! `KERF_BENCH_BOUNDS=0` leaves out the bounds, which take nearly all of the time.
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
use kerf_scheduler::{Options, Request, balanced_nodes_max, cost_bound, cost_bound_of_nodes, solve};
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
    /// All nodes, and those of the greedy.
    all_nodes: (usize, usize),
    dearer: usize,
    /// By how much prices exceed the bound, as a share of it.
    gap: f64,
    gap_max: f64,
    /// The same for the bound of plans with as few nodes as balanced packing may have.
    gap_of_few: f64,
    took: Duration,
}

impl Sums {
    fn add(&mut self, greedy: Figures, this: Figures, gaps: Gaps, took: Duration) {
        let gap = gaps.of_any;
        let price = this.price.per_hour() / greedy.price.per_hour();
        self.workloads += 1;
        self.price += price;
        self.price_max = self.price_max.max(price);
        self.nodes += this.nodes as f64 / greedy.nodes as f64;
        self.all_nodes.0 += this.nodes;
        self.all_nodes.1 += greedy.nodes;
        self.dearer += usize::from(this.pods == greedy.pods && this.price > greedy.price);
        self.gap += gap;
        self.gap_max = self.gap_max.max(gap);
        self.gap_of_few += gaps.of_few;
        self.took += took;
    }

    /// The columns that do not depend on the machine.
    fn row(&self, name: &str) -> String {
        let each = self.workloads.max(1) as f64;
        format!(
            "| {name} | {} | {:.3} | {:.3} | {:.2} | {:.2} | {} | {:.1} % | {:.1} % | {} |",
            self.workloads,
            self.price / each,
            self.price_max,
            self.all_nodes.0 as f64 / self.all_nodes.1.max(1) as f64,
            self.nodes / each,
            self.dearer,
            100.0 * self.gap / each,
            100.0 * self.gap_max,
            match self.gap_of_few / each {
                gap if gap.is_nan() => "-".to_owned(),
                gap => format!("{:.1} %", 100.0 * gap),
            },
        )
    }

    fn print(&self, name: &str) {
        let each = self.workloads.max(1) as f64;
        println!("{} {:.1} |", self.row(name), self.took.as_secs_f64() * 1000.0 / each);
    }
}

/// The columns of [`Sums::row`].
const COLUMNS: &str = "workloads | price | highest price | all nodes | nodes | dearer plans | mean gap | worst gap | mean gap with few nodes |";

/// By how much a price exceeds bounds, as a share of these.
#[derive(Clone, Copy)]
struct Gaps {
    of_any: f64,
    /// Not a number where it was not computed.
    of_few: f64,
}

/// Bounds for the pods that the greedy places.
struct Bounds {
    pods: usize,
    any: Price,
    few: Price,
}

impl Bounds {
    /// The bounds that belong to a plan: plans that place as many pods as the greedy place the same ones.
    fn of(request: &Request<'_>, options: &Options, plan: &Plan, nodes: usize) -> Self {
        if std::env::var("KERF_BENCH_BOUNDS").is_ok_and(|text| text == "0") {
            let (any, few) = (Price::ZERO, Price::ZERO);
            let pods = Figures::of(plan).pods;
            return Self { pods, any, few };
        }
        Self {
            pods: Figures::of(plan).pods,
            any: cost_bound(request, options, plan),
            few: cost_bound_of_nodes(request, options, plan, nodes),
        }
    }

    fn gaps(&self, figures: Figures, packing: Packing) -> Gaps {
        let gap = |bound: Price| match bound {
            Price::ZERO => f64::NAN,
            bound => figures.price.per_hour() / bound.per_hour() - 1.0,
        };
        Gaps {
            of_any: gap(self.any),
            of_few: if packing == Packing::Cheapest {
                f64::NAN
            } else {
                gap(self.few)
            },
        }
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
        let request = Request::pending(&fixture.snapshot);
        let mut greedy: Option<(Figures, Bounds)> = None;
        for (way, (name, options)) in ways.iter().enumerate() {
            let start = Instant::now();
            let plan = solve(&request, options, &|| false);
            let took = start.elapsed();
            let figures = Figures::of(&plan);
            let of = |plan: &Plan, nodes: usize| Bounds::of(&request, options, plan, balanced_nodes_max(nodes));
            let (greedy, bounds) = greedy.get_or_insert_with(|| (figures, of(&plan, figures.nodes)));
            let gaps = if figures.pods == bounds.pods {
                bounds.gaps(figures, options.packing)
            } else {
                of(&plan, greedy.nodes).gaps(figures, options.packing)
            };
            let greedy = *greedy;
            totals[way].add(greedy, figures, gaps, took);
            by_kind
                .entry((way, workload.kind))
                .or_default()
                .add(greedy, figures, gaps, took);
            records.push(Record {
                workload: number,
                way,
                gap: gaps.of_any,
            });
            if list {
                println!(
                    "{number:>4} {:<14} {name:<28} {:>9.4} $/h {:>5} nodes {:>6} pods, gap {:>5.1} %, with few nodes {:>5.1} %, {:>6.1} ms",
                    workload.kind,
                    figures.price.per_hour(),
                    figures.nodes,
                    figures.pods,
                    100.0 * gaps.of_any,
                    100.0 * gaps.of_few,
                    took.as_secs_f64() * 1000.0
                );
            }
        }
    }
    println!("| packing | {COLUMNS} ms |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for ((name, _), sums) in ways.iter().zip(&totals) {
        sums.print(name);
    }
    println!("\n| kind, packing | {COLUMNS} ms |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for ((way, kind), sums) in &by_kind {
        sums.print(&format!("{kind}, {}", ways[*way].0));
    }
    if let Some(folder) = std::env::var_os("KERF_BENCH_WRITE") {
        let names: Vec<&str> = ways.iter().map(|(name, _)| &**name).collect();
        document::write(folder.as_ref(), &names, &totals, &by_kind, &records);
    }
}
