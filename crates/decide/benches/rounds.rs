//! What a cluster costs over hours in which pods come and go: `cargo bench -p kerf-decide --bench rounds`.
//!
//! A round each minute disrupts and provisions; kube-scheduler puts each pod where most room is. Small clusters of about twelve nodes in one
//! NodePool with the budget `10%`; every row lives through the same pods. `KERF_ROUNDS_SEEDS` is the number of clusters (60 without it).
//! Columns: price of the nodes over all minutes, and relative to the first row; what the cheapest nodes that `kerf simulate --rebalance` finds
//! would cost, relative to the price; nodes on average; machines launched; pods evicted. `KERF_BENCH_WRITE=FOLDER` writes the table into
//! `packing.md` of that folder.

#![expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a bench prints")]

use kerf_decide::Settings;
use kerf_testkit::document::replace_part;
use kerf_testkit::life::Life;
use kerf_units::policy::{CommandsPerPass, Packing, Replacements};
use std::path::Path;

const MINUTES: usize = 150;
/// Rebalancing takes longer than a round.
const REBALANCED_EVERY: usize = 10;

/// What became of all clusters with the same settings.
#[derive(Default)]
struct Total {
    price: f64,
    /// The price at the moments at which the cluster was rebalanced, and of the nodes that were found.
    sampled: f64,
    rebalanced: f64,
    nodes: usize,
    launched: usize,
    evicted: usize,
}

fn live(settings: &Settings, seeds: u64) -> Total {
    let mut total = Total::default();
    for seed in 0..seeds {
        let mut life = Life::new(seed, settings.clone(), "10%");
        for minute in 1..=MINUTES {
            life.churn();
            total.evicted += life.round(true);
            let price = life.cost().per_hour();
            total.price += price / 60.0;
            total.nodes += life.machines.len();
            if minute % REBALANCED_EVERY == 0 {
                total.sampled += price;
                total.rebalanced += life.rebalanced().per_hour();
            }
        }
        total.launched += life.launched;
    }
    total
}

fn main() {
    let seeds = std::env::var("KERF_ROUNDS_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let seeds = seeds.unwrap_or(60).max(1);
    let set = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        settings
    };
    let rows = [
        (
            "`--packing=upstream`",
            set(&|one| one.solver.packing = Packing::Upstream),
        ),
        ("defaults", set(&|_| {})),
        (
            "`--packing=cheapest`",
            set(&|one| one.solver.packing = Packing::Cheapest),
        ),
        (
            "`--disruption-commands-per-pass=Independent`",
            set(&|one| one.commands_per_pass = CommandsPerPass::Independent),
        ),
        (
            "`--consolidation-replacements=Several`",
            set(&|one| one.replacements = Replacements::Several),
        ),
        (
            "`--consolidation-savings-per-pod=0.002`",
            set(&|one| one.savings_per_pod = "0.002".parse().expect("an amount")),
        ),
    ];
    let mut text = "\n| options | $ | relative | cheapest nodes / price | nodes on average | launched | evictions |\n\
                    |---|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let mut first = None;
    for (name, settings) in rows {
        let total = live(&settings, seeds);
        let relative = total.price / *first.get_or_insert(total.price);
        text += &format!(
            "| {name} | {:.1} | {relative:.3} | {:.1} % | {:.1} | {} | {} |\n",
            total.price,
            100.0 * total.rebalanced / total.sampled,
            total.nodes as f64 / (seeds as f64 * MINUTES as f64),
            total.launched,
            total.evicted,
        );
    }
    text += "\n";
    print!("{text}");
    if let Some(folder) = std::env::var_os("KERF_BENCH_WRITE") {
        replace_part(&Path::new(&folder).join("packing.md"), "rounds", &text);
    }
}
