//! Fills one node with pods.

use crate::compile::catalogue::RowId;
use crate::compile::classes::ClassId;
use crate::dense::amounts::{Amounts, add, fits, subtract};
use crate::search::specs::SpecId;
use crate::strategy::repacking::node::Pins;
use crate::strategy::repacking::quotes::{Offer, Quotes};
use crate::strategy::repacking::recreate::Recreator;
use crate::strategy::repacking::rules::{Members, add_member};
use smallvec::SmallVec;

/// Of the pods of one class that would fit a node, this fraction is added at once. Smaller steps mix classes better and take longer.
const STEP: i64 = 8;

/// Pods of one class that may move, and the domains their node must be in.
pub(super) struct Item {
    pub(super) class: ClassId,
    pub(super) kept: Pins,
    pub(super) count: u32,
    /// What its requests are worth, by resource.
    pub(super) weights: Weights,
}

impl Item {
    /// How well the requests match what is left of a row, given the shares of its resources that are left.
    fn alignment(&self, shares: &[f64]) -> f64 {
        let matching: f64 = self
            .weights
            .iter()
            .zip(shares)
            .map(|(weight, share)| weight * share)
            .sum();
        if matching > 0.0 {
            matching
        } else {
            self.weights.iter().sum()
        }
    }
}

/// A number for each resource.
pub(super) type Weights = SmallVec<[f64; 4]>;

/// A node before it is filled.
pub(super) struct Start {
    /// The node with the pods that stay, if it is an existing one.
    pub(super) base: Option<usize>,
    pub(super) pins: Pins,
    pub(super) spec: SpecId,
    pub(super) used: Amounts,
    pub(super) members: Members,
    /// What it costs without further pods.
    pub(super) price: i64,
}

/// A node filled with pods.
pub(super) struct Filling {
    pub(super) added: SmallVec<[(usize, u32); 6]>,
    pub(super) used: Amounts,
    pub(super) price: i64,
    pub(super) value: f64,
}

impl Recreator<'_, '_, '_, '_> {
    /// Fills a node of a row: always with the class whose requests match the free resources best. Returns `None` where no pod fits.
    pub(super) fn fill(&mut self, start: &Start, offer: &Offer, items: &[Item]) -> Option<Filling> {
        let problem = self.assignment.problem;
        let inside = |item: &Item| item.count > 0 && item.kept.iter().all(|pin| start.pins.contains(pin));
        let mut candidates: SmallVec<[(usize, u32); 16]> = items
            .iter()
            .enumerate()
            .filter(|(_, item)| inside(item))
            .map(|(at, item)| (at, item.count))
            .collect();
        let mut left = offer.room.clone();
        subtract(&mut left, &start.used);
        let (mut spec, mut members) = (start.spec, start.members.clone());
        let mut filling = Filling {
            added: SmallVec::new(),
            used: start.used.clone(),
            price: 0,
            value: 0.0,
        };
        let mut shares: Weights = SmallVec::from_elem(0.0, left.len());
        loop {
            for ((share, left), room) in shares.iter_mut().zip(&left).zip(&offer.room) {
                *share = if *room > 0 { *left as f64 / *room as f64 } else { 0.0 };
            }
            let mut best: Option<(f64, usize)> = None;
            let mut position = 0;
            candidates.retain(|(at, n)| {
                let item = &items[*at];
                if *n == 0 || !fits(problem.requests(item.class), &left) {
                    return false;
                }
                let score = item.alignment(&shares);
                if best.is_none_or(|(most, _)| score > most) {
                    best = Some((score, position));
                }
                position += 1;
                true
            });
            self.work += 1 + candidates.len() as u64 / 4;
            let Some((_, position)) = best else { break };
            let (at, available) = candidates[position];
            let class = items[at].class;
            let Some(n) = self.addable(class, available, &left, &members, (&mut spec, offer.row)) else {
                candidates.remove(position);
                continue;
            };
            candidates[position].1 -= n;
            let total = self.requests_of(class, n);
            subtract(&mut left, &total);
            add(&mut filling.used, &total);
            filling.value += self.pod_value(class) * f64::from(n);
            add_member(&mut members, class, n);
            match filling.added.iter_mut().find(|added| added.0 == at) {
                Some(added) => added.1 += n,
                None => filling.added.push((at, n)),
            }
        }
        if filling.added.is_empty() {
            return None;
        }
        filling.price = self.quotes.price(self.assignment, spec, &filling.used)?;
        Some(filling)
    }

    /// The number of pods of a class that may be added at once to a node. Updates its spec. `None` where the node may not take any.
    fn addable(
        &mut self,
        class: ClassId,
        available: u32,
        left: &[i64],
        members: &Members,
        (spec, row): (&mut SpecId, RowId),
    ) -> Option<u32> {
        if !self.rules.allow(members, class) {
            return None;
        }
        if !members.iter().any(|member| member.0 == class) {
            let merged = Quotes::with_class(self.assignment, *spec, class)?;
            if !self.assignment.specs.get(merged).rows.get(row) {
                return None;
            }
            *spec = merged;
        }
        if !self.rules.unlimited(class) {
            return Some(1);
        }
        let requests = self.assignment.problem.requests(class).iter().zip(left);
        let asked = requests.filter(|(want, _)| **want > 0);
        let fitting = asked.map(|(want, have)| have / want).min().unwrap_or(1);
        let n = (fitting / STEP).max(1).min(i64::from(available));
        u32::try_from(n).ok()
    }
}
