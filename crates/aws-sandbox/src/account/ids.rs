//! Ids of new things.

use kerf_runtime::Seed;

/// Makes ids: the same seed gives the same ones.
#[derive(Clone, Debug)]
pub struct Ids {
    seed: Seed,
    count: u64,
}

impl Ids {
    pub(super) const fn new(seed: Seed) -> Self {
        Self { seed, count: 0 }
    }

    /// The next id with a prefix, such as `i-0f3a…`: 17 hexadecimal digits, as AWS writes them.
    pub(super) fn next(&mut self, prefix: &str) -> String {
        self.count += 1;
        let bits = self.seed.derive(&format!("{prefix} {}", self.count)).rng().next_u64();
        format!("{prefix}-0{bits:016x}")
    }

    /// How many ids were made.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }
}
