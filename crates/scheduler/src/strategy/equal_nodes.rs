//! Equal nodes: all new nodes of a pool are opened at the size of one instance type and stay that large. kube-scheduler fills the emptiest
//! node first, so it fills equal nodes evenly, and pods that need a node each find room on all of them. Small nodes beside large ones are
//! full when such pods come.

use crate::compile::catalogue::{RowId, TypeRow};
use crate::compile::classes::{ClassId, PodClass};
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::templates::TemplateId;
use crate::compile::topology::ClaimId;
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use crate::search::allowed::AllowedPlacement;
use crate::search::assignment::Assignment;
use crate::search::query::{Narrowed, Query};
use crate::strategy::greedy::{Attempt, ClaimChooser, place_on_open_claim, solve};
use crate::strategy::max_pods::one_per_node;
use crate::strategy::objective::Objective;
use crate::strategy::outcome::{Outcome, Stop, Strategy};
use kerf_model::price::Price;
use std::collections::BTreeMap;

/// The number of sizes that are tried. For 1,000 and 6,000 pods of eight shapes, the size that is best in the end is among the first two.
const SIZES_MAX: usize = 4;
/// A size whose filled nodes cost more than this factor of those of the best size is not tried. The second round of a tight plan for 1,000 pods
/// cost 23 %.
const COST_MAX: f64 = 1.25;

/// Outcomes with new nodes of one size for the pods that `planned` has on new nodes, the cheapest first.
pub(crate) fn equal_nodes<'w, 'a>(
    planned: &Outcome<'w, 'a>,
    objective: &Objective,
    stop: Stop<'_>,
) -> Vec<Outcome<'w, 'a>> {
    let instance = planned.assignment.instance;
    let queue = &instance.problem.queue;
    let by_template = sizes(planned, objective);
    let count = by_template.values().map(Vec::len).max().unwrap_or(0);
    let mut outcomes = Vec::with_capacity(count);
    for at in 0..count {
        if stop() {
            break;
        }
        let of_template =
            |(template, sizes): (&TemplateId, &Vec<Size>)| Some((*template, *sizes.get(at).or(sizes.last())?));
        let mut chooser = EqualNodes {
            sizes: by_template.iter().filter_map(of_template).collect(),
            opened: BTreeMap::new(),
        };
        let mut assignment = Assignment::by_price(instance);
        assignment.use_limits_by_cheapest_row(queue.len());
        let mut outcome = solve(assignment, queue, &mut chooser, stop);
        chooser.keep_sizes(&mut outcome.assignment);
        outcome.strategy = Strategy::EqualNodes;
        if outcome.assignment.narrow_to_limits() && outcome.unattempted.is_empty() {
            outcomes.push((objective.rank(&mut outcome), outcome));
        }
    }
    outcomes.sort_by_key(|(rank, _)| *rank);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Nodes of one size.
#[derive(Clone, Copy, Debug)]
struct Size {
    row: RowId,
    /// The number of nodes that hold all pods, as far as resources matter.
    nodes: i64,
}

/// What the new nodes of a template hold in another outcome.
struct Demand {
    requests: Vec<i64>,
    /// The fewest nodes that hold the pods that need a node each.
    nodes_min: i64,
    /// The rows that some of these nodes may have, with their lowest prices.
    prices: BTreeMap<RowId, Price>,
}

/// The sizes to try, by template; see [`cheapest_sizes`].
fn sizes(planned: &Outcome<'_, '_>, objective: &Objective) -> BTreeMap<TemplateId, Vec<Size>> {
    let mut assignment = planned.assignment.clone();
    let alone = classes_with_a_node_each(&assignment);
    let overheads = objective.node_costs(0.0);
    let mut templates: BTreeMap<TemplateId, Vec<ClaimId>> = BTreeMap::new();
    for (at, claim) in assignment.claims.entries() {
        templates.entry(claim.template).or_default().push(at);
    }
    let sizes_of = |(template, claims): (TemplateId, Vec<ClaimId>)| {
        let demand = demand(&mut assignment, &claims, &alone);
        let sizes = cheapest_sizes(assignment.problem, template, &demand, overheads[template]);
        (template, sizes)
    };
    templates.into_iter().map(sizes_of).collect()
}

/// What some claims of a template hold together.
fn demand(assignment: &mut Assignment<'_, '_>, claims: &[ClaimId], alone: &IdVec<PodClass, bool>) -> Demand {
    let problem = assignment.problem;
    let mut requests: Vec<i64> = Vec::new();
    let mut of_class: IdVec<PodClass, u32> = IdVec::filled(0, problem.classes.len());
    let mut prices: BTreeMap<RowId, Price> = BTreeMap::new();
    for at in claims {
        let claim = &assignment.claims[*at];
        requests.resize(claim.used.len(), 0);
        for (sum, amount) in requests.iter_mut().zip(&claim.used) {
            *sum = sum.saturating_add(*amount);
        }
        for (class, count) in &claim.members {
            of_class[*class] += count;
        }
        let spec = claim.spec;
        for (price, row, _) in assignment.specs.offers_by_price(problem, spec) {
            let known = prices.entry(*row).or_insert(*price);
            *known = (*price).min(*known);
        }
    }
    let of_each = problem.classes.ids().filter(|class| alone[*class]);
    let nodes_min = of_each.map(|class| of_class[class]).max().unwrap_or(0).max(1);
    Demand {
        requests,
        nodes_min: i64::from(nodes_min),
        prices,
    }
}

/// The sizes whose nodes cost least if they are filled, the cheapest first, each with another number of nodes.
fn cheapest_sizes(problem: &Problem<'_>, template: TemplateId, demand: &Demand, overhead: i64) -> Vec<Size> {
    let sized = |(row, price): (&RowId, &Price)| {
        let usable = problem.usable(template, *row).zip(&demand.requests);
        let needed = usable.filter(|(_, sum)| **sum > 0).map(|(usable, sum)| match usable {
            ..=0 => i64::MAX,
            _ => sum.saturating_add(usable - 1) / usable,
        });
        let nodes = needed.max().unwrap_or(0).max(demand.nodes_min);
        let cost = nodes as f64 * price.pico().saturating_add(overhead) as f64;
        (cost, Size { row: *row, nodes })
    };
    let mut sized: Vec<(f64, Size)> = demand.prices.iter().map(sized).collect();
    // Of equal costs the fewer nodes, then the earlier row: the sort is stable.
    sized.sort_by(|(one, a), (other, b)| one.total_cmp(other).then(a.nodes.cmp(&b.nodes)));
    let most = sized.first().map_or(0.0, |(cost, _)| cost * COST_MAX);
    let mut sizes: Vec<Size> = Vec::new();
    for (_, size) in sized.into_iter().take_while(|(cost, _)| *cost <= most) {
        if sizes.len() < SIZES_MAX && !sizes.iter().any(|known| known.nodes == size.nodes) {
            sizes.push(size);
        }
    }
    sizes
}

/// By class: whether its pods cannot share a node.
fn classes_with_a_node_each(assignment: &Assignment<'_, '_>) -> IdVec<PodClass, bool> {
    let problem = assignment.problem;
    let empty = Assignment::new(assignment.instance);
    let is_alone = |class: ClassId| {
        let compiled = problem.class(class);
        let allowed = compiled.levels.first().and_then(|level| {
            let allowed = AllowedPlacement::compute(problem, &empty.counts, compiled, level);
            allowed.ok()
        });
        allowed.is_some_and(|allowed| {
            let query = empty.query(class, 0, &allowed);
            query.is_some_and(|query| one_per_node(&query))
        })
    };
    problem.classes.ids().map(is_alone).collect()
}

/// Opens as many claims as are needed, then shares the pods out evenly: claims grow up to one size.
struct EqualNodes {
    sizes: BTreeMap<TemplateId, Size>,
    /// The number of open claims.
    opened: BTreeMap<TemplateId, i64>,
}

impl ClaimChooser for EqualNodes {
    fn place(&mut self, assignment: &mut Assignment<'_, '_>, query: &Query<'_>, class: ClassId, pod: PodId) -> Attempt {
        let new = assignment.first_template(query);
        if let Ok((template, narrowed)) = &new
            && self.lacks_nodes(*template)
        {
            return self.open(assignment, *template, narrowed, class, pod);
        }
        let keeps_size = |assignment: &mut Assignment<'_, '_>, claim: ClaimId, narrowed: &Narrowed| {
            let claim = &assignment.claims[claim];
            let size = self.sizes.get(&claim.template).map(|size| size.row);
            // A node that is larger already may grow.
            size.is_none_or(|row| narrowed.rows.get(row) || !claim.rows.get(row))
        };
        if place_on_open_claim(assignment, query, class, pod, keeps_size) {
            return Attempt::Placed;
        }
        match new {
            Ok((template, narrowed)) => self.open(assignment, template, &narrowed, class, pod),
            Err(rejection) => match Attempt::from(rejection) {
                Attempt::Failed if place_on_open_claim(assignment, query, class, pod, |_, _, _| true) => {
                    Attempt::Placed
                }
                attempt @ (Attempt::Placed | Attempt::Failed | Attempt::Deferred) => attempt,
            },
        }
    }
}

impl EqualNodes {
    /// Whether fewer claims of a template are open than hold all its pods.
    fn lacks_nodes(&self, template: TemplateId) -> bool {
        let wanted = self.sizes.get(&template).map_or(0, |size| size.nodes);
        self.opened.get(&template).copied().unwrap_or(0) < wanted
    }

    fn open(
        &mut self,
        assignment: &mut Assignment<'_, '_>,
        template: TemplateId,
        narrowed: &Narrowed,
        class: ClassId,
        pod: PodId,
    ) -> Attempt {
        *self.opened.entry(template).or_default() += 1;
        assignment.open(template, narrowed, class, pod);
        Attempt::Placed
    }

    /// Keeps nodes at their size. Those that are less than half full, as the last one of a pool may be, shrink to what they hold.
    fn keep_sizes(&self, assignment: &mut Assignment<'_, '_>) {
        let problem = assignment.problem;
        for at in assignment.claims.ids() {
            let claim = &assignment.claims[at];
            let template = claim.template;
            let size = self.sizes.get(&template).map(|size| size.row);
            let Some(size) = size.filter(|row| claim.rows.get(*row)) else {
                continue;
            };
            let usable: Vec<i64> = problem.usable(template, size).collect();
            let mut used = usable.iter().zip(&claim.used).filter(|(_, used)| **used > 0);
            if !used.any(|(usable, used)| used.saturating_mul(2) >= *usable) {
                continue;
            }
            let is_as_large = |row: &RowId| {
                problem
                    .usable(template, *row)
                    .zip(&usable)
                    .all(|(of_row, size)| of_row >= *size)
            };
            let rows: IdSet<TypeRow> = claim.rows.iter().filter(is_as_large).collect();
            assignment.try_restrict_rows(at, rows);
        }
    }
}
