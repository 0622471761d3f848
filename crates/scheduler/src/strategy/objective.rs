//! The objective: which of several outcomes is best, given what nodes cost besides their price and how many nodes the greedy needs.

use crate::compile::problem::Problem;
use crate::strategy::outcome::Outcome;
use kerf_model::price::Price;
use kerf_units::policy::Packing;
use std::cmp::Reverse;
use std::sync::Arc;

/// What a node counts in addition to its price, by template, in 10⁻¹² dollars per hour.
pub(crate) type NodeCosts = Arc<[i64]>;

/// A plan may have this many times the nodes of the greedy ...
const NODES_FACTOR: f64 = 1.5;
/// ... or this many more, whichever is more: a factor alone leaves small plans no choice.
const NODES_MORE: usize = 3;
/// A node beyond that number must save this share of what a node of the greedy costs on average.
const EXTRA_NODE_SHARE: f64 = 0.5;

/// The order of outcomes: more placed pods first, then the lower cost. An outcome that is dearer than the greedy comes after it.
pub(crate) type Rank = (Reverse<u64>, bool, Price);

/// What outcomes are judged by.
#[derive(Clone, Debug)]
pub(crate) struct Objective {
    /// What a node costs besides its price, by template.
    overheads: NodeCosts,
    /// The number of nodes beyond which each must save `extra_node`.
    nodes_max: usize,
    extra_node: Price,
    /// The pods the greedy places, and the price of its plan.
    greedy: (u64, Price),
}

impl Objective {
    /// The objective of a problem whose greedy outcome this is.
    pub(crate) fn new(problem: &Problem<'_>, greedy: &mut Outcome<'_, '_>) -> Self {
        let (nodes, price) = (greedy.assignment.claims.len(), greedy.assignment.cost());
        let balanced = problem.options.packing == Packing::Balanced;
        let overhead = if balanced {
            problem.options.node_overhead.pico()
        } else {
            0
        };
        let (nodes_max, extra_node) = if balanced {
            let mean = price.pico() as f64 / nodes.max(1) as f64;
            let most = (nodes as f64 * NODES_FACTOR) as usize;
            (
                most.max(nodes + NODES_MORE),
                Price::from_pico((mean * EXTRA_NODE_SHARE) as i64),
            )
        } else {
            (usize::MAX, Price::ZERO)
        };
        Self {
            overheads: problem.templates.iter().map(|_| overhead).collect(),
            nodes_max,
            extra_node,
            greedy: (greedy.assignment.placed, price),
        }
    }

    /// The rank of an outcome.
    pub(crate) fn rank(&self, outcome: &mut Outcome<'_, '_>) -> Rank {
        let assignment = &mut outcome.assignment;
        let price = assignment.cost();
        let overhead: Price = assignment
            .claims
            .iter()
            .map(|claim| Price::from_pico(self.overheads[claim.template]))
            .sum();
        let extra = assignment.claims.len().saturating_sub(self.nodes_max);
        let extra = Price::from_pico(self.extra_node.pico().saturating_mul(extra as i64));
        let dearer = assignment.placed == self.greedy.0 && price > self.greedy.1;
        (Reverse(assignment.placed), dearer, price + overhead + extra)
    }

    /// What strategies add to the price of a node: its overhead and a share of what an extra node must save.
    pub(crate) fn node_costs(&self, share_of_extra: f64) -> NodeCosts {
        let extra = (self.extra_node.pico() as f64 * share_of_extra) as i64;
        self.overheads
            .iter()
            .map(|overhead| overhead.saturating_add(extra))
            .collect()
    }

    /// Returns whether an outcome has more nodes than a plan may have without further savings.
    pub(crate) fn exceeded_by(&self, outcome: &Outcome<'_, '_>) -> bool {
        outcome.assignment.claims.len() > self.nodes_max
    }
}
