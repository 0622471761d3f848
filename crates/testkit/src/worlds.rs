//! Living through many seeded worlds on all cores.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What was wrong, by the seed of its world.
pub type Wrong = BTreeMap<u64, Vec<String>>;

/// What became of a world.
pub struct Outcome<const MEASURES: usize> {
    /// Promises that it broke.
    pub violations: Vec<String>,
    /// What was counted in it.
    pub measures: [f64; MEASURES],
}

/// The number that a variable of the environment has.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Lives through one world per seed, prints the mean of each measure under its name, and gives back what was wrong.
pub fn explore<const MEASURES: usize>(
    seeds: impl IntoIterator<Item = u64>,
    names: [&str; MEASURES],
    live: impl Fn(u64) -> Outcome<MEASURES> + Sync,
) -> Wrong {
    let seeds: Vec<u64> = seeds.into_iter().collect();
    let next = AtomicUsize::new(0);
    let (wrong, totals) = (Mutex::new(Wrong::new()), Mutex::new([0.0; MEASURES]));
    let began = Instant::now();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = live(*seed);
                    let mut totals = totals.lock().expect("no thread panics here");
                    for (total, more) in totals.iter_mut().zip(outcome.measures) {
                        *total += more;
                    }
                    drop(totals);
                    if !outcome.violations.is_empty() {
                        // A long run is looked at before it ends.
                        println!("seed {seed}: {:?}", outcome.violations);
                        let mut wrong = wrong.lock().expect("no thread panics here");
                        wrong.insert(*seed, outcome.violations);
                    }
                }
            });
        }
    });
    let worlds = seeds.len().max(1) as f64;
    let seconds = began.elapsed().as_secs_f64() * workers as f64 / worlds;
    let totals = totals.into_inner().expect("no thread panics here");
    let means = names.iter().zip(totals);
    let means: Vec<String> = means
        .map(|(name, total)| format!("{:.1} {name}", total / worlds))
        .collect();
    println!(
        "{worlds} worlds, {seconds:.3} s each on {workers} threads; in each {}",
        means.join(", ")
    );
    wrong.into_inner().expect("no thread panics here")
}

/// Fails unless a world leaves the same log when it is lived through a second time.
pub fn same_twice(live: impl Fn() -> Vec<String>) {
    let (first, second) = (live(), live());
    let differs = first.iter().zip(&second).find(|(a, b)| a != b);
    assert_eq!(differs, None);
    assert_eq!(first.len(), second.len());
}

/// Fails with what was wrong and the command that lives through such a world `again` with its log.
pub fn complain(wrong: &Wrong, again: impl Fn(u64) -> String) {
    let lines = wrong.iter().map(|(seed, violations)| {
        let shown: Vec<&str> = violations.iter().take(4).map(String::as_str).collect();
        let again = again(*seed);
        format!("seed {seed}:\n  {}\n  again with its log: {again}", shown.join("\n  "))
    });
    let lines: Vec<String> = lines.collect();
    assert!(
        lines.is_empty(),
        "{} worlds went wrong\n{}",
        lines.len(),
        lines.join("\n")
    );
}
