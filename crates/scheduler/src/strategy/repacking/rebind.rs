//! Places all pods of an outcome where kube-scheduler is forecast to bind them.

use crate::compile::classes::ClassId;
use crate::compile::queue::PodId;
use crate::compile::targets::TargetId;
use crate::compile::templates::TemplateId;
use crate::compile::topology::{ClaimId, NewNode};
use crate::dense::ids::IdVec;
use crate::search::assignment::Assignment;
use crate::strategy::greedy::{FewestPods, solve};
use crate::strategy::outcome::{Outcome, Stop, Strategy};
use crate::strategy::repacking::node::Pins;
use crate::strategy::repacking::replay::place_on_node;

/// Where a pod is bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum BoundPlace {
    /// An existing node, by target.
    Target(TargetId),
    /// A node of the plan, by claim.
    Claim(ClaimId),
    /// A node of the second round, by its position among these.
    SecondRound(usize),
}

/// The outcome with every pod where it is bound, in the order of binding. `second_round` holds the templates of the nodes that are launched
/// for pods left over. Pods that their place refuses are placed as by the greedy. Nodes with less on them than before shrink, unless
/// `keeps_size` says that they stay as large.
pub(crate) fn rebind<'w, 'a>(
    outcome: &Outcome<'w, 'a>,
    bound: &[(PodId, BoundPlace)],
    second_round: &[TemplateId],
    keeps_size: bool,
    stop: Stop<'_>,
) -> Outcome<'w, 'a> {
    let before = &outcome.assignment;
    let problem = before.problem;
    let mut assignment = Assignment::by_price(before.instance);
    assignment.use_limits_by_cheapest_row(problem.queue.len());
    let pins_of = |claim: ClaimId| -> Pins {
        let spec = before.specs.get(before.claims[claim].spec);
        let keys = problem.keys.tables.ids();
        keys.filter_map(|key| Some((key, spec.domains(key).one?))).collect()
    };
    let mut claims: IdVec<NewNode, Option<ClaimId>> = IdVec::filled(None, before.claims.len());
    let mut second_claims: Vec<Option<ClaimId>> = vec![None; second_round.len()];
    let mut placed = IdVec::filled(false, problem.pods.len());
    for (pod, place) in bound {
        let Some(class) = problem.of_pod[*pod] else {
            continue;
        };
        let (template, pins, claim) = match *place {
            BoundPlace::Target(target) => {
                assignment.place_on_target(target, class, *pod);
                placed[*pod] = true;
                continue;
            }
            BoundPlace::Claim(claim) => (before.claims[claim].template, pins_of(claim), &mut claims[claim]),
            BoundPlace::SecondRound(at) => (second_round[at], Pins::new(), &mut second_claims[at]),
        };
        for level_index in 0..problem.class(class).levels.len() {
            if claim.is_none() && !opens(&mut assignment, template, class, level_index) {
                continue;
            }
            if place_on_node(&mut assignment, template, &pins, claim, class, *pod, level_index) {
                placed[*pod] = true;
                if level_index > 0 {
                    assignment.relaxed_pods.push((*pod, level_index));
                }
                break;
            }
        }
    }
    for (before, at) in before.claims.iter().zip(&claims).filter(|_| keeps_size) {
        let Some(at) = *at else {
            continue;
        };
        let mut rows = assignment.claims[at].rows.clone();
        rows.and(&before.rows);
        assignment.try_restrict_rows(at, rows);
    }
    let mut refused = problem.queue.clone();
    refused.retain(|pod| !placed[*pod]);
    let mut rebound = solve(assignment, &refused, &mut FewestPods, stop);
    rebound.strategy = Strategy::Rebinding;
    rebound.improves = Some(outcome.started_by());
    rebound
}

/// Whether a template is the first one of which a new claim accepts the pods of a class (SCH-141). Pods that another template comes first for may
/// join a claim, but must not open it.
fn opens(assignment: &mut Assignment<'_, '_>, template: TemplateId, class: ClassId, level_index: usize) -> bool {
    let Some(allowed) = assignment.allowed(class, level_index) else {
        return false;
    };
    let Some(query) = assignment.query(class, level_index, &allowed) else {
        return false;
    };
    assignment
        .first_template(&query)
        .is_ok_and(|(first, _)| first == template)
}
