//! The slack index: claims by slack, so that those that suit a pod are found without examining all.

use crate::compile::queue::PodId;
use crate::compile::topology::ClaimId;
use crate::dense::amounts::Amounts;
use crate::dense::bits::Bits;
use crate::search::assignment::Assignment;
use crate::search::claims::ClaimSet;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// The number of slack steps per resource: powers of √2, the middle one being the mean request of a pod. 24 steps span 1/64 to 64 mean
/// requests.
const STEPS: usize = 24;
/// The number of indexed resources, the first ones: cpu and memory.
const INDEXED: usize = 2;
/// The weight of lacking resources against slack that remains, where claims are only ranked. README.md: 1 to 16 cost the same.
const GROWTH_WEIGHT: f64 = 8.0;

/// Claims by their slack of the indexed resources.
#[derive(Debug, Default)]
pub(crate) struct SlackIndex {
    /// Per resource and step: the smallest slack on it. The last step has no upper end.
    least: [Vec<f64>; INDEXED],
    cells: Vec<ClaimSet>,
    occupied: Bits,
    ranking: Ranking,
}

/// The non-empty cells, best for a pod first. Kept for the next pod, which mostly has the same requests.
#[derive(Debug, Default)]
struct Ranking {
    requests: Amounts,
    unit_prices: SmallVec<[f64; 4]>,
    /// Per resource and step: its part of a cell's score.
    scores: [[f64; STEPS]; INDEXED],
    /// Per resource and step: the value of the smallest lack of a claim on it.
    lacking: [[f64; STEPS]; INDEXED],
    /// By score, then by cell. Some cells may have become empty since.
    order: Vec<(f64, usize)>,
    ranked: Bits,
}

impl Ranking {
    /// Returns whether the ranking was computed for these requests.
    fn is_for(&self, requests: &[i64], unit_prices: &[f64]) -> bool {
        !self.order.is_empty() && *self.requests == *requests && *self.unit_prices == *unit_prices
    }

    /// Adds a cell that has become non-empty.
    fn add(&mut self, cell: usize) {
        if self.order.is_empty() || self.ranked.get(cell) {
            return;
        }
        self.ranked.insert(cell);
        let entry = (self.score(cell), cell);
        let at = self.order.partition_point(|known| by_score(known, &entry).is_lt());
        self.order.insert(at, entry);
    }

    /// The value of the smallest lack of a claim in a cell.
    fn lacking(&self, cell: usize) -> f64 {
        self.lacking[0][cell / STEPS] + self.lacking[1][cell % STEPS]
    }

    fn score(&self, cell: usize) -> f64 {
        self.scores[0][cell / STEPS] + self.scores[1][cell % STEPS]
    }
}

fn by_score(a: &(f64, usize), b: &(f64, usize)) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

impl SlackIndex {
    /// An empty index whose steps are scaled to the mean request of a queue.
    pub(crate) fn new(assignment: &Assignment<'_, '_>, queue: &[PodId]) -> Self {
        let problem = assignment.problem;
        let mut mean = [0.0; INDEXED];
        for class in queue.iter().filter_map(|pod| problem.of_pod[*pod]) {
            for (mean, amount) in mean.iter_mut().zip(problem.requests(class)) {
                *mean += *amount as f64 / queue.len() as f64;
            }
        }
        let least = |mean: f64| {
            let of_step = |step: usize| 2f64.powf((step as f64 - STEPS as f64 / 2.0) / 2.0);
            let above = (1..=STEPS).map(|step| mean.max(1.0) * of_step(step));
            std::iter::once(0.0).chain(above).collect()
        };
        Self {
            least: mean.map(least),
            cells: vec![ClaimSet::default(); STEPS.pow(INDEXED as u32)],
            occupied: Bits::default(),
            ranking: Ranking::default(),
        }
    }

    /// The step of an amount of slack.
    fn step(&self, resource: usize, amount: i64) -> usize {
        if amount <= 0 {
            return 0;
        }
        let steps = &self.least[resource][..STEPS];
        steps
            .partition_point(|least| *least <= amount as f64)
            .saturating_sub(1)
            .max(1)
    }

    /// The cell of a claim with this slack.
    pub(crate) fn cell(&self, slack: &[i64]) -> usize {
        (0..INDEXED).fold(0, |cell, resource| cell * STEPS + self.step(resource, slack[resource]))
    }

    /// Adds a claim to its cell.
    pub(crate) fn put(&mut self, claim: ClaimId, cell: usize) {
        self.cells[cell].insert(claim);
        self.occupied.insert(cell);
        self.ranking.add(cell);
    }

    /// Removes a claim from its cell.
    pub(crate) fn take(&mut self, claim: ClaimId, cell: usize) {
        self.cells[cell].remove(claim);
        if self.cells[cell].is_empty() {
            self.occupied.remove(cell);
        }
    }

    /// Sets of claims, best for these requests first, with the value of the smallest lack of each.
    pub(crate) fn ranked(&mut self, requests: &[i64], unit_prices: &[f64]) -> impl Iterator<Item = (f64, &ClaimSet)> {
        if !self.ranking.is_for(requests, unit_prices) {
            self.rank(requests, unit_prices);
        }
        let (cells, ranking) = (&self.cells, &self.ranking);
        ranking
            .order
            .iter()
            .map(|(_, cell)| (ranking.lacking(*cell), &cells[*cell]))
    }

    /// Ranks all non-empty cells for these requests.
    fn rank(&mut self, requests: &[i64], unit_prices: &[f64]) {
        let ranking = &mut self.ranking;
        (ranking.requests, ranking.unit_prices) = (requests.into(), unit_prices.into());
        for (resource, least) in self.least.iter().enumerate() {
            let (want, unit_prices) = (
                requests[resource] as f64,
                unit_prices.get(resource).copied().unwrap_or(0.0),
            );
            for (step, above) in least[1..].iter().enumerate() {
                // Every claim of a step counts as if it had the smallest slack of the next step.
                let over = unit_prices * (above - want);
                let lacks = over < 0.0 && want > 0.0;
                ranking.scores[resource][step] = if lacks { GROWTH_WEIGHT * -over } else { over };
                ranking.lacking[resource][step] = if lacks { -over } else { 0.0 };
            }
            // The last step has no upper end.
            ranking.lacking[resource][STEPS - 1] = 0.0;
        }
        ranking.ranked.clone_from(&self.occupied);
        ranking.order.clear();
        for cell in self.occupied.iter() {
            ranking.order.push((ranking.score(cell), cell));
        }
        ranking.order.sort_unstable_by(by_score);
    }
}
