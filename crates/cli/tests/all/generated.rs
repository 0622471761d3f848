//! Generated clusters go the whole way: manifests are read and admitted, the mirror is built, the solver plans, and the plan checker accepts
//! the plan. `KERF_GENERATED` sets how many; `KERF_GENERATED_FROM` the first seed, which a failure names.

use crate::generate;
use kerf_cli::offline::Planner;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

fn number(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn the_checker_accepts_the_plan_for_every_generated_cluster() {
    let now = "2026-01-05T08:00:00Z".parse().expect("a moment");
    let planner = Planner::new(now);
    let first = number("KERF_GENERATED_FROM", 0);
    let count = number("KERF_GENERATED", 300);
    let (mut scheduled, mut left, mut failures) = (0, 0, Vec::new());
    for seed in first..first + count {
        let manifests = generate::cluster(seed);
        let outcome = catch_unwind(AssertUnwindSafe(|| planner.plan(&manifests)));
        let problem = match outcome {
            Err(_) => Some("it panics".to_owned()),
            Ok(outcome) if !outcome.errors.is_empty() => Some(format!("refused: {}", outcome.errors.join("\n  "))),
            Ok(outcome) if !outcome.violations.is_empty() => Some(outcome.violations.join("\n  ")),
            Ok(outcome) => {
                scheduled += outcome.scheduled;
                left += outcome.unschedulable;
                None
            }
        };
        if let Some(problem) = problem {
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("generated-{seed}.json"));
            fs::write(&file, &manifests).expect("a writable folder");
            failures.push(format!(
                "seed {seed}: {problem}\n  kerf simulate --catalogue kwok --verify -f {}",
                file.display()
            ));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {count} fail; KERF_GENERATED_FROM=<seed> KERF_GENERATED=1 repeats one\n{}",
        failures.len(),
        failures.join("\n")
    );
    eprintln!("{count} clusters, {scheduled} pods placed, {left} left over");
    // A generator whose pods all fit, or none, tries nothing.
    assert!(
        count < 100 || (scheduled > left && left > 0),
        "{scheduled} placed, {left} left over"
    );
}
