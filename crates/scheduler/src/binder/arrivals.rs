//! When the machines of a plan become ready.

use super::queue::Millis;
use crate::chance::{Chance, shuffle};
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;

/// Between groups of machines: long enough for kube-scheduler to try every pod, with the longest back-off.
const GROUPS_APART: Millis = 3_600_000;
/// How long kube-scheduler takes for a pod, unless another time is given: it binds 200 pods a second.
const ATTEMPT: Millis = 5;

/// When a machine can be seen and used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When its Node is created. kube-scheduler tries waiting pods again, in vain.
    pub node: Millis,
    /// When it takes pods.
    pub ready: Millis,
}

/// The course of a scale-up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrivals {
    /// By machine, in the order of the launches of the plan.
    pub machines: Vec<Arrival>,
    /// How long kube-scheduler takes to try a pod, in milliseconds.
    pub attempt: Millis,
    /// The seed of what is unknown: the order of pods that were created in the same second, and the choice among nodes of equal scores.
    /// `None` for the order of unique ids and the first node.
    pub seed: Option<u64>,
    /// How many pods at the end of the question are no pods of the plan, but are created after it.
    pub later_pods: usize,
    /// Whether these pods come at all.
    pub later_pods_come: bool,
}

impl Arrivals {
    /// Groups of machines, as indices into the launches, and pods in the order of their unique ids. Before the next group is ready,
    /// kube-scheduler has tried every pod.
    pub fn of(groups: &[Vec<usize>]) -> Self {
        let machines = groups.iter().flatten().map(|at| at + 1).max().unwrap_or(0);
        let mut arrivals = vec![Arrival { node: 0, ready: 0 }; machines];
        for (ready, group) in (0..).step_by(GROUPS_APART as usize).zip(groups) {
            for at in group {
                arrivals[*at] = Arrival { node: ready, ready };
            }
        }
        Self {
            machines: arrivals,
            attempt: ATTEMPT,
            seed: None,
            later_pods: 0,
            later_pods_come: true,
        }
    }

    /// Whether a pod of the question is one of the plan.
    pub(super) fn is_planned(&self, problem: &Problem<'_>, pod: PodId) -> bool {
        pod.index() + self.later_pods < problem.pods.len()
    }

    /// All machines at once.
    pub fn at_once(machines: usize) -> Self {
        Self::of(&[(0..machines).collect()])
    }

    /// One after the other, in the order of the plan.
    pub fn one_by_one(machines: usize) -> Self {
        Self::of(&(0..machines).map(|at| vec![at]).collect::<Vec<_>>())
    }

    /// Machines in groups of up to `group`, and pods, in orders that depend on `seed` alone.
    pub fn shuffled(machines: usize, group: usize, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..machines).collect();
        shuffle(&mut order, seed);
        let groups: Vec<Vec<usize>> = order.chunks(group.max(1)).map(<[usize]>::to_vec).collect();
        Self {
            seed: Some(seed),
            ..Self::of(&groups)
        }
    }

    /// Machines that become ready at any time between two, while kube-scheduler binds pods. Their Nodes are created up to `booting` before.
    pub fn within(
        machines: usize,
        (from, until): (Millis, Millis),
        booting: Millis,
        attempt: Millis,
        seed: u64,
    ) -> Self {
        let mut chance = Chance::new(seed);
        let mut arrival = || {
            let ready = from + chance.below(until - from);
            Arrival {
                node: ready - chance.below(booting),
                ready,
            }
        };
        Self {
            machines: (0..machines).map(|_| arrival()).collect(),
            attempt,
            seed: Some(seed),
            later_pods: 0,
            later_pods_come: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_ready_one_after_the_other() {
        let sizes = |arrivals: &Arrivals| {
            let mut times: Vec<Millis> = arrivals.machines.iter().map(|machine| machine.ready).collect();
            times.sort_unstable();
            times.chunk_by(|a, b| a == b).map(<[Millis]>::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&Arrivals::at_once(7)), [7]);
        assert_eq!(sizes(&Arrivals::one_by_one(7)), [1; 7]);
        assert_eq!(sizes(&Arrivals::shuffled(7, 3, 1)), [3, 3, 1]);
        assert_eq!(sizes(&Arrivals::shuffled(7, 0, 2)), [1; 7]);
        assert_ne!(Arrivals::shuffled(7, 1, 1), Arrivals::shuffled(7, 1, 2));
        assert_eq!(sizes(&Arrivals::at_once(0)), Vec::<usize>::new().as_slice());
    }

    #[test]
    fn machines_are_ready_within_the_given_time() {
        let arrivals = Arrivals::within(200, (1000, 5000), 800, 5, 1);
        assert_eq!(arrivals.machines.len(), 200);
        for machine in &arrivals.machines {
            assert!((1000..5000).contains(&machine.ready));
            assert!((0..800).contains(&(machine.ready - machine.node)));
        }
        assert_ne!(arrivals, Arrivals::within(200, (1000, 5000), 800, 5, 2));
        assert_eq!(Arrivals::within(1, (7, 7), 0, 5, 1).machines[0].ready, 7);
    }
}
