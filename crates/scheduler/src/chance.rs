//! Choices that depend on a seed alone.

/// Orders a list by numbers that depend on `seed` and positions alone.
pub(crate) fn shuffle<T: Copy>(list: &mut [T], seed: u64) {
    let keyed = (1..).zip(&*list).map(|(at, item)| (scrambled(seed ^ at), *item));
    let mut keyed: Vec<(u64, T)> = keyed.collect();
    keyed.sort_by_key(|(key, _)| *key);
    for (item, (_, moved)) in list.iter_mut().zip(keyed) {
        *item = moved;
    }
}

/// A stream of choices that depends on its seed alone.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(scrambled(seed))
    }

    /// A stream that depends on a seed and on these numbers alone.
    pub(crate) fn of(seed: u64, numbers: &[i64]) -> Self {
        let mixed = numbers
            .iter()
            .fold(seed, |mixed, number| scrambled(mixed ^ *number as u64));
        Self::new(mixed)
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = scrambled(self.0.wrapping_add(1));
        self.0
    }

    /// True once in `number` times on average.
    pub(crate) fn one_in(&mut self, number: u64) -> bool {
        self.next().is_multiple_of(number)
    }

    /// A number from 0 to below `end`; 0 where there is none.
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        match u64::try_from(end) {
            Ok(end) if end > 0 => (self.next() % end) as i64,
            _ => 0,
        }
    }

    /// A factor from 1 - `share` to 1 + `share`.
    pub(crate) fn factor(&mut self, share: f64) -> f64 {
        /// The number of steps in which factors differ.
        const STEPS: u64 = 1 << 20;
        let unit = (self.next() % STEPS) as f64 / STEPS as f64;
        1.0 + share * (2.0 * unit - 1.0)
    }
}

/// A number that differs in about half its bits for each input (the mixing step of SplitMix64).
fn scrambled(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
