//! What the reference benchmark times and reports (SCH-446): the solve alone, averaged over iterations; construction stands apart.

use kerf_model::plan::Plan;
use std::time::Duration;

/// The figures of some iterations, each by a solver of its own.
#[derive(Debug)]
pub struct Timing {
    /// How long it took to read the cluster, on average.
    pub construction: Duration,
    /// How long the solve took after that, on average.
    pub solve: Duration,
    /// The pods of all iterations over the time of all their solves.
    pub pods_per_second: f64,
    /// Pods placed in the first iteration.
    pub placed: usize,
    /// Pods of each node of the first iteration.
    pub per_node: PerNode,
}

/// How many pods nodes have.
#[derive(PartialEq, Debug, Default)]
pub struct PerNode {
    /// How many nodes have been counted.
    pub nodes: usize,
    /// The fewest pods on one node.
    pub least: usize,
    /// The most pods on one node.
    pub most: usize,
    /// The mean number of pods on one node.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
}

/// Reads the cluster and solves, once at least and then while `again` says so of the iterations and the time spent so far. `clock` gives
/// the time since some moment.
pub fn time<S>(
    pods: usize,
    clock: &dyn Fn() -> Duration,
    again: &dyn Fn(u32, Duration) -> bool,
    construct: &dyn Fn() -> S,
    solve: &dyn Fn(&S) -> Plan,
) -> Timing {
    let (mut iterations, mut constructing, mut solving) = (0, Duration::ZERO, Duration::ZERO);
    let mut first = None;
    while iterations == 0 || again(iterations, constructing + solving) {
        let began = clock();
        let solver = construct();
        let constructed = clock();
        let plan = solve(&solver);
        let solved = clock();
        constructing += constructed.saturating_sub(began);
        solving += solved.saturating_sub(constructed);
        iterations += 1;
        first.get_or_insert(plan);
    }
    let first = first.unwrap_or_default();
    let launched = first.launches.iter().map(|launch| launch.pods.len());
    let existing = first.existing.iter().map(|placement| placement.pods.len());
    let counts: Vec<usize> = launched.chain(existing).collect();
    Timing {
        construction: constructing / iterations,
        solve: solving / iterations,
        pods_per_second: pods as f64 * f64::from(iterations) / solving.as_secs_f64(),
        placed: counts.iter().sum(),
        per_node: PerNode::of(&counts),
    }
}

impl PerNode {
    fn of(counts: &[usize]) -> Self {
        let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else {
            return Self::default();
        };
        let nodes = counts.len() as f64;
        let mean = counts.iter().sum::<usize>() as f64 / nodes;
        let squares = counts.iter().map(|count| (*count as f64 - mean).powi(2));
        Self {
            nodes: counts.len(),
            least: *least,
            most: *most,
            mean,
            deviation: (squares.sum::<f64>() / nodes).sqrt(),
        }
    }
}
