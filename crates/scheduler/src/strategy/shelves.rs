//! Claims by what they have to spare, so that those that suit a pod are found without looking at all.

use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::claims::Bucket;
use crate::run::Run;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Steps of what machines have to spare of a resource: powers of the square root of two, the middle one being what a pod asks for on average.
const STEPS: usize = 24;
/// Of so many resources, the first ones: processors and memory.
const INDEXED: usize = 2;
/// How much more growing counts than leaving something unused, where claims are only looked at.
const LACKING: f64 = 8.0;

/// Claims by what they have to spare of the indexed resources.
#[derive(Debug, Default)]
pub(crate) struct Shelves {
    /// Per resource and step: what a machine on it has to spare at least. The last step is open above.
    least: [Vec<f64>; INDEXED],
    cells: Vec<Bucket>,
    occupied: Bits,
    ranking: Ranking,
}

/// The cells that hold claims, the most promising for a pod first; kept for the next pod, which mostly asks for the same.
#[derive(Debug, Default)]
struct Ranking {
    requests: Amounts,
    worth: SmallVec<[f64; 4]>,
    /// Per resource and step: its part of a cell's score.
    prices: [[f64; STEPS]; INDEXED],
    /// Per resource and step: the least a claim on it lacks, priced.
    lacking: [[f64; STEPS]; INDEXED],
    /// By score, then number. Some may have lost all their claims since.
    order: Vec<(f64, usize)>,
    ranked: Bits,
}

impl Ranking {
    fn is_for(&self, requests: &[i64], worth: &[f64]) -> bool {
        !self.order.is_empty() && *self.requests == *requests && *self.worth == *worth
    }

    fn add(&mut self, cell: usize) {
        if self.order.is_empty() || self.ranked.get(cell) {
            return;
        }
        self.ranked.insert(cell);
        let entry = (self.score(cell), cell);
        let at = self.order.partition_point(|known| by_score(known, &entry).is_lt());
        self.order.insert(at, entry);
    }

    /// The least a claim of a cell lacks of the indexed resources, priced.
    fn lacking(&self, cell: usize) -> f64 {
        self.lacking[0][cell / STEPS] + self.lacking[1][cell % STEPS]
    }

    fn score(&self, cell: usize) -> f64 {
        self.prices[0][cell / STEPS] + self.prices[1][cell % STEPS]
    }
}

fn by_score(a: &(f64, usize), b: &(f64, usize)) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

impl Shelves {
    pub(crate) fn new(run: &Run<'_, '_>, queue: &[u32]) -> Self {
        let world = run.world;
        let mut mean = [0.0; INDEXED];
        for class in queue.iter().filter_map(|pod| world.of_pod[*pod as usize]) {
            for (mean, amount) in mean.iter_mut().zip(world.requests(class)) {
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
            cells: vec![Bucket::default(); STEPS.pow(INDEXED as u32)],
            occupied: Bits::default(),
            ranking: Ranking::default(),
        }
    }

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

    /// The cell of a claim with so much to spare.
    pub(crate) fn cell(&self, spare: &[i64]) -> usize {
        (0..INDEXED).fold(0, |cell, resource| cell * STEPS + self.step(resource, spare[resource]))
    }

    pub(crate) fn put(&mut self, claim: usize, cell: usize) {
        self.cells[cell].insert(claim);
        self.occupied.insert(cell);
        self.ranking.add(cell);
    }

    pub(crate) fn take(&mut self, claim: usize, cell: usize) {
        self.cells[cell].remove(claim);
        if self.cells[cell].is_empty() {
            self.occupied.remove(cell);
        }
    }

    /// Sets of claims, the most promising for a request first, and the least each of them lacks, priced.
    pub(crate) fn ranked(&mut self, requests: &[i64], worth: &[f64]) -> impl Iterator<Item = (f64, &Bucket)> {
        if !self.ranking.is_for(requests, worth) {
            self.rank(requests, worth);
        }
        let (cells, ranking) = (&self.cells, &self.ranking);
        ranking
            .order
            .iter()
            .map(|(_, cell)| (ranking.lacking(*cell), &cells[*cell]))
    }

    fn rank(&mut self, requests: &[i64], worth: &[f64]) {
        let ranking = &mut self.ranking;
        (ranking.requests, ranking.worth) = (requests.into(), worth.into());
        for (resource, least) in self.least.iter().enumerate() {
            let (want, worth) = (requests[resource] as f64, worth.get(resource).copied().unwrap_or(0.0));
            for (step, above) in least[1..].iter().enumerate() {
                // As if it had as much as the next step has at least.
                let over = worth * (above - want);
                let lacks = over < 0.0 && want > 0.0;
                ranking.prices[resource][step] = if lacks { LACKING * -over } else { over };
                ranking.lacking[resource][step] = if lacks { -over } else { 0.0 };
            }
            // The last step is open above.
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
