//! The naive rules and the model's algebra, which the solver uses, give the same answers on random inputs.
//!
//! Generators draw from few values, so that rules meet: equal texts, integers around a bound, integers written with leading zeros.

#![expect(
    clippy::disallowed_methods,
    reason = "tests compare the rules with the model's algebra"
)]

mod amounts;
mod labels;
mod pods;
mod requirements;

use proptest::test_runner::{Config, RngSeed};

/// The same inputs on every run: a failure reproduces without a file of seeds.
fn config(seed: u64) -> Config {
    Config {
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::with_cases(4096)
    }
}
