//! The tests: which seeds are run.

use super::scenario::Scenario;
use super::world::run;
use kerf_testkit::worlds::{Outcome, complain, explore, number, same_twice};

/// Worlds of an ordinary run; `KERF_AWS_CHAOS_SEEDS` says otherwise.
const SEEDS: u64 = 24;

#[test]
fn seeds_keep_every_promise() {
    let first = number("KERF_AWS_CHAOS_FIRST").unwrap_or(0);
    let count = number("KERF_AWS_CHAOS_SEEDS").unwrap_or(SEEDS);
    let names = ["calls", "launches", "instances at most", "minutes of its time"];
    let wrong = explore(first..first + count, names, |seed| {
        let report = run(&Scenario::of(seed), false);
        Outcome {
            measures: [
                report.calls as f64,
                report.launches as f64,
                report.instances_max as f64,
                report.lived.as_secs_f64() / 60.0,
            ],
            violations: report.violations,
        }
    });
    complain(&wrong, |seed| {
        format!(
            "KERF_AWS_CHAOS_SEED={seed} cargo test -p kerf-aws-sandbox --features sdk --test sdk one_aws_world -- --nocapture"
        )
    });
}

/// The world of `KERF_AWS_CHAOS_SEED` with a report of everything that happens in it; without the variable, one short world.
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
        same_twice(|| run(&Scenario::of(seed), true).log);
    }
}
