//! The tests: which seeds are run.

use std::sync::Mutex;

use kerf_testkit::worlds::{Outcome, Wrong, complain, explore, number, same_twice};

use crate::chaos::run::run;
use crate::chaos::scenario::Scenario;
use crate::offline_agreement::Tally;
use crate::simulation::logs::install;

/// Worlds of an ordinary run, two to five minutes on two cores; `KERF_CHAOS_SEEDS` says otherwise.
const SEEDS: u64 = 120;
/// Seeds that once showed a fault: machines ended under pods the cache had lost (1, 45), a second claim for the pods of one whose creation
/// was never answered (46, 1948), a machine too many since pods traded places (11, 2062), also while nothing could be launched (14945),
/// since a claim was forgotten that a list was too old for (319), since nobody knew after a restart what claims were made for (740), since
/// a new leader was behind (7149), since drift launched for pods that provisioning had just launched for (18860), and since room made for
/// daemons was kept free for them twice (3801), machines ended whose claim a watch had lost (706) or did not say yet that they had
/// registered, while the cache knew their Nodes (6303, 11517) or had lost them too (9233), watches opened without a pause (1387), pods
/// evicted in the place of their namesakes (1511) or after the clock was set back to a time at which they were protected (7173), a budget
/// exceeded by a claim whose deletion met a conflict (1684) or whose mark an old read hid (8269), a machine
/// too many because pods that stayed kept their room on another (17636), and a machine consolidated for ever, since
/// its pods never went where they were to go (17832).
const REGRESSIONS: [u64; 23] = [
    1, 11, 45, 46, 319, 706, 740, 1387, 1511, 1684, 1948, 2062, 3801, 6303, 7149, 7173, 8269, 9233, 11517, 14945,
    17636, 17832, 18860,
];

/// Lives through worlds; gives back what was wrong in which, and how often the command line was asked to decide too.
fn live(seeds: impl IntoIterator<Item = u64>, scenario: impl Fn(u64) -> Scenario + Sync) -> (Wrong, Tally) {
    // Without a global subscriber every span is written out for the `log` crate.
    install();
    let agreement = Mutex::new(Tally::default());
    let names = ["events", "calls", "nodes at most", "minutes of its time"];
    let wrong = explore(seeds, names, |seed| {
        let report = run(&scenario(seed), false);
        *agreement.lock().expect("no panic") += report.agreement;
        Outcome {
            measures: [
                report.events as f64,
                report.calls as f64,
                report.nodes_max as f64,
                report.lived.as_secs_f64() / 60.0,
            ],
            violations: report.violations,
        }
    });
    let agreement = agreement.into_inner().expect("no panic");
    println!("decisions of the command line: {agreement:?}");
    (wrong, agreement)
}

fn again(seed: u64) -> String {
    format!("KERF_CHAOS_SEED={seed} cargo test -p kerf-controllers --test all one_world -- --nocapture")
}

#[test]
fn seeds_keep_every_promise() {
    let first = number("KERF_CHAOS_FIRST").unwrap_or(0);
    let count = number("KERF_CHAOS_SEEDS").unwrap_or(SEEDS);
    let (wrong, agreement) = live(first..first + count, Scenario::of);
    complain(&wrong, again);
    // The command line decided about the same clusters, and about many in which there was something to do.
    assert!(agreement.compared > 2 * agreement.skipped, "{agreement:?}");
    assert!(agreement.passes > 2 * agreement.passes_skipped, "{agreement:?}");
    assert!(agreement.with_commands > count / 4, "{agreement:?}");
}

#[test]
fn worlds_that_went_wrong_once_do_not_again() {
    // They went wrong with the default policies.
    let (wrong, _) = live(REGRESSIONS, |seed| Scenario::of(seed).with_default_policies());
    complain(&wrong, again);
}

/// The world of `KERF_CHAOS_SEED`, with a report of everything that happens in it; without the variable, one short world.
#[test]
fn one_world() {
    let seed = number("KERF_CHAOS_SEED");
    let report = run(&Scenario::of(seed.unwrap_or(1)), seed.is_some());
    for line in &report.log {
        println!("{line}");
    }
    println!(
        "{} events, {} calls, quiet after {:?}, {:?}",
        report.events, report.calls, report.quiet_after, report.agreement
    );
    assert_eq!(report.violations, [""; 0]);
}

#[test]
fn the_same_seed_lives_the_same_life() {
    for seed in [3, 4] {
        same_twice(|| run(&Scenario::of(seed), true).log);
    }
}
