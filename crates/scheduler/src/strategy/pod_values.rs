//! The value of pods, by class: their requests at the unit prices of the spec a new claim for them has.

use crate::compile::catalogue::TypeRow;
use crate::compile::classes::{ClassId, PodClass};
use crate::compile::queue::PodId;
use crate::dense::amounts::Amounts;
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use crate::search::allowed::AllowedPlacement;
use crate::search::assignment::Assignment;
use crate::search::specs::SpecId;
use crate::strategy::lp_duals::{PricedType, UnitPrices, priced_types, unit_prices, value_of};
use crate::strategy::objective::NodeCosts;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The value of pods, by class.
pub(crate) struct PodValues {
    pub(super) by_class: IdVec<PodClass, Option<(SpecId, f64)>>,
    pub(super) unit_prices: FxHashMap<SpecId, UnitPrices>,
    pub(super) priced_types: FxHashMap<SpecId, Vec<PricedType>>,
    /// What a node counts in addition to its price. The values of pods cover it.
    pub(super) node_costs: NodeCosts,
    /// After this much work, every growth pays.
    pub(super) effort: u64,
}

impl PodValues {
    /// Values every class of the queue by the spec of a new claim for it.
    pub(crate) fn new(
        assignment: &mut Assignment<'_, '_>,
        queue: &[PodId],
        effort: u64,
        node_costs: NodeCosts,
    ) -> Self {
        let problem = assignment.problem;
        let mut counts: BTreeMap<ClassId, i64> = BTreeMap::new();
        for class in queue.iter().filter_map(|pod| problem.of_pod[*pod]) {
            *counts.entry(class).or_default() += 1;
        }
        let mut demand: BTreeMap<SpecId, (Amounts, IdSet<TypeRow>)> = BTreeMap::new();
        let mut specs: IdVec<PodClass, Option<SpecId>> = IdVec::filled(None, problem.classes.len());
        for (class, count) in counts {
            let Some((spec, rows)) = start(assignment, class) else {
                continue;
            };
            specs[class] = Some(spec);
            let (sum, all) = demand
                .entry(spec)
                .or_insert_with(|| (problem.resources.zero(), IdSet::default()));
            for (sum, amount) in sum.iter_mut().zip(problem.requests(class)) {
                *sum = sum.saturating_add(amount.saturating_mul(count));
            }
            all.or(&rows);
        }
        let mut values = Self {
            by_class: IdVec::new(),
            unit_prices: FxHashMap::default(),
            priced_types: FxHashMap::default(),
            node_costs,
            effort,
        };
        for (spec, (sum, rows)) in demand {
            let priced_types = priced_types(assignment, spec, &rows, &values.node_costs);
            values.unit_prices.insert(spec, unit_prices(&priced_types, &sum));
            values.priced_types.insert(spec, priced_types);
        }
        let of = |class: ClassId| {
            let spec = specs[class]?;
            Some((spec, value_of(&values.unit_prices[&spec], problem.requests(class))))
        };
        values.by_class = specs.ids().map(of).collect();
        values
    }

    /// The unit prices for a class. Returns `None` where it fits no new claim.
    pub(crate) fn unit_prices_for(&self, class: ClassId) -> Option<&UnitPrices> {
        let (spec, _) = self.by_class[class]?;
        self.unit_prices.get(&spec)
    }
}

/// The spec and rows of a new claim for a class in the first pool that accepts it, before topology.
fn start(assignment: &mut Assignment<'_, '_>, class: ClassId) -> Option<(SpecId, IdSet<TypeRow>)> {
    let problem = assignment.problem;
    let allowed = AllowedPlacement::default();
    let query = assignment.query(class, 0, &allowed)?;
    problem
        .templates
        .ids()
        .find_map(|template| assignment.check_template(&query, template).ok())
        .map(|narrowed| (narrowed.spec, narrowed.rows))
}
