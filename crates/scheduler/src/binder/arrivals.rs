//! The order in which the machines of a plan become ready.

/// Groups of machines, as indices into the launches of a plan. The machines of a group become ready at the same moment; before the next
/// group does, kube-scheduler has tried every waiting pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrivals(pub Vec<Vec<usize>>);

impl Arrivals {
    /// All machines at once.
    pub fn at_once(machines: usize) -> Self {
        Self(vec![(0..machines).collect()])
    }

    /// One after the other, in the order of the plan.
    pub fn one_by_one(machines: usize) -> Self {
        Self((0..machines).map(|at| vec![at]).collect())
    }

    /// One after the other, in the reverse order of the plan.
    pub fn reversed(machines: usize) -> Self {
        Self((0..machines).rev().map(|at| vec![at]).collect())
    }

    /// In an order that depends on `seed` alone, in groups of up to `group` machines.
    pub fn shuffled(machines: usize, group: usize, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..machines).collect();
        order.sort_by_key(|at| scrambled(seed ^ (*at as u64 + 1)));
        Self(order.chunks(group.max(1)).map(<[usize]>::to_vec).collect())
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
            let mut all: Vec<usize> = arrivals.0.concat();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4, 5, 6]);
        }
        assert_ne!(Arrivals::shuffled(7, 1, 1), Arrivals::shuffled(7, 1, 2));
    }
}
