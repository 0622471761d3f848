//! What the pods on one machine are worth at most, proved in integers.
//!
//! Any unit prices of resources give an upper limit: the room at these prices, and what each pod is worth beyond what it takes up. A search over
//! whole pods lowers that limit: half of a pod cannot use half of the room.

use crate::bound::duals::fill_prices;
use crate::bound::machines::{Machine, Shape};
use crate::dense::amounts::Amounts;

/// The binary digits after the point of unit prices.
const FRACTION: u32 = 40;
/// The largest number of steps of a search. One that would need more gives a limit that is higher than necessary, and still proved.
const STEPS_MAX: u32 = 4_000;

/// Pods of each shape on one machine.
pub(super) type Whole = Vec<(usize, u32)>;

/// What the pods on a machine are worth.
pub(super) struct FillingValue {
    /// No pods that fit are worth more.
    pub(super) at_most: i128,
    /// The most valuable pods that were found, if they are worth more than what is enough.
    pub(super) best: Option<Whole>,
}

/// What the pods on a machine are worth at most if their shapes have these values, in 10⁻¹² dollars per hour. Fillings that are worth no more than
/// `enough` are not searched.
pub(super) fn filling_value(shapes: &[Shape], machine: &Machine, values: &[i128], enough: i128) -> FillingValue {
    let unit_prices: Vec<i128> = fill_prices(shapes, machine, values)
        .into_iter()
        .map(|price| (price.max(0.0) * (1u64 << FRACTION) as f64).ceil() as i128)
        .collect();
    let rooms = unit_prices.iter().zip(&machine.room);
    let mut limit = rooms.fold(0, |sum: i128, (price, room)| {
        sum.saturating_add(price.saturating_mul(i128::from(*room)))
    });
    let mut items = Vec::new();
    for shape in machine.shapes.iter().filter(|shape| values[*shape] > 0) {
        let value = values[shape] << FRACTION;
        let taken = unit_prices.iter().zip(&shapes[shape].requests);
        let taken = taken.fold(0, |sum: i128, (price, request)| {
            let product = price.checked_mul(i128::from((*request).max(0))).unwrap_or(0);
            sum.saturating_add(product)
        });
        let item = Item {
            shape,
            value,
            beyond: value - taken,
            requests: &shapes[shape].requests,
            count: shapes[shape].per_machine,
        };
        limit = limit.saturating_add(item.beyond.max(0).saturating_mul(i128::from(item.count)));
        items.push(item);
    }
    let mut search = Search {
        items,
        best: enough << FRACTION,
        found: None,
        unexplored: 0,
        steps: 0,
        counts: Vec::new(),
    };
    search.drop_unprofitable(limit);
    search.visit(limit, 0, &machine.room);
    FillingValue {
        // Rounded up.
        at_most: (search.best.max(search.unexplored) >> FRACTION) + 1,
        best: search.found,
    }
}

/// A shape that may be on the machine. Values are shifted by [`FRACTION`].
struct Item<'a> {
    shape: usize,
    value: i128,
    /// What a pod is worth beyond the room it takes, at unit prices.
    beyond: i128,
    requests: &'a Amounts,
    count: u32,
}

/// A search, depth first, for pods that are worth more than the best ones so far.
struct Search<'a> {
    items: Vec<Item<'a>>,
    /// The worth to exceed.
    best: i128,
    found: Option<Whole>,
    /// A limit of what was not searched.
    unexplored: i128,
    steps: u32,
    /// How many pods of each item up to the current depth.
    counts: Vec<u32>,
}

impl Search<'_> {
    /// Leaves out items of which even a single pod brings the limit down to the best, and orders the others: those that are worth most beyond
    /// their room first, then the largest.
    fn drop_unprofitable(&mut self, limit: i128) {
        let best = self.best;
        self.items.retain(|item| limit + item.beyond.min(0) > best);
        let order = |item: &Item<'_>| (item.beyond.max(0), item.value - item.beyond);
        self.items.sort_by_key(|item| std::cmp::Reverse(order(item)));
    }

    /// Tries all numbers of pods of the next item. Together with the pods chosen so far, which are worth `value`, pods are worth at most `limit`.
    fn visit(&mut self, limit: i128, value: i128, room: &[i64]) {
        if limit <= self.best {
            return;
        }
        self.steps += 1;
        if self.steps > STEPS_MAX {
            self.unexplored = self.unexplored.max(limit);
            return;
        }
        let Some(item) = self.items.get(self.counts.len()) else {
            if value > self.best {
                self.best = value;
                let pods = self.items.iter().zip(&self.counts);
                let pods = pods.filter(|(_, count)| **count > 0);
                self.found = Some(pods.map(|(item, count)| (item.shape, *count)).collect());
            }
            return;
        };
        let (beyond, each, requests) = (item.beyond, item.value, item.requests);
        let fitting = fitting(requests, room).min(i64::from(item.count));
        let most = u32::try_from(fitting).unwrap_or(0);
        // Every pod that is left out, or taken for less than its room, lowers the limit.
        let lowest = if beyond >= 0 { item.count - most } else { 0 };
        for step in 0..=most {
            let lowered = beyond.abs().saturating_mul(i128::from(lowest + step));
            if limit.saturating_sub(lowered) <= self.best {
                break;
            }
            let count = if beyond >= 0 { most - step } else { step };
            let left: Amounts = room
                .iter()
                .zip(requests)
                .map(|(room, request)| room - (*request).max(0) * i64::from(count))
                .collect();
            self.counts.push(count);
            let worth = value.saturating_add(each.saturating_mul(i128::from(count)));
            self.visit(limit - lowered, worth, &left);
            self.counts.pop();
        }
    }
}

/// How many pods of these requests fit.
fn fitting(requests: &Amounts, room: &[i64]) -> i64 {
    let asked = requests.iter().zip(room).filter(|(request, _)| **request > 0);
    asked.map(|(request, room)| room / request).min().unwrap_or(i64::MAX)
}
