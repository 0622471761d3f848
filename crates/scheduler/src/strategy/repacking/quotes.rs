//! The cheapest row for the pods of a node.

use crate::compile::catalogue::RowId;
use crate::compile::classes::ClassId;
use crate::compile::templates::TemplateId;
use crate::dense::amounts::{Amounts, fits};
use crate::search::assignment::Assignment;
use crate::search::specs::SpecId;
use crate::strategy::objective::NodeCosts;
use crate::strategy::repacking::node::Pins;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// A row of a spec that no cheaper row replaces.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// The price plus the node cost, in 10⁻¹² dollars per hour.
    pub(super) price: i64,
    pub(super) row: RowId,
    /// What pods may use.
    pub(super) room: Amounts,
}

/// How much of an amount may be used if a share of it stays free.
pub(super) fn filled_up_to(usable: i64, free_share: f64) -> i64 {
    let usable = usable.max(0);
    usable - (usable as f64 * free_share) as i64
}

/// The offers of each spec, computed on first use.
pub(super) struct Quotes {
    node_costs: NodeCosts,
    /// The share of each resource of a node that stays free.
    free_share: f64,
    by_spec: FxHashMap<SpecId, Rc<[Offer]>>,
}

impl Quotes {
    pub(super) fn new(node_costs: NodeCosts, free_share: f64) -> Self {
        Self {
            node_costs,
            free_share,
            by_spec: FxHashMap::default(),
        }
    }

    /// The rows of a spec, cheapest first, without those that have less of everything than a cheaper one.
    pub(super) fn offers(&mut self, assignment: &mut Assignment<'_, '_>, spec: SpecId) -> Rc<[Offer]> {
        if let Some(known) = self.by_spec.get(&spec) {
            return Rc::clone(known);
        }
        let problem = assignment.problem;
        let template = assignment.specs.get(spec).template;
        let rows = assignment.specs.get(spec).rows.clone();
        let mut offers: Vec<Offer> = Vec::new();
        for (price, row, _) in assignment.specs.offers_by_price(problem, spec) {
            let row = *row;
            if !rows.get(row) {
                continue;
            }
            let usable = problem.usable(template, row);
            let room: Amounts = usable.map(|usable| filled_up_to(usable, self.free_share)).collect();
            let no_more = |known: &Offer| room.iter().zip(&known.room).all(|(mine, known)| mine <= known);
            if !offers.iter().any(no_more) {
                let price = price.pico().saturating_add(self.node_costs[template]);
                offers.push(Offer { price, row, room });
            }
        }
        let offers: Rc<[Offer]> = offers.into();
        self.by_spec.insert(spec, Rc::clone(&offers));
        offers
    }

    /// The lowest price of a node of a spec that holds these amounts.
    pub(super) fn price(&mut self, assignment: &mut Assignment<'_, '_>, spec: SpecId, used: &[i64]) -> Option<i64> {
        let offers = self.offers(assignment, spec);
        let first = offers.iter().find(|offer| fits(used, &offer.room));
        first.map(|offer| offer.price)
    }

    /// The spec of an empty node of a template in some domains.
    pub(super) fn empty_spec(assignment: &mut Assignment<'_, '_>, template: TemplateId, pins: &Pins) -> SpecId {
        let problem = assignment.problem;
        let mut spec = assignment.instance.initial_spec(template);
        for (key, domain) in pins {
            spec = assignment.specs.with_domain(problem, spec, *key, *domain);
        }
        spec
    }

    /// A spec with the requirements of a class added.
    pub(super) fn with_class(assignment: &mut Assignment<'_, '_>, spec: SpecId, class: ClassId) -> Option<SpecId> {
        let problem = assignment.problem;
        let level = problem.class(class).levels.first()?;
        assignment.specs.with_requirements(problem, spec, level.full)
    }
}
