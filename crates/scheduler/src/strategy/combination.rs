//! Combines outcomes. Pools that share no pods do not affect each other, so each group of such pools takes the outcome that is cheapest there:
//! a plan for several such groups costs no more than the outcomes of the strategies for each of them.

use crate::compile::classes::{ClassId, PodClass};
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::targets::TargetId;
use crate::compile::templates::TemplateId;
use crate::compile::topology::{ClaimId, GroupId, NewNode};
use crate::dense::ids::IdVec;
use crate::search::assignment::Assignment;
use crate::search::instance::Instance;
use crate::strategy::greedy::{FewestPods, solve};
use crate::strategy::objective::NodeCosts;
use crate::strategy::outcome::{Outcome, Stop, Strategy};
use crate::strategy::priced_start::PricedStart;
use crate::strategy::repacking::{Pins, place_on_node};
use kerf_model::pod::Pod;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What pods of two classes may share. Classes that share nothing do not affect each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Shared {
    /// New nodes of a pool.
    Template(TemplateId),
    /// An existing node.
    Target(TargetId),
    /// A topology group that counts both.
    Group(GroupId),
}

/// The pod classes in parts: classes of two parts share nothing in any of the outcomes.
struct Parts {
    /// By class: the class that stands for its part.
    representatives: IdVec<PodClass, ClassId>,
}

impl Parts {
    fn new(problem: &Problem<'_>, outcomes: &[&mut Outcome<'_, '_>]) -> Self {
        let mut parts = Self {
            representatives: problem.classes.ids().collect(),
        };
        let mut first: FxHashMap<Shared, ClassId> = FxHashMap::default();
        let mut join = |shared: Shared, class: ClassId| {
            let other = *first.entry(shared).or_insert(class);
            parts.join(other, class);
        };
        for id in problem.classes.ids() {
            let class = &problem.classes[id];
            let own = class.levels.iter().flat_map(|level| &level.own_groups);
            let others = [&class.counting_groups, &class.inverse_groups, &class.repelling_groups];
            let others = others.into_iter().flat_map(|groups| groups.iter().copied());
            for group in own.map(|own| own.group).chain(others) {
                join(Shared::Group(group), id);
            }
        }
        for outcome in outcomes {
            for claim in &outcome.assignment.claims {
                for (class, _) in &claim.members {
                    join(Shared::Template(claim.template), *class);
                }
            }
            for target in outcome.assignment.updated_targets.iter() {
                for class in target.pods.iter().filter_map(|pod| problem.of_pod[*pod]) {
                    join(Shared::Target(target.at), class);
                }
            }
        }
        parts
    }

    /// The class that stands for the part of a class.
    fn of(&self, class: ClassId) -> ClassId {
        let mut at = class;
        while self.representatives[at] != at {
            at = self.representatives[at];
        }
        at
    }

    fn join(&mut self, one: ClassId, other: ClassId) {
        let (one, other) = (self.of(one), self.of(other));
        // The smaller id stands for both, so that equal input gives equal parts.
        self.representatives[one.max(other)] = one.min(other);
    }
}

/// How good an outcome is for one part: more placed pods first, then the lower cost.
type PartRank = (Reverse<u64>, i64);

/// The rank of an outcome for each part, with `node_costs` added to the price of each node.
fn ranks(outcome: &mut Outcome<'_, '_>, parts: &Parts, node_costs: &NodeCosts) -> BTreeMap<ClassId, PartRank> {
    let mut ranks: BTreeMap<ClassId, PartRank> = BTreeMap::new();
    let assignment = &mut outcome.assignment;
    for at in assignment.claims.ids() {
        let price = assignment.price_of(at).pico();
        let claim = &assignment.claims[at];
        let Some((class, _)) = claim.members.first() else {
            continue;
        };
        let rank = ranks.entry(parts.of(*class)).or_default();
        rank.0.0 += claim.pods.len() as u64;
        let cost = price.saturating_add(node_costs[claim.template]);
        rank.1 = rank.1.saturating_add(cost);
    }
    let problem = assignment.problem;
    for target in assignment.updated_targets.iter() {
        for class in target.pods.iter().filter_map(|pod| problem.of_pod[*pod]) {
            ranks.entry(parts.of(class)).or_default().0.0 += 1;
        }
    }
    ranks
}

/// Combines outcomes: takes each part from the outcome that is best for that part, of equal ones from the earliest. Returns `None` where one
/// outcome is best for all parts.
pub(super) fn combine<'w, 'a>(
    outcomes: &mut [&mut Outcome<'w, 'a>],
    start: &PricedStart<'w, 'a>,
    node_costs: &NodeCosts,
    queue: &[PodId],
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let problem = start.assignment.problem;
    let parts = Parts::new(problem, outcomes);
    let of_outcomes: Vec<_> = outcomes
        .iter_mut()
        .map(|outcome| ranks(outcome, &parts, node_costs))
        .collect();
    // By part: the best outcome.
    let mut best: BTreeMap<ClassId, (PartRank, usize)> = BTreeMap::new();
    for (at, ranks) in of_outcomes.iter().enumerate() {
        for (part, rank) in ranks {
            let known = best.entry(*part).or_insert((*rank, at));
            if *rank < known.0 {
                *known = (*rank, at);
            }
        }
    }
    let mut winners = best.values().map(|(_, at)| *at);
    let first = winners.next()?;
    if winners.all(|at| at == first) {
        return None;
    }
    let mut assignment = start.assignment.clone();
    let mut placed = IdVec::filled(false, problem.pods.len());
    for (at, outcome) in outcomes.iter().enumerate() {
        let belongs = |class: ClassId| best.get(&parts.of(class)).is_some_and(|(_, winner)| *winner == at);
        take(&outcome.assignment, belongs, &mut assignment, &mut placed);
    }
    Some(place_rest(assignment, &placed, queue, stop))
}

/// One outcome of the outcomes of parts that do not affect each other.
pub(super) fn join<'w, 'a>(
    outcomes: &[Outcome<'w, 'a>],
    instance: &'w Instance<'a>,
    queue: &[PodId],
    stop: Stop<'_>,
) -> Outcome<'w, 'a> {
    let mut assignment = Assignment::by_price(instance);
    assignment.use_limits_by_cheapest_row(queue.len());
    let mut placed = IdVec::filled(false, instance.problem.pods.len());
    for outcome in outcomes {
        take(&outcome.assignment, |_| true, &mut assignment, &mut placed);
    }
    place_rest(assignment, &placed, queue, stop)
}

/// Places the pods without a place as the greedy does.
fn place_rest<'w, 'a>(
    assignment: Assignment<'w, 'a>,
    placed: &IdVec<Pod, bool>,
    queue: &[PodId],
    stop: Stop<'_>,
) -> Outcome<'w, 'a> {
    let mut left: Vec<PodId> = queue.to_vec();
    left.retain(|pod| !placed[*pod]);
    let mut outcome = solve(assignment, &left, &mut FewestPods, stop);
    outcome.strategy = Strategy::Combination;
    outcome
}

/// Places the pods of the classes that `belongs` accepts as another assignment has them.
fn take(
    from: &Assignment<'_, '_>,
    belongs: impl Fn(ClassId) -> bool,
    to: &mut Assignment<'_, '_>,
    placed: &mut IdVec<Pod, bool>,
) {
    let problem = from.problem;
    let mut target_of: FxHashMap<PodId, TargetId> = FxHashMap::default();
    for target in from.updated_targets.iter() {
        target_of.extend(target.pods.iter().map(|pod| (*pod, target.at)));
    }
    let mut claim_of: FxHashMap<PodId, ClaimId> = FxHashMap::default();
    for (at, claim) in from.claims.entries() {
        claim_of.extend(claim.pods.iter().map(|pod| (*pod, at)));
    }
    let levels: FxHashMap<PodId, usize> = from.relaxed_pods.iter().copied().collect();
    let mut claims: IdVec<NewNode, Option<ClaimId>> = IdVec::filled(None, from.claims.len());
    for pod in &from.order {
        let Some(class) = problem.of_pod[*pod].filter(|class| belongs(*class)) else {
            continue;
        };
        let level = levels.get(pod).copied().unwrap_or(0);
        let is_placed = if let Some(target) = target_of.get(pod) {
            to.place_on_target(*target, class, *pod);
            true
        } else if let Some(at) = claim_of.get(pod) {
            let claim = &from.claims[*at];
            let spec = from.specs.get(claim.spec);
            let keys = problem.keys.tables.ids();
            let pins: Pins = keys.filter_map(|key| Some((key, spec.domains(key).one?))).collect();
            place_on_node(to, claim.template, &pins, &mut claims[*at], class, *pod, level)
        } else {
            false
        };
        placed[*pod] = is_placed;
        if is_placed && level > 0 {
            to.relaxed_pods.push((*pod, level));
        }
    }
}
