//! Ruin and recreate: takes a few nodes apart and packs their movable pods anew, always onto the node with the highest value per dollar.

use crate::compile::catalogue::RowId;
use crate::compile::classes::ClassId;
use crate::compile::problem::Problem;
use crate::compile::templates::TemplateId;
use crate::dense::amounts::{Amounts, add, fits, subtract};
use crate::search::assignment::Assignment;
use crate::search::specs::SpecId;
use crate::strategy::lp_duals::value_of;
use crate::strategy::pod_values::PodValues;
use crate::strategy::repacking::exact::EXACT_MAX;
use crate::strategy::repacking::node::{Node, Pins, kept};
use crate::strategy::repacking::quotes::{Offer, Quotes};
use crate::strategy::repacking::rules::{Members, MoveRules, add_member};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Of the pods of one class that would fit a node, this fraction is added at once. Smaller steps mix classes better and take longer.
const STEP: i64 = 8;
/// The largest number of rows tried for a node.
const ROWS_MAX: usize = 24;
/// A filling whose value per dollar is this close to the best is as good, and the one with more value wins: fewer, larger nodes.
const EQUAL_RATIO: f64 = 0.999;

/// Pods of one class that may move, and the domains their node must be in.
pub(super) struct Item {
    pub(super) class: ClassId,
    kept: Pins,
    pub(super) count: u32,
}

/// A node before it is filled.
pub(super) struct Start {
    /// The node with the pods that stay, if it is an existing one.
    pub(super) base: Option<usize>,
    pins: Pins,
    pub(super) spec: SpecId,
    pub(super) used: Amounts,
    members: Members,
    /// What it costs without further pods.
    pub(super) price: i64,
}

/// A node filled with pods.
pub(super) struct Filling {
    added: SmallVec<[(usize, u32); 6]>,
    pub(super) used: Amounts,
    pub(super) price: i64,
    pub(super) value: f64,
}

/// Takes nodes apart and packs their pods anew.
pub(super) struct Recreator<'x, 'y, 'w, 'a> {
    pub(super) assignment: &'x mut Assignment<'w, 'a>,
    pub(super) values: &'y PodValues,
    pub(super) rules: &'y MoveRules,
    pub(super) quotes: Quotes,
    /// Steps taken so far.
    pub(super) work: u64,
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
        let items = items
            .into_iter()
            .map(|((class, kept), count)| Item { class, kept, count })
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

    /// The filling with the highest value per dollar over all starts and rows.
    fn best_filling(&mut self, starts: &[Start], items: &[Item]) -> Option<(usize, Filling)> {
        let mut best: Option<(f64, usize, Filling)> = None;
        for (at, start) in starts.iter().enumerate() {
            let offers = self.quotes.offers(self.assignment, start.spec);
            let roomy = offers.iter().filter(|offer| fits(&start.used, &offer.room));
            for offer in roomy.take(ROWS_MAX) {
                let Some(filling) = self.fill(start, offer, items) else {
                    continue;
                };
                let paid = (filling.price - start.price).max(1) as f64;
                let ratio = filling.value / paid;
                let better = best.as_ref().is_none_or(|(most, _, known)| {
                    ratio * EQUAL_RATIO > *most || (ratio > most * EQUAL_RATIO && filling.value > known.value)
                });
                if better {
                    let most = best.as_ref().map_or(0.0, |best| best.0);
                    best = Some((ratio.max(most), at, filling));
                }
            }
        }
        best.map(|(_, at, filling)| (at, filling))
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
        loop {
            candidates.retain(|(at, n)| *n > 0 && fits(problem.requests(items[*at].class), &left));
            self.work += 1 + candidates.len() as u64 / 4;
            let score = |at: usize| self.alignment(problem, items[at].class, &left, &offer.room);
            let best = candidates
                .iter()
                .enumerate()
                .map(|(position, (at, _))| (score(*at), position));
            let Some((_, position)) = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))) else {
                break;
            };
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

    /// How well the requests of a class match what is left of a row.
    fn alignment(&self, problem: &Problem<'_>, class: ClassId, left: &[i64], room: &[i64]) -> f64 {
        let requests = problem.requests(class);
        let Some(unit_prices) = self.values.unit_prices_for(class) else {
            return 0.0;
        };
        let mut sum = 0.0;
        for (at, request) in requests.iter().enumerate() {
            if room[at] > 0 {
                sum += unit_prices[at] * *request as f64 * (left[at] as f64 / room[at] as f64);
            }
        }
        if sum > 0.0 {
            sum
        } else {
            value_of(unit_prices, requests)
        }
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
