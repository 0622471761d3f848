//! The orders in which the machines of a plan become ready and kube-scheduler tries pods.

/// An order of machines and one of pods.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrivals {
    /// Groups of machines, as indices into the launches of a plan. The machines of a group become ready at the same moment; before the next
    /// group does, kube-scheduler has tried every waiting pod.
    pub machines: Vec<Vec<usize>>,
    /// The seed of what is unknown: the order of pods that were created in the same second, and the choice among nodes of equal scores.
    /// `None` for the order of unique ids and the first node.
    pub seed: Option<u64>,
}

impl Arrivals {
    /// These machines, with pods in the order of their unique ids.
    pub const fn of(machines: Vec<Vec<usize>>) -> Self {
        Self { machines, seed: None }
    }

    /// All machines at once.
    pub fn at_once(machines: usize) -> Self {
        Self::of(vec![(0..machines).collect()])
    }

    /// One after the other, in the order of the plan.
    pub fn one_by_one(machines: usize) -> Self {
        Self::of((0..machines).map(|at| vec![at]).collect())
    }

    /// One after the other, in the reverse order of the plan.
    pub fn reversed(machines: usize) -> Self {
        Self::of((0..machines).rev().map(|at| vec![at]).collect())
    }

    /// Machines in groups of up to `group`, and pods, in orders that depend on `seed` alone.
    pub fn shuffled(machines: usize, group: usize, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..machines).collect();
        shuffle(&mut order, seed);
        Self {
            machines: order.chunks(group.max(1)).map(<[usize]>::to_vec).collect(),
            seed: Some(seed),
        }
    }
}

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

    /// True once in `number` times on average.
    pub(super) fn one_in(&mut self, number: u64) -> bool {
        self.0 = scrambled(self.0.wrapping_add(1));
        self.0.is_multiple_of(number)
    }
}

/// A number that differs in about half its bits for each input (the mixing step of SplitMix64).
fn scrambled(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_arrives_once() {
        for arrivals in [
            Arrivals::at_once(7),
            Arrivals::one_by_one(7),
            Arrivals::reversed(7),
            Arrivals::shuffled(7, 3, 1),
            Arrivals::shuffled(7, 0, 2),
        ] {
            let mut all: Vec<usize> = arrivals.machines.concat();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4, 5, 6]);
        }
        assert_ne!(Arrivals::shuffled(7, 1, 1), Arrivals::shuffled(7, 1, 2));
    }
}
