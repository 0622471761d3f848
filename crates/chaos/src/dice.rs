//! Draws, from which scenarios are made.

use kerf_runtime::{Rng, Seed};
use serde_json::{Value, json};
use std::time::Duration;

/// A source of draws.
pub struct Dice(Rng);

impl Dice {
    /// The source of a world's draws about `what`. Sources of different names do not depend on each other.
    pub fn new(seed: u64, what: &str) -> Self {
        Self(Seed(seed).derive(what).rng())
    }

    /// A number below a bound.
    pub fn below(&self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A number from `least` to `most`.
    pub fn between(&self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    /// True in so many of a hundred draws.
    pub fn chance(&self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    /// One of several values.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn one<T: Clone>(&self, of: &[T]) -> T {
        let index = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        of.get(index).cloned().expect("something to choose from")
    }

    /// From `least` to `most` seconds.
    pub fn seconds(&self, least: u64, most: u64) -> Duration {
        Duration::from_secs(self.between(least, most))
    }

    /// A number from 0 up to 1.
    pub fn unit(&self) -> f64 {
        self.0.unit()
    }

    /// A share between 0 and `most`, or none.
    pub fn rate(&self, most: f64) -> f64 {
        if self.chance(50) { most * self.unit() } else { 0.0 }
    }

    /// Disruption budgets that some NodePools have besides their first: for some reasons, and for some minutes.
    pub fn more_budgets(&self) -> Vec<Value> {
        let mut budgets = Vec::new();
        if self.chance(30) {
            let reasons = self.one(&[
                json!(["Empty"]),
                json!(["Drifted"]),
                json!(["Underutilized", "Drifted"]),
            ]);
            budgets.push(json!({"nodes": self.one(&["0", "1", "50%"]), "reasons": reasons}));
        }
        if self.chance(25) {
            let (from, minutes) = (self.between(1, 50), self.between(5, 20));
            budgets
                .push(json!({"nodes": "0", "schedule": format!("{from} 0 * * *"), "duration": format!("{minutes}m")}));
        }
        budgets
    }
}
