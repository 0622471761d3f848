//! The tests: which seeds are run.

use super::scenario::Scenario;
use super::world::run;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Worlds of an ordinary run; `KERF_AWS_CHAOS_SEEDS` says otherwise.
const SEEDS: u64 = 24;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Lives through worlds on all cores; gives back what was wrong in which.
fn explore(seeds: impl IntoIterator<Item = u64>) -> BTreeMap<u64, Vec<String>> {
    let seeds: Vec<u64> = seeds.into_iter().collect();
    let next = AtomicU64::new(0);
    let wrong = Mutex::new(BTreeMap::new());
    let began = Instant::now();
    let totals = [const { AtomicU64::new(0) }; 4];
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
                    let Some(seed) = seeds.get(index) else { return };
                    let report = run(&Scenario::of(*seed), false);
                    let most = report.instances_max as u64;
                    let more = [
                        report.calls as u64,
                        report.launches as u64,
                        most,
                        report.lived.as_secs(),
                    ];
                    for (total, more) in totals.iter().zip(more) {
                        total.fetch_add(more, Ordering::Relaxed);
                    }
                    if !report.violations.is_empty() {
                        println!("seed {seed}: {:?}", report.violations);
                        wrong.lock().unwrap().insert(*seed, report.violations);
                    }
                }
            });
        }
    });
    let worlds = seeds.len().max(1);
    let each = |total: &AtomicU64| total.load(Ordering::Relaxed) as f64 / worlds as f64;
    println!(
        "{worlds} worlds, {:.3} s each on {workers} threads; {:.0} calls, {:.1} launches, at most {:.1} instances, {:.0} min of their time each",
        began.elapsed().as_secs_f64() * workers as f64 / worlds as f64,
        each(&totals[0]),
        each(&totals[1]),
        each(&totals[2]),
        each(&totals[3]) / 60.0,
    );
    wrong.into_inner().unwrap()
}

fn complain(wrong: &BTreeMap<u64, Vec<String>>) {
    let lines: Vec<String> = wrong
        .iter()
        .map(|(seed, violations)| {
            let shown: Vec<&str> = violations.iter().take(4).map(String::as_str).collect();
            format!(
                "seed {seed}:\n  {}\n  again with its log: KERF_AWS_CHAOS_SEED={seed} cargo test -p kerf-aws-sandbox --features sdk --test all one_aws_world -- --nocapture",
                shown.join("\n  ")
            )
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} worlds went wrong\n{}",
        wrong.len(),
        lines.join("\n")
    );
}

#[test]
fn seeds_keep_every_promise() {
    let first = number("KERF_AWS_CHAOS_FIRST").unwrap_or(0);
    let count = number("KERF_AWS_CHAOS_SEEDS").unwrap_or(SEEDS);
    complain(&explore(first..first + count));
}

/// The world of `KERF_AWS_CHAOS_SEED` with everything that happens in it; without the variable, a quick look at one.
#[test]
fn one_aws_world() {
    let seed = number("KERF_AWS_CHAOS_SEED");
    let report = run(&Scenario::of(seed.unwrap_or(1)), seed.is_some());
    for line in &report.log {
        println!("{line}");
    }
    println!(
        "{} calls, {} launches, {:?}",
        report.calls, report.launches, report.lived
    );
    assert_eq!(report.violations, [""; 0]);
}

#[test]
fn the_same_seed_lives_the_same_life() {
    for seed in [3, 4] {
        let scenario = Scenario::of(seed);
        let (first, second) = (run(&scenario, true), run(&scenario, true));
        let differs = first.log.iter().zip(&second.log).find(|(a, b)| a != b);
        assert_eq!(differs, None);
        assert_eq!(first.log.len(), second.log.len());
    }
}
