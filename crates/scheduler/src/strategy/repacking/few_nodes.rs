//! Fillings for pods that must find room on a few nodes.

use crate::dense::amounts::{Amounts, add, fits, subtract};
use crate::search::specs::SpecId;
use crate::strategy::repacking::filling::{Filling, Item, Start};
use crate::strategy::repacking::quotes::Quotes;
use crate::strategy::repacking::recreate::Recreator;

/// The pods that are still to be placed, together.
struct Rest {
    requests: Amounts,
    value: f64,
    /// The spec of a node with all of them. `None` where there is none.
    spec: Option<SpecId>,
}

impl Recreator<'_, '_, '_, '_> {
    /// The filling with which a few nodes are expected to cost least: its own cost, and that of the pods it leaves. Where
    /// one node is left for these, they cost what that node costs, else their value.
    pub(super) fn best_of_few(
        &mut self,
        starts: &[Start],
        items: &[Item],
        new_nodes: usize,
    ) -> Option<(usize, Filling)> {
        let rest = self.rest(starts, items);
        let kept = starts.iter().filter(|start| start.base.is_some()).count();
        let mut best: Option<(i64, usize, Filling)> = None;
        for (at, start) in starts.iter().enumerate() {
            let is_new = start.base.is_none();
            if is_new && new_nodes == 0 {
                continue;
            }
            let left = kept + new_nodes - 1;
            let offers = self.quotes.offers(self.assignment, start.spec);
            for offer in offers.iter().filter(|offer| fits(&start.used, &offer.room)) {
                let Some(filling) = self.fill(start, offer, items) else {
                    continue;
                };
                let Some(of_rest) = self.price_of_rest(&rest, start, &filling, left) else {
                    continue;
                };
                let cost = (filling.price - start.price).saturating_add(of_rest);
                if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    best = Some((cost, at, filling));
                }
            }
        }
        best.map(|(_, at, filling)| (at, filling))
    }

    /// All pods that are still to be placed.
    fn rest(&mut self, starts: &[Start], items: &[Item]) -> Rest {
        let mut requests = self.assignment.problem.resources.zero();
        let mut value = 0.0;
        // The first start without pods may be in any domain.
        let mut spec = starts.iter().find(|start| start.base.is_none()).map(|start| start.spec);
        for item in items.iter().filter(|item| item.count > 0) {
            add(&mut requests, &self.requests_of(item.class, item.count));
            value += self.pod_value(item.class) * f64::from(item.count);
            spec = spec.and_then(|spec| Quotes::with_class(self.assignment, spec, item.class));
        }
        Rest { requests, value, spec }
    }

    /// What the pods cost that a filling leaves, with this many nodes for them, in 10⁻¹² dollars per hour. `None` where they find no room.
    fn price_of_rest(&mut self, rest: &Rest, start: &Start, filling: &Filling, nodes: usize) -> Option<i64> {
        let mut requests = rest.requests.clone();
        subtract(&mut requests, &filling.used);
        add(&mut requests, &start.used);
        if requests.iter().all(|amount| *amount <= 0) {
            return Some(0);
        }
        match (nodes, rest.spec) {
            (0, _) => None,
            (1, Some(spec)) => self.quotes.price(self.assignment, spec, &requests),
            _ => Some((rest.value - filling.value).max(0.0) as i64),
        }
    }
}
