//! The entry point: chooses which nodes are taken apart, and keeps what is cheaper.

use crate::chance::Chance;
use crate::compile::queue::PodId;
use crate::strategy::objective::Objective;
use crate::strategy::outcome::{Outcome, Stop};
use crate::strategy::portfolio::PRICED_PODS_MAX;
use crate::strategy::priced_start::PricedStart;
use crate::strategy::repacking::exact::EXACT_MAX;
use crate::strategy::repacking::node::{Node, nodes};
use crate::strategy::repacking::quotes::Quotes;
use crate::strategy::repacking::recreate::{Recreator, Variation};
use crate::strategy::repacking::replay::replay;
use crate::strategy::repacking::rules::MoveRules;
use rustc_hash::FxHashSet;

/// The work of taking nodes apart: so much for a plan, and so much more for each pod ...
const WORK_MIN: u64 = 4_000;
const WORK_PER_POD: u64 = 1_600;
/// ... but no more than this part of the effort of a strategy.
const EFFORT_DIVISOR: u64 = 4;
/// The same for more than [`PRICED_PODS_MAX`] pods, whose plans take long without it.
const EFFORT_DIVISOR_LARGE: u64 = 16;
/// The number of nodes taken apart together, in turn.
const SIZES: [usize; 6] = [1, 2, 2, 3, 2, 4];
/// Nodes with more movable pods together than this are not taken apart.
const PODS_MAX: u32 = 1500;
/// The search ends when each node was taken apart this often in a row, with others, and nothing was found.
const SWEEPS_IN_VAIN: usize = 30;
/// The first sweep makes the best of each node. Later ones vary, and find other nodes for pods that were taken apart together before.
const VARIATION: Variation = Variation {
    classes: 0.4,
    nodes: 0.03,
};

/// An outcome with the pods of another one on cheaper nodes. Returns `None` where none was found.
pub(in crate::strategy) fn repack<'w, 'a>(
    outcome: &Outcome<'w, 'a>,
    start: &PricedStart<'w, 'a>,
    objective: &Objective,
    queue: &[PodId],
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    repack_leaving(0.0, outcome, start, objective, queue, stop)
}

/// [`repack`], leaving a share of each node free. With a share, there is a result even if no nodes were found that cost less.
pub(super) fn repack_leaving<'w, 'a>(
    free_share: f64,
    outcome: &Outcome<'w, 'a>,
    start: &PricedStart<'w, 'a>,
    objective: &Objective,
    queue: &[PodId],
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let problem = outcome.assignment.problem;
    let mut assignment = outcome.assignment.clone();
    let rules = MoveRules::new(problem);
    let node_costs = objective.node_costs(0.0);
    let relaxed: FxHashSet<PodId> = assignment.relaxed_pods.iter().map(|(pod, _)| *pod).collect();
    let relaxed_on: FxHashSet<_> = assignment
        .claims
        .entries()
        .flat_map(|(at, claim)| claim.pods.iter().map(move |pod| (at, *pod)))
        .filter(|(_, pod)| relaxed.contains(pod))
        .filter_map(|(at, pod)| Some((at, problem.of_pod[pod]?)))
        .collect();
    let stays = |at, class| relaxed_on.contains(&(at, class));
    let mut nodes = nodes(&mut assignment, &rules, &node_costs, stays);
    let mut recreator = Recreator {
        assignment: &mut assignment,
        values: &start.values,
        rules: &rules,
        quotes: Quotes::new(node_costs, free_share),
        work: 0,
        variation: Variation::NONE,
        // A fixed seed: equal input gives equal plans.
        chance: Chance::new(0),
    };
    let in_proportion = WORK_MIN + WORK_PER_POD * queue.len() as u64;
    let divisor = if queue.len() > PRICED_PODS_MAX {
        EFFORT_DIVISOR_LARGE
    } else {
        EFFORT_DIVISOR
    };
    let effort = in_proportion.min(problem.options.effort / divisor);
    let leaves_room = free_share > 0.0;
    if leaves_room {
        nodes.iter_mut().for_each(|node| recreator.quote_again(node));
    }
    let joined = recreator.join(&mut nodes, objective);
    let improved = improve(&mut recreator, &mut nodes, objective, effort, stop);
    if !improved && !joined && !leaves_room {
        return None;
    }
    replay(outcome, start, &nodes, &rules, queue, stop)
}

/// Takes nodes apart while that finds cheaper ones and work is left. Returns whether any was found.
fn improve(
    recreator: &mut Recreator<'_, '_, '_, '_>,
    nodes: &mut Vec<Node>,
    objective: &Objective,
    effort: u64,
    stop: Stop<'_>,
) -> bool {
    let mut improved = false;
    let mut all: Vec<usize> = (0..nodes.len()).collect();
    if nodes.iter().map(Node::movable).sum::<u32>() <= EXACT_MAX
        && nodes.iter().all(|node| node.template == nodes[0].template)
        && let Some(better) = better(recreator, nodes, &mut all, objective)
    {
        replace(nodes, all, better);
        improved = true;
    }
    let mut in_vain = 0;
    for sweep in 0.. {
        let mut found = false;
        for turn in 0..nodes.len() {
            if recreator.work > effort || stop() || nodes.is_empty() {
                return improved;
            }
            let first = turn.min(nodes.len() - 1);
            if nodes[first].movable() == 0 {
                continue;
            }
            let size = SIZES[(turn + sweep) % SIZES.len()];
            let mut ruined = choose(nodes, first, size, &mut recreator.chance);
            if let Some(better) = better(recreator, nodes, &mut ruined, objective) {
                replace(nodes, ruined, better);
                found = true;
            }
        }
        improved |= found;
        in_vain = if found { 0 } else { in_vain + 1 };
        if in_vain >= SWEEPS_IN_VAIN {
            break;
        }
        recreator.variation = VARIATION;
    }
    improved
}

/// Puts other nodes in the place of some.
fn replace(nodes: &mut Vec<Node>, mut gone: Vec<usize>, others: Vec<Node>) {
    gone.sort_unstable_by(|a, b| b.cmp(a));
    for at in gone {
        nodes.swap_remove(at);
    }
    nodes.extend(others);
}

/// A node and others of its template, at most `size` with movable pods.
fn choose(nodes: &[Node], first: usize, size: usize, chance: &mut Chance) -> Vec<usize> {
    let mut chosen = vec![first];
    let mut pods = nodes[first].movable();
    for _ in 0..size * 4 {
        if chosen.len() >= size {
            break;
        }
        let other = chance.below(nodes.len() as i64) as usize;
        let fits = nodes[other].template == nodes[first].template && pods + nodes[other].movable() <= PODS_MAX;
        if fits && !chosen.contains(&other) {
            pods += nodes[other].movable();
            chosen.push(other);
        }
    }
    chosen
}

/// Cheaper nodes for the pods of some nodes, if there are any. Where the cheapest nodes are too many, the few that cost least are looked for; then
/// `ruined` keeps only the nodes that are in the same domains as the first one.
fn better(
    recreator: &mut Recreator<'_, '_, '_, '_>,
    nodes: &[Node],
    ruined: &mut Vec<usize>,
    objective: &Objective,
) -> Option<Vec<Node>> {
    let swap = Swap::new(nodes, ruined, objective)?;
    let made = recreator.recreate(&swap.apart, swap.price, None)?;
    if swap.pays(&made) {
        return Some(made);
    }
    let first = *ruined.first()?;
    ruined.retain(|at| nodes[*at].pins == nodes[first].pins);
    let swap = Swap::new(nodes, ruined, objective)?;
    let few = objective.nodes_beside(swap.others)?.min(ruined.len() + 1);
    let made = recreator.recreate(&swap.apart, swap.price, Some(few))?;
    swap.pays(&made).then_some(made)
}

/// Nodes of a plan that may be replaced by others.
struct Swap<'x> {
    apart: Vec<&'x Node>,
    /// What they cost.
    price: i64,
    /// The counted nodes that stay.
    others: usize,
    objective: &'x Objective,
}

impl<'x> Swap<'x> {
    /// `None` where no pod may move, or too many may.
    fn new(nodes: &'x [Node], ruined: &[usize], objective: &'x Objective) -> Option<Self> {
        let apart: Vec<&Node> = ruined.iter().map(|at| &nodes[*at]).collect();
        let movable: u32 = apart.iter().map(|node| node.movable()).sum();
        let counted = |node: &&Node| objective.counts(node.template);
        let others = nodes.iter().filter(counted).count() - apart.iter().copied().filter(counted).count();
        (1..=PODS_MAX).contains(&movable).then(|| Self {
            price: price_of(apart.iter().copied()),
            apart,
            others,
            objective,
        })
    }

    /// Whether other nodes cost less than these, with what nodes must save that are more than a plan may have.
    fn pays(&self, made: &[Node]) -> bool {
        let surcharge = |nodes: &mut dyn Iterator<Item = &Node>| {
            let counted = nodes.filter(|node| self.objective.counts(node.template)).count();
            self.objective.surcharge(self.others + counted)
        };
        let more = surcharge(&mut made.iter()) - surcharge(&mut self.apart.iter().copied());
        price_of(made.iter()).saturating_add(more) < self.price
    }
}

/// What nodes cost together, in 10⁻¹² dollars per hour.
fn price_of<'x>(nodes: impl Iterator<Item = &'x Node>) -> i64 {
    nodes.map(|node| node.price).fold(0, i64::saturating_add)
}
