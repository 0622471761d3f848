//! The entry point: chooses which nodes are taken apart, and keeps what is cheaper.

use crate::compile::queue::PodId;
use crate::strategy::objective::Objective;
use crate::strategy::outcome::{Outcome, Stop};
use crate::strategy::priced_start::PricedStart;
use crate::strategy::repacking::exact::EXACT_MAX;
use crate::strategy::repacking::node::{Node, nodes};
use crate::strategy::repacking::quotes::Quotes;
use crate::strategy::repacking::recreate::Recreator;
use crate::strategy::repacking::replay::replay;
use crate::strategy::repacking::rules::MoveRules;
use rustc_hash::FxHashSet;

/// The work of taking nodes apart, as a part of the effort of a strategy.
const EFFORT_DIVISOR: u64 = 16;
/// Small plans get less: so much work, and so much more for each pod. Otherwise 50 pods would wait eight times as long for a plan.
const WORK_MIN: u64 = 4_000;
const WORK_PER_POD: u64 = 200;
/// The number of nodes taken apart together, in turn.
const SIZES: [usize; 6] = [1, 2, 2, 3, 2, 4];
/// Nodes with more movable pods together than this are not taken apart.
const PODS_MAX: u32 = 1500;
/// Each node is taken apart at most this often with others.
const SWEEPS_MAX: usize = 12;

/// An outcome with the pods of another one on cheaper nodes. Returns `None` where none was found.
pub(in crate::strategy) fn repack<'w, 'a>(
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
        quotes: Quotes::new(node_costs),
        work: 0,
    };
    let in_proportion = WORK_MIN + WORK_PER_POD * queue.len() as u64;
    let effort = in_proportion.min(problem.options.effort / EFFORT_DIVISOR);
    if !improve(&mut recreator, &mut nodes, objective, effort, stop) {
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
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = move |n: usize| {
        // A xorshift generator with a fixed start: equal input gives equal plans.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % n.max(1) as u64) as usize
    };
    let mut improved = false;
    let all: Vec<usize> = (0..nodes.len()).collect();
    if nodes.iter().map(Node::movable).sum::<u32>() <= EXACT_MAX
        && nodes.iter().all(|node| node.template == nodes[0].template)
        && let Some(better) = better(recreator, nodes, &all, objective)
    {
        *nodes = better;
        improved = true;
    }
    for sweep in 0..SWEEPS_MAX {
        let mut found = false;
        for turn in 0..nodes.len() {
            if recreator.work > effort || stop() || nodes.is_empty() {
                return improved;
            }
            let size = SIZES[(turn + sweep) % SIZES.len()];
            let ruined = choose(nodes, turn.min(nodes.len() - 1), size, &mut below);
            if let Some(better) = better(recreator, nodes, &ruined, objective) {
                let mut ruined = ruined;
                ruined.sort_unstable_by(|a, b| b.cmp(a));
                for at in ruined {
                    nodes.swap_remove(at);
                }
                nodes.extend(better);
                found = true;
            }
        }
        improved |= found;
        if !found && sweep >= SIZES.len() {
            break;
        }
    }
    improved
}

/// A node and others of its template, at most `size` with movable pods.
fn choose(nodes: &[Node], first: usize, size: usize, below: &mut impl FnMut(usize) -> usize) -> Vec<usize> {
    let mut chosen = vec![first];
    let mut pods = nodes[first].movable();
    for _ in 0..size * 4 {
        if chosen.len() >= size {
            break;
        }
        let other = below(nodes.len());
        let fits = nodes[other].template == nodes[first].template && pods + nodes[other].movable() <= PODS_MAX;
        if fits && !chosen.contains(&other) {
            pods += nodes[other].movable();
            chosen.push(other);
        }
    }
    chosen
}

/// Cheaper nodes for the pods of some nodes, if there are any. Counts what further nodes must save.
fn better(
    recreator: &mut Recreator<'_, '_, '_, '_>,
    nodes: &[Node],
    ruined: &[usize],
    objective: &Objective,
) -> Option<Vec<Node>> {
    let apart: Vec<&Node> = ruined.iter().map(|at| &nodes[*at]).collect();
    let movable: u32 = apart.iter().map(|node| node.movable()).sum();
    if movable == 0 || movable > PODS_MAX {
        return None;
    }
    let price: i64 = apart.iter().map(|node| node.price).fold(0, i64::saturating_add);
    let made = recreator.recreate(&apart, price)?;
    let counted = |node: &&Node| objective.counts(node.template);
    let (all, before) = (
        nodes.iter().filter(counted).count(),
        apart.iter().copied().filter(counted).count(),
    );
    let after = made.iter().filter(counted).count();
    let cost: i64 = made.iter().map(|node| node.price).fold(0, i64::saturating_add);
    let surcharge = objective.surcharge(all - before + after) - objective.surcharge(all);
    (cost.saturating_add(surcharge) < price).then_some(made)
}
