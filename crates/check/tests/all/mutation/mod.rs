//! Accepted plans are changed at random; the checker objects to a changed plan if and only if a brute-force evaluation of the rules does.
//!
//! [`worlds`] makes clusters of existing nodes as text, [`changes`] edits the text or moves pods, [`brute_force`] states the rules once
//! more and tries every order of binding. [`launches`] changes plans that launch nodes, [`open_launches`] makes some of which it is open what
//! becomes of them. `KERF_PROPERTY_CASES` and its like work as for the scheduler's properties.

mod brute_force;
mod changes;
mod launches;
mod open_launches;
mod worlds;

use kerf_testkit::draw::Draw;
use std::ops::Range;

/// The draws that change a text, from the seed in its line that begins with `mark`.
fn draws(text: &str, mark: &str) -> Draw {
    let seed = text.lines().find_map(|line| line.strip_prefix(mark));
    Draw::new(seed.and_then(|seed| seed.parse().ok()).unwrap_or(0))
}

/// Fails unless both judge the plans of these seeds alike, and many of them are good and many are bad: a property would hold of a checker that always
/// objects, or never, if plans were all good or all bad. `judge` passes over seeds without a plan.
fn assert_good_and_bad(seeds: Range<u64>, judge: impl Fn(u64) -> Option<Result<bool, String>>) {
    let judged: Result<Vec<bool>, String> = seeds.filter_map(judge).collect();
    let judged = judged.expect("both judge alike");
    let good = judged.iter().filter(|good| **good).count();
    let bad = judged.len() - good;
    assert!(good > 40 && bad > 40, "{good} good plans and {bad} bad ones");
}
