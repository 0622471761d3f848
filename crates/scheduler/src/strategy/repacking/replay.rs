//! Places all pods of an outcome again, on the nodes that repacking chose.

use crate::compile::classes::ClassId;
use crate::compile::queue::PodId;
use crate::compile::targets::TargetId;
use crate::compile::templates::TemplateId;
use crate::compile::topology::ClaimId;
use crate::dense::id_set::IdSet;
use crate::search::assignment::Assignment;
use crate::strategy::greedy::{FewestPods, solve};
use crate::strategy::outcome::{Outcome, Stop, Strategy};
use crate::strategy::priced_start::PricedStart;
use crate::strategy::repacking::node::{Node, Pins, kept};
use crate::strategy::repacking::rules::MoveRules;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The existing or planned node a pod goes to.
#[derive(Clone, Copy)]
enum Destination {
    Target(TargetId),
    Node(usize),
}

/// The outcome with every pod on its new node. Pods that their node refuses are placed as by the greedy.
pub(super) fn replay<'w, 'a>(
    outcome: &Outcome<'w, 'a>,
    start: &PricedStart<'w, 'a>,
    nodes: &[Node],
    rules: &MoveRules,
    queue: &[PodId],
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let before = &outcome.assignment;
    let problem = before.problem;
    let places = places(before, nodes, rules);
    let levels: FxHashMap<PodId, usize> = before.relaxed_pods.iter().copied().collect();
    let mut assignment = start.assignment.clone();
    let mut claims: Vec<Option<ClaimId>> = vec![None; nodes.len()];
    let mut refused: Vec<PodId> = Vec::new();
    for pod in &before.order {
        let (class, place) = (problem.of_pod[*pod]?, places.get(pod).copied());
        let level = levels.get(pod).copied().unwrap_or(0);
        let placed = match place {
            Some(Destination::Target(at)) => {
                assignment.place_on_target(at, class, *pod);
                true
            }
            Some(Destination::Node(at)) => {
                let node = &nodes[at];
                let claim = &mut claims[at];
                place_on_node(&mut assignment, node.template, &node.pins, claim, class, *pod, level)
            }
            None => false,
        };
        if !placed {
            refused.push(*pod);
        } else if level > 0 {
            assignment.relaxed_pods.push((*pod, level));
        }
    }
    let in_queue: FxHashMap<PodId, usize> = queue.iter().enumerate().map(|(at, pod)| (*pod, at)).collect();
    refused.extend(outcome.failed.iter().map(|(pod, _)| *pod));
    refused.sort_unstable_by_key(|pod| in_queue.get(pod).copied());
    let mut repacked = solve(assignment, &refused, &mut FewestPods, stop);
    repacked.strategy = Strategy::Repacking;
    repacked.improves = Some(outcome.started_by());
    Some(repacked)
}

/// Places a pod on the claim of a node, which is opened in the domains of the node where it is none yet.
pub(in crate::strategy) fn place_on_node(
    assignment: &mut Assignment<'_, '_>,
    template: TemplateId,
    pins: &Pins,
    claim: &mut Option<ClaimId>,
    class: ClassId,
    pod: PodId,
    level_index: usize,
) -> bool {
    let Some(allowed) = assignment.allowed(class, level_index) else {
        return false;
    };
    let Some(query) = assignment.query(class, level_index, &allowed) else {
        return false;
    };
    match *claim {
        Some(at) => {
            // Domains and neighbours are no part of the attempt itself.
            let (word, bit) = IdSet::bit_of(at);
            if assignment.candidate_claims(&query, word) & bit == 0 {
                return false;
            }
            let Ok(narrowed) = assignment.try_claim(&query, at) else {
                return false;
            };
            assignment.place_on_claim(at, &narrowed, class, pod);
        }
        None => {
            let Ok(narrowed) = assignment.check_template_in(&query, template, pins) else {
                return false;
            };
            *claim = Some(assignment.open(template, &narrowed, class, pod));
        }
    }
    true
}

/// Where each pod goes: pods that stay keep their node, the others are dealt out in their order.
fn places(before: &Assignment<'_, '_>, nodes: &[Node], rules: &MoveRules) -> FxHashMap<PodId, Destination> {
    let problem = before.problem;
    let mut places: FxHashMap<PodId, Destination> = FxHashMap::default();
    for target in before.updated_targets.iter() {
        places.extend(target.pods.iter().map(|pod| (*pod, Destination::Target(target.at))));
    }
    let mut claim_of: FxHashMap<PodId, ClaimId> = FxHashMap::default();
    for (at, claim) in before.claims.entries() {
        claim_of.extend(claim.pods.iter().map(|pod| (*pod, at)));
    }
    let mut origins: FxHashMap<ClaimId, usize> = FxHashMap::default();
    origins.extend(
        nodes
            .iter()
            .enumerate()
            .filter_map(|(at, node)| Some((node.origin?, at))),
    );
    let mut movable: FxHashMap<(TemplateId, ClassId, Pins), VecDeque<PodId>> = FxHashMap::default();
    for pod in &before.order {
        let (Some(class), Some(claim)) = (problem.of_pod[*pod], claim_of.get(pod)) else {
            continue;
        };
        if let Some(at) = origins.get(claim)
            && nodes[*at].fixed.iter().any(|member| member.0 == class)
        {
            places.insert(*pod, Destination::Node(*at));
            continue;
        }
        let claim = &before.claims[*claim];
        let spec = before.specs.get(claim.spec);
        let keys = problem.keys.tables.ids();
        let pins: Pins = keys.filter_map(|key| Some((key, spec.domains(key).one?))).collect();
        if let Some(kept) = kept(rules, class, &pins) {
            movable
                .entry((claim.template, class, kept))
                .or_default()
                .push_back(*pod);
        }
    }
    for (at, node) in nodes.iter().enumerate() {
        for (class, n) in &node.loose {
            let Some(kept) = kept(rules, *class, &node.pins) else {
                continue;
            };
            let Some(pods) = movable.get_mut(&(node.template, *class, kept)) else {
                continue;
            };
            for pod in pods.drain(..(*n as usize).min(pods.len())) {
                places.insert(pod, Destination::Node(at));
            }
        }
    }
    places
}
