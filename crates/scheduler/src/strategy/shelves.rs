//! Claims by what they have to spare, so that those that suit a pod are found without looking at all.

use crate::bits::Bits;
use crate::claims::Bucket;
use crate::run::Run;
use smallvec::SmallVec;

/// Steps of what machines have to spare of a resource: powers of the square root of two, the middle one being what a pod asks for on average.
const STEPS: usize = 24;
/// Of so many resources, the first ones: processors and memory.
const INDEXED: usize = 2;
/// How much more growing counts than leaving something unused, where claims are only looked at.
const LACKING: f64 = 8.0;

/// Claims by what they have to spare of the indexed resources.
#[derive(Debug, Default)]
pub(crate) struct Shelves {
    /// What a pod asks for on average.
    mean: [f64; INDEXED],
    cells: Vec<Bucket>,
    occupied: Bits,
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
        Self {
            mean: mean.map(|mean| mean.max(1.0)),
            cells: vec![Bucket::default(); STEPS.pow(INDEXED as u32)],
            occupied: Bits::default(),
        }
    }

    fn step(&self, resource: usize, amount: i64) -> usize {
        if amount <= 0 {
            return 0;
        }
        let steps = 2.0 * (amount as f64 / self.mean[resource]).log2() + STEPS as f64 / 2.0;
        (steps.floor().max(1.0) as usize).min(STEPS - 1)
    }

    /// What a machine on a step has to spare at least; the last step is open above.
    fn least(&self, resource: usize, step: usize) -> f64 {
        if step == 0 {
            return 0.0;
        }
        self.mean[resource] * 2f64.powf((step as f64 - STEPS as f64 / 2.0) / 2.0)
    }

    /// The cell of a claim with so much to spare.
    pub(crate) fn cell(&self, spare: &[i64]) -> usize {
        (0..INDEXED).fold(0, |cell, resource| cell * STEPS + self.step(resource, spare[resource]))
    }

    pub(crate) fn put(&mut self, claim: usize, cell: usize) {
        self.cells[cell].insert(claim);
        self.occupied.insert(cell);
    }

    pub(crate) fn take(&mut self, claim: usize, cell: usize) {
        self.cells[cell].remove(claim);
        if self.cells[cell].is_empty() {
            self.occupied.remove(cell);
        }
    }

    /// The claims of a cell.
    pub(crate) fn claims(&self, cell: usize) -> &Bucket {
        &self.cells[cell]
    }

    /// Cells that hold claims, the most promising for a request first.
    pub(crate) fn order(&self, requests: &[i64], worth: &[f64]) -> SmallVec<[(f64, usize); 64]> {
        let price = |resource: usize, step: usize| {
            let (want, worth) = (requests[resource] as f64, worth.get(resource).copied().unwrap_or(0.0));
            // As if it had as much as the next step has at least.
            let over = self.least(resource, step + 1) - want;
            if over < 0.0 && want > 0.0 {
                LACKING * worth * -over
            } else {
                worth * over
            }
        };
        let steps = [0, 1].map(|resource| {
            (0..STEPS)
                .map(|step| price(resource, step))
                .collect::<SmallVec<[f64; STEPS]>>()
        });
        let score = |cell: usize| steps[0][cell / STEPS] + steps[1][cell % STEPS];
        let mut order: SmallVec<[(f64, usize); 64]> = self.occupied.iter().map(|cell| (score(cell), cell)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        order
    }
}
