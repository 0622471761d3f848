//! The objective: which of several outcomes is best, given what nodes cost besides their price and how many nodes the greedy needs.

use crate::compile::problem::Problem;
use crate::compile::templates::{Template, TemplateId};
use crate::dense::ids::IdVec;
use crate::ranking::overhead_in;
use crate::strategy::outcome::Outcome;
use kerf_model::price::Price;
use kerf_units::policy::Packing;
use std::cmp::Reverse;
use std::sync::Arc;

/// What a node counts in addition to its price, in 10⁻¹² dollars per hour.
pub(crate) type NodeCosts = Arc<IdVec<Template, i64>>;

/// A plan may have this many times the nodes of the greedy ...
const NODES_FACTOR: f64 = 1.5;
/// ... or this many more, whichever is more: a factor alone leaves small plans no choice.
const NODES_MORE: usize = 3;
/// A node beyond that number must save this share of what a node of the greedy costs on average.
const EXTRA_NODE_SHARE: f64 = 0.5;

/// Where plans are chosen by what they cost once their pods are bound, a plan may before that be dearer than the greedy's by one part in this
/// many. docs/packing.md has the rule.
const DEARER_PARTS: i64 = 20;

/// The number of nodes that a balanced plan may have without further savings where the greedy has `nodes`. docs/packing.md has the rule.
pub fn balanced_nodes_max(nodes: usize) -> usize {
    ((nodes as f64 * NODES_FACTOR) as usize).max(nodes + NODES_MORE)
}

/// The order of outcomes: more placed pods first, then the lower cost. An outcome that is dearer than the greedy comes after it.
pub(crate) type Rank = (Reverse<u64>, bool, Price);

/// The measure by which outcomes are compared.
#[derive(Clone, Debug)]
pub(crate) struct Objective {
    packings: IdVec<Template, Packing>,
    /// What a node costs besides its price.
    overheads: NodeCosts,
    /// The number of nodes beyond which each must save `extra_node`.
    nodes_max: usize,
    extra_node: Price,
    /// The pods the greedy places, and the price of its plan.
    greedy: (u64, Price),
}

/// What a search aims at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aim {
    /// The packing of each pool.
    Configured,
    /// Balanced packing in pools with cheapest packing: larger nodes, which now and then are the cheaper ones.
    BalancedForCheapest,
}

impl Aim {
    /// The way to pack, by template.
    fn packings(self, problem: &Problem<'_>) -> IdVec<Template, Packing> {
        let pools = problem.templates.iter().map(|template| &template.pool.packing);
        let configured = pools.map(|pool| pool.packing.unwrap_or(problem.options.packing));
        configured
            .map(|packing| match (self, packing) {
                (Self::BalancedForCheapest, Packing::Cheapest) => Packing::Balanced,
                _ => packing,
            })
            .collect()
    }

    /// Returns whether it differs from what is configured.
    pub(crate) fn differs(self, problem: &Problem<'_>) -> bool {
        self.packings(problem) != Self::Configured.packings(problem)
    }
}

impl Objective {
    /// The objective of a problem whose greedy outcome this is.
    pub(crate) fn new(problem: &Problem<'_>, greedy: &mut Outcome<'_, '_>, aim: Aim) -> Self {
        let packings = aim.packings(problem);
        let options = problem.options;
        let pools = problem.templates.iter().map(|template| &template.pool);
        let overheads = pools.zip(&packings);
        let overheads = overheads.map(|(pool, packing)| overhead_in(pool, *packing, options).pico());
        let overheads = Arc::new(overheads.collect());
        let price = greedy.assignment.cost();
        let mut objective = Self {
            packings,
            overheads,
            nodes_max: usize::MAX,
            extra_node: Price::ZERO,
            greedy: (greedy.assignment.placed, price),
        };
        let nodes = objective.balanced_nodes(greedy);
        if objective.packings.iter().any(|packing| *packing == Packing::Balanced) {
            let mean = price.pico() as f64 / greedy.assignment.claims.len().max(1) as f64;
            objective.nodes_max = balanced_nodes_max(nodes);
            objective.extra_node = Price::from_pico((mean * EXTRA_NODE_SHARE) as i64);
        }
        objective
    }

    /// The number of nodes in pools with balanced packing.
    fn balanced_nodes(&self, outcome: &Outcome<'_, '_>) -> usize {
        let claims = outcome.assignment.claims.iter();
        claims
            .filter(|claim| self.packings[claim.template] == Packing::Balanced)
            .count()
    }

    /// Returns whether an outcome launches a node in a pool with the packing of upstream.
    pub(crate) fn launches_as_upstream(&self, outcome: &Outcome<'_, '_>) -> bool {
        let mut claims = outcome.assignment.claims.iter();
        claims.any(|claim| self.packings[claim.template] == Packing::Upstream)
    }

    /// The rank of an outcome.
    pub(crate) fn rank(&self, outcome: &mut Outcome<'_, '_>) -> Rank {
        self.rank_up_to(outcome, self.greedy.1)
    }

    /// The rank of an outcome to which the cost of the second round is added. Up to a share, it may be dearer than the greedy's.
    pub(crate) fn rank_before_binding(&self, outcome: &mut Outcome<'_, '_>) -> Rank {
        let price = self.greedy.1.pico();
        let most = price.saturating_add(price / DEARER_PARTS);
        self.rank_up_to(outcome, Price::from_pico(most))
    }

    /// The rank of an outcome that is dear if its price is above `most` for as many pods as the greedy places.
    fn rank_up_to(&self, outcome: &mut Outcome<'_, '_>, most: Price) -> Rank {
        let balanced_nodes = self.balanced_nodes(outcome);
        let assignment = &mut outcome.assignment;
        let price = assignment.cost();
        let overhead: Price = assignment
            .claims
            .iter()
            .map(|claim| Price::from_pico(self.overheads[claim.template]))
            .sum();
        let extra = Price::from_pico(self.surcharge(balanced_nodes));
        let dearer = assignment.placed == self.greedy.0 && price > most;
        (Reverse(assignment.placed), dearer, price + overhead + extra)
    }

    /// Returns whether nodes of a template count towards the number of nodes.
    pub(crate) fn counts(&self, template: TemplateId) -> bool {
        self.packings[template] == Packing::Balanced
    }

    /// How many nodes a plan may have beside this many counted ones without further savings. `None` where their number is not bounded.
    pub(crate) fn nodes_beside(&self, others: usize) -> Option<usize> {
        (self.nodes_max < usize::MAX).then(|| self.nodes_max.saturating_sub(others))
    }

    /// What this many counted nodes must save beyond their price, in 10⁻¹² dollars per hour.
    pub(crate) fn surcharge(&self, nodes: usize) -> i64 {
        let extra = nodes.saturating_sub(self.nodes_max);
        self.extra_node.pico().saturating_mul(extra as i64)
    }

    /// What strategies add to the price of a node: its overhead and a share of what an extra node must save.
    pub(crate) fn node_costs(&self, share_of_extra: f64) -> NodeCosts {
        let extra = (self.extra_node.pico() as f64 * share_of_extra) as i64;
        let of_each = self.packings.iter().zip(self.overheads.iter());
        let costs = of_each.map(|(packing, overhead)| match packing {
            Packing::Balanced => overhead.saturating_add(extra),
            Packing::Cheapest | Packing::Upstream => 0,
        });
        Arc::new(costs.collect())
    }

    /// Returns whether an outcome has more nodes than a plan may have without further savings.
    pub(crate) fn exceeded_by(&self, outcome: &Outcome<'_, '_>) -> bool {
        self.balanced_nodes(outcome) > self.nodes_max
    }
}
