//! What the strategies that use unit prices share.

use crate::compile::queue::PodId;
use crate::search::assignment::Assignment;
use crate::search::instance::Instance;
use crate::strategy::objective::NodeCosts;
use crate::strategy::pod_values::PodValues;

/// The start of strategies that use unit prices.
pub(super) struct PricedStart<'w, 'a> {
    pub(super) assignment: Assignment<'w, 'a>,
    pub(super) values: PodValues,
}

impl<'w, 'a> PricedStart<'w, 'a> {
    pub(super) fn new(instance: &'w Instance<'a>, queue: &[PodId], effort: u64, node_costs: NodeCosts) -> Self {
        let mut assignment = Assignment::by_price(instance);
        assignment.use_limits_by_cheapest_row(queue.len());
        let values = PodValues::new(&mut assignment, queue, effort, node_costs);
        Self { assignment, values }
    }
}
