//! Choices that depend on a seed alone.

use super::queue::Millis;

/// Orders a list by numbers that depend on `seed` and positions alone.
pub(super) fn shuffle<T: Copy>(list: &mut [T], seed: u64) {
    let keyed = (1..).zip(&*list).map(|(at, item)| (scrambled(seed ^ at), *item));
    let mut keyed: Vec<(u64, T)> = keyed.collect();
    keyed.sort_by_key(|(key, _)| *key);
    for (item, (_, moved)) in list.iter_mut().zip(keyed) {
        *item = moved;
    }
}

/// A stream of choices that depends on its seed alone.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(scrambled(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = scrambled(self.0.wrapping_add(1));
        self.0
    }

    /// True once in `number` times on average.
    pub(super) fn one_in(&mut self, number: u64) -> bool {
        self.next().is_multiple_of(number)
    }

    /// A number from 0 to below `end`; 0 where there is none.
    pub(super) fn below(&mut self, end: Millis) -> Millis {
        match u64::try_from(end) {
            Ok(end) if end > 0 => (self.next() % end) as Millis,
            _ => 0,
        }
    }
}

/// A number that differs in about half its bits for each input (the mixing step of SplitMix64).
fn scrambled(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
