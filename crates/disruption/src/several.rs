//! Replacing nodes by several that cost less together, where no single one does (deviation at DIS-131).

use crate::candidate::Candidate;
use crate::command::Command;
use crate::consolidation::{Consolidation, replace};
use crate::simulation::Simulation;
use kerf_model::instance_type::allocatable;
use kerf_model::plan::Launch;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use kerf_units::policy::Replacements;

/// The largest number of replacements of a command.
const REPLACEMENTS_MAX: usize = 3;
/// Sets of nodes with more pods are not tried: packing them takes too long.
const PODS_MAX: usize = 300;
/// A command must save at least the price of its nodes divided by this number, or more if the option says so. Less is not worth the pods' moves.
const SAVINGS_PARTS: i64 = 10;

impl Consolidation<'_> {
    /// The command with several replacements that together cost less than `limit`, which is at most the price of the nodes that go. `one` is
    /// the simulation that found no single replacement.
    pub(crate) fn several(&self, candidates: &[&Candidate], limit: Price, one: &Simulation) -> Option<Command> {
        let pods: usize = candidates.iter().map(|candidate| candidate.pods.len()).sum();
        let priced = candidates.iter().all(|candidate| candidate.price > Price::ZERO);
        let before: Price = candidates.iter().map(|candidate| candidate.price).sum();
        let most = limit.min(Price::from_pico(before.pico() - before.pico() / SAVINGS_PARTS));
        if self.settings.replacements == Replacements::One
            || !priced
            || pods > PODS_MAX
            || filled_part(self.what_if.snapshot(), &one.plan.launches) >= most
        {
            return None;
        }
        let simulation = self.what_if.without_for_several(candidates).ok()?;
        let launches = &simulation.plan.launches;
        if simulation.failure().is_some() || !(2..=REPLACEMENTS_MAX).contains(&launches.len()) {
            return None;
        }
        let replacements = self.cheaper_together(launches, most, candidates)?;
        Some(replace(candidates, simulation.plan, replacements))
    }

    /// The launches, each narrowed to types that cost less than its part of `most`, in proportion to its price. Each launch beyond the number
    /// of candidates also costs the overhead of a node. `None` if the launches cost too much.
    fn cheaper_together(&self, launches: &[Launch], most: Price, candidates: &[&Candidate]) -> Option<Vec<Launch>> {
        let prices: Option<Vec<Price>> = launches.iter().map(Launch::price).collect();
        let prices = prices?;
        let overhead = |launch: &Launch| self.what_if.node_overhead(&launch.pool);
        let more = launches.iter().skip(candidates.len()).map(overhead).sum();
        let together: Price = prices.iter().copied().sum();
        let left = most - more - together;
        if left <= Price::ZERO || together == Price::ZERO {
            return None;
        }
        let narrowed = launches.iter().zip(prices).map(|(launch, price)| {
            let part = i128::from(left.pico()) * i128::from(price.pico()) / i128::from(together.pico());
            let limit = price + Price::from_pico(i64::try_from(part).unwrap_or(i64::MAX));
            self.cheaper(launch, limit, candidates).ok()
        });
        narrowed.collect()
    }
}

/// The price of the part of new nodes that their pods fill: no set of nodes of these types costs much less.
fn filled_part(snapshot: &Snapshot, launches: &[Launch]) -> Price {
    launches.iter().map(|launch| of_launch(snapshot, launch)).sum()
}

fn of_launch(snapshot: &Snapshot, launch: &Launch) -> Price {
    let kind = launch
        .cheapest
        .and_then(|(number, _)| launch.catalogue.types.get(number as usize));
    let (Some(kind), Some(price)) = (kind, launch.price()) else {
        return Price::MAX;
    };
    let huge = |name| snapshot.interner.text(name).starts_with("hugepages-");
    let room = allocatable(&kind.capacity, &kind.overhead, huge);
    let filled = launch.requests.iter().map(|(name, amount)| match room.get(name) {
        0 => 1.0,
        room => amount as f64 / room as f64,
    });
    let filled = filled.fold(0.0, f64::max).min(1.0);
    Price::from_pico((price.pico() as f64 * filled) as i64)
}
