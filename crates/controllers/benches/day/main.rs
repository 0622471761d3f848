//! What a day costs: `cargo bench -p kerf-controllers --bench day`.
//!
//! The controllers run on the embedded cluster for a day of virtual time, with a scheduler that scores as kube-scheduler does, while
//! Deployments scale with the time of day and Jobs come and go. Each set of options lives through the same days. What counts is what the
//! machines cost from their launch to their end, how many pods were evicted, and how long pods waited.
//!
//! `KERF_DAY_HOURS` changes the length, `KERF_DAY_DEPLOYMENTS` the size, `KERF_DAY_SEEDS=1,2` what happens, with a day for each seed.
//! `KERF_DAY_PRICES=kwok,ec2` selects instance types: those of the KWOK provider, whose prices are proportional to size, and some
//! with prices like EC2's. `KERF_DAY_FLAGS` compares other sets of options, separated by `;`; `without-memory` among them makes
//! consolidation forget its moves, so that it neither pauses nor backs off. As many days as the machine has processors are lived through
//! at once.
//!
//! `KERF_BENCH_WRITE=FOLDER` writes the table into `packing.md` of that folder and the plots into its folder `packing`.
//!
//! `KERF_DAY_LOG=1` writes the log of the controllers to the standard error.
//!
//! `KERF_DAY_LIFE=1` lets each set of options live through another hour instead: the cluster is scaled up to 6,000 pods and down to 2,400
//! (`scale_down.rs`), and is printed every 20 seconds.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

mod day;
mod report;
mod scale_down;
mod workload;
mod world;

use day::{Day, Setup, live};
use world::Prices;

/// That of the `kerf` binary.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The sets of options that are compared: their names, and flags of `kerf controller`. The first one is as close to Karpenter as it gets.
const SETTINGS: [(&str, &str); 2] = [
    (
        "as Karpenter",
        "--packing=upstream --destination-taints=false --consolidation-min-savings-percent=0 without-memory",
    ),
    ("defaults", ""),
];

/// The value of an environment variable, or another text.
fn given(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

/// The same as a number.
fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .expect("KERF_DAY_HOURS and KERF_DAY_DEPLOYMENTS are numbers"),
        Err(_) => otherwise,
    }
}

fn settings() -> Vec<(String, String)> {
    match std::env::var("KERF_DAY_FLAGS") {
        Ok(flags) => flags
            .split(';')
            .map(|flags| match flags {
                "" => ("defaults".to_owned(), String::new()),
                flags => (format!("`{flags}`"), flags.to_owned()),
            })
            .collect(),
        Err(_) => SETTINGS.map(|(name, flags)| (name.to_owned(), flags.to_owned())).into(),
    }
}

/// All days, those to be compared one after the other.
fn setups() -> Vec<Setup> {
    let span = Duration::from_secs(3_600 * number("KERF_DAY_HOURS", 24).max(1));
    let deployments = usize::try_from(number("KERF_DAY_DEPLOYMENTS", 40)).unwrap_or(1).max(1);
    let (seeds, prices) = (given("KERF_DAY_SEEDS", "1,2"), given("KERF_DAY_PRICES", "kwok,ec2"));
    let mut setups = Vec::new();
    for prices in prices.split(',') {
        let prices = Prices::named(prices).expect("KERF_DAY_PRICES lists kwok and ec2");
        for seed in seeds.split(',') {
            let seed = seed.parse().expect("KERF_DAY_SEEDS lists numbers");
            setups.extend(settings().into_iter().map(|(name, flags)| Setup {
                name,
                flags,
                seed,
                prices,
                span,
                deployments,
            }));
        }
    }
    setups
}

/// Runs something in virtual time.
fn in_virtual_time<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(run)
}

/// Lives through days, as many at once as there are processors. In their order.
fn live_all(setups: Vec<Setup>) -> Vec<Day> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let left: Mutex<VecDeque<(usize, Setup)>> = Mutex::new(setups.into_iter().enumerate().collect());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        let mut lived = Vec::new();
        while let Some((number, setup)) = next() {
            let (began, name) = (
                Instant::now(),
                format!("{}, seed {}, {}", setup.prices, setup.seed, setup.name),
            );
            lived.push((number, in_virtual_time(live(setup))));
            println!("{name}: {:.0} s", began.elapsed().as_secs_f64());
        }
        lived
    };
    let mut days: Vec<(usize, Day)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let lived = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        lived.flatten().collect()
    });
    days.sort_by_key(|(number, _)| *number);
    days.into_iter().map(|(_, day)| day).collect()
}

fn main() {
    if std::env::var_os("KERF_DAY_LIFE").is_some() {
        for setup in setups() {
            in_virtual_time(scale_down::live(&setup.flags, setup.seed, setup.prices));
        }
        return;
    }
    let days = live_all(setups());
    print!("{}", report::table(&days));
    if let Some(folder) = std::env::var_os("KERF_BENCH_WRITE") {
        report::write(Path::new(&folder), &days);
    }
}
