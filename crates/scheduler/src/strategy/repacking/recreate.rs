//! Ruin and recreate: takes a few nodes apart and packs their movable pods anew, always onto the node with the highest value per dollar.

use crate::chance::Chance;
use crate::compile::classes::ClassId;
use crate::compile::templates::TemplateId;
use crate::dense::amounts::{Amounts, add, fits};
use crate::search::assignment::Assignment;
use crate::search::specs::SpecId;
use crate::strategy::pod_values::PodValues;
use crate::strategy::repacking::exact::EXACT_MAX;
use crate::strategy::repacking::filling::{Filling, Item, Start, Weights};
use crate::strategy::repacking::node::{Node, Pins, kept};
use crate::strategy::repacking::quotes::{Offer, Quotes};
use crate::strategy::repacking::rules::{Members, MoveRules, add_member};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A filling whose value per dollar is this close to the best is as good, and the one with more value wins: fewer, larger nodes.
const EQUAL_RATIO: f64 = 0.999;

/// How much a recreation differs from another one of the same nodes: it weighs pods and nodes by factors that are up to these shares away from 1.
#[derive(Clone, Copy)]
pub(super) struct Variation {
    pub(super) classes: f64,
    pub(super) nodes: f64,
}

impl Variation {
    /// Equal nodes are recreated equally.
    pub(super) const NONE: Self = Self {
        classes: 0.0,
        nodes: 0.0,
    };
}

/// Takes nodes apart and packs their pods anew.
pub(super) struct Recreator<'x, 'y, 'w, 'a> {
    pub(super) assignment: &'x mut Assignment<'w, 'a>,
    pub(super) values: &'y PodValues,
    pub(super) rules: &'y MoveRules,
    pub(super) quotes: Quotes,
    /// Steps taken so far.
    pub(super) work: u64,
    pub(super) variation: Variation,
    pub(super) chance: Chance,
}

impl Recreator<'_, '_, '_, '_> {
    /// The pods of some nodes of one template on at most `nodes_max` nodes that cost less than `price_max`, node costs included. Returns `None`
    /// where none were found.
    pub(super) fn recreate(&mut self, ruined: &[&Node], price_max: i64, nodes_max: Option<usize>) -> Option<Vec<Node>> {
        let template = ruined.first()?.template;
        let (mut items, mut starts) = self.take_apart(ruined, template)?;
        let pods: u32 = items.iter().map(|item| item.count).sum();
        if nodes_max.is_none()
            && pods <= EXACT_MAX
            && ruined.iter().all(|node| node.fixed.is_empty())
            && items.iter().all(|item| item.kept.is_empty())
        {
            let pods = items.iter().flat_map(|item| (0..item.count).map(|_| item.class));
            return self.cheapest_nodes(template, &pods.collect::<Vec<_>>());
        }
        let mut result: Vec<Node> = Vec::with_capacity(ruined.len());
        let mut price: i64 = starts.iter().map(|start| start.price).fold(0, i64::saturating_add);
        let kept = starts.iter().filter(|start| start.base.is_some()).count();
        let mut new_nodes = match nodes_max {
            Some(most) => Some(most.checked_sub(kept)?),
            None => None,
        };
        while items.iter().any(|item| item.count > 0) {
            let (at, filling) = match new_nodes {
                None => self.best_filling(&starts, &items),
                Some(left) => self.best_of_few(&starts, &items, left),
            }?;
            let start = &starts[at];
            price = price.saturating_add(filling.price - start.price);
            if price >= price_max {
                return None;
            }
            let mut loose = Members::new();
            for (item, n) in &filling.added {
                items[*item].count -= n;
                let class = items[*item].class;
                add_member(&mut loose, class, *n);
            }
            let base = start.base.map(|at| ruined[at]);
            result.push(Node {
                template,
                pins: start.pins.clone(),
                origin: base.and_then(|base| base.origin),
                fixed: base.map(|base| base.fixed.clone()).unwrap_or_default(),
                loose,
                price: filling.price,
            });
            if start.base.is_some() {
                starts.swap_remove(at);
            } else if let Some(left) = &mut new_nodes {
                *left = left.saturating_sub(1);
            }
        }
        let left = starts.iter().filter_map(|start| Some((start, ruined[start.base?])));
        result.extend(left.map(|(start, base)| Node {
            template,
            pins: start.pins.clone(),
            origin: base.origin,
            fixed: base.fixed.clone(),
            loose: Members::new(),
            price: start.price,
        }));
        Some(result)
    }

    /// The movable pods of the nodes, and the nodes that may be filled: those with pods that stay, and empty ones in the same domains.
    fn take_apart(&mut self, ruined: &[&Node], template: TemplateId) -> Option<(Vec<Item>, Vec<Start>)> {
        let mut items: BTreeMap<(ClassId, Pins), u32> = BTreeMap::new();
        let mut starts: Vec<Start> = Vec::new();
        let mut pins: Vec<Pins> = vec![Pins::new()];
        for (at, node) in ruined.iter().enumerate() {
            for (class, n) in &node.loose {
                *items
                    .entry((*class, kept(self.rules, *class, &node.pins)?))
                    .or_default() += n;
            }
            if !node.fixed.is_empty() {
                starts.push(self.base(at, node)?);
            }
            if !pins.contains(&node.pins) {
                pins.push(node.pins.clone());
            }
        }
        for pins in pins {
            let spec = Quotes::empty_spec(self.assignment, template, &pins);
            starts.push(Start {
                base: None,
                pins,
                spec,
                used: self.assignment.problem.resources.zero(),
                members: Members::new(),
                price: 0,
            });
        }
        let seed = self.chance.next();
        let items = items
            .into_iter()
            .map(|((class, kept), count)| Item {
                class,
                kept,
                count,
                weights: self.weights(class, seed),
            })
            .collect();
        Some((items, starts))
    }

    /// A node with only the pods that stay.
    fn base(&mut self, at: usize, node: &Node) -> Option<Start> {
        let (spec, used) = self.spec_with(node.template, &node.pins, &node.fixed)?;
        let price = self.quotes.price(self.assignment, spec, &used)?;
        Some(Start {
            base: Some(at),
            pins: node.pins.clone(),
            spec,
            used,
            members: node.fixed.clone(),
            price,
        })
    }

    /// The spec of a node of a template in some domains with some pods, and what these request. `None` where there is no such node.
    pub(super) fn spec_with(
        &mut self,
        template: TemplateId,
        pins: &Pins,
        members: &Members,
    ) -> Option<(SpecId, Amounts)> {
        let mut spec = Quotes::empty_spec(self.assignment, template, pins);
        let mut used = self.assignment.problem.resources.zero();
        for (class, n) in members {
            spec = Quotes::with_class(self.assignment, spec, *class)?;
            add(&mut used, &self.requests_of(*class, *n));
        }
        Some((spec, used))
    }

    /// What the requests of a class are worth, by resource. In one recreation, equal requests are worth as much.
    fn weights(&self, class: ClassId, seed: u64) -> Weights {
        let requests = self.assignment.problem.requests(class);
        let Some(prices) = self.values.unit_prices_for(class) else {
            return SmallVec::from_elem(0.0, requests.len());
        };
        let factor = Chance::of(seed, requests).factor(self.variation.classes);
        let weighed = requests.iter().zip(prices);
        weighed
            .map(|(request, price)| *request as f64 * price * factor)
            .collect()
    }

    /// Gives a node the price of the cheapest row for its pods. It keeps its price where there is none.
    pub(super) fn quote_again(&mut self, node: &mut Node) {
        let mut members = node.fixed.clone();
        for (class, n) in &node.loose {
            add_member(&mut members, *class, *n);
        }
        let with = self.spec_with(node.template, &node.pins, &members);
        let price = with.and_then(|(spec, used)| self.quotes.price(self.assignment, spec, &used));
        node.price = price.unwrap_or(node.price);
    }

    /// The filling with the highest value per dollar over all starts and rows.
    fn best_filling(&mut self, starts: &[Start], items: &[Item]) -> Option<(usize, Filling)> {
        let offers: Vec<Rc<[Offer]>> = starts
            .iter()
            .map(|start| self.quotes.offers(self.assignment, start.spec))
            .collect();
        let highest = self.highest_unit_prices(items);
        let mut tries: Vec<(f64, usize, &Offer)> = Vec::new();
        for (at, (start, offers)) in starts.iter().zip(&offers).enumerate() {
            let roomy = offers.iter().filter(|offer| fits(&start.used, &offer.room));
            tries.extend(roomy.map(|offer| (ratio_limit(start, offer, &highest), at, offer)));
        }
        tries.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut best: Option<(f64, usize, Filling)> = None;
        for (limit, at, offer) in tries {
            let limit = limit * (1.0 + self.variation.nodes);
            if best.as_ref().is_some_and(|(most, ..)| limit < most * EQUAL_RATIO) {
                break;
            }
            let start = &starts[at];
            let Some(filling) = self.fill(start, offer, items) else {
                continue;
            };
            let paid = (filling.price - start.price).max(1) as f64;
            let ratio = filling.value / paid * self.chance.factor(self.variation.nodes);
            let better = best.as_ref().is_none_or(|(most, _, known)| {
                ratio * EQUAL_RATIO > *most || (ratio > most * EQUAL_RATIO && filling.value > known.value)
            });
            if better {
                let most = best.as_ref().map_or(0.0, |best| best.0);
                best = Some((ratio.max(most), at, filling));
            }
        }
        best.map(|(_, at, filling)| (at, filling))
    }

    /// The highest unit price of each resource for any of the pods.
    fn highest_unit_prices(&self, items: &[Item]) -> Weights {
        let mut highest: Weights = SmallVec::from_elem(0.0, self.assignment.problem.resources.len());
        for item in items.iter().filter(|item| item.count > 0) {
            let prices = self.values.unit_prices_for(item.class).into_iter().flatten();
            for (highest, price) in highest.iter_mut().zip(prices) {
                *highest = highest.max(*price);
            }
        }
        highest
    }

    /// What some pods of a class request together.
    pub(super) fn requests_of(&self, class: ClassId, count: u32) -> Amounts {
        let requests = self.assignment.problem.requests(class).iter();
        requests.map(|one| one.saturating_mul(i64::from(count))).collect()
    }

    /// The value of a pod of a class, in 10⁻¹² dollars per hour.
    pub(super) fn pod_value(&self, class: ClassId) -> f64 {
        self.values.by_class[class].map_or(0.0, |(_, value)| value)
    }
}

/// The highest value per dollar that a filling may have: all that is left of the row, at the highest unit price for any pod. A filling that fits a
/// cheaper row is found there.
fn ratio_limit(start: &Start, offer: &Offer, highest: &[f64]) -> f64 {
    let left = offer
        .room
        .iter()
        .zip(&start.used)
        .map(|(room, used)| room.saturating_sub(*used));
    let value: f64 = left.zip(highest).map(|(left, price)| left as f64 * price).sum();
    value / offer.price.saturating_sub(start.price).max(1) as f64
}
