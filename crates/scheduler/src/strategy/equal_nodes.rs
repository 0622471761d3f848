//! Equal nodes: all new nodes of a pool are opened at the size of one instance type and stay that large. kube-scheduler fills the emptiest
//! node first, so it fills equal nodes evenly, and pods that need a node each find room on all of them. Small nodes beside large ones are
//! full when such pods come.

use crate::compile::classes::{ClassId, PodClass};
use crate::compile::queue::PodId;
use crate::dense::bits::Bits;
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

/// The number of sizes that are tried.
const SIZES_MAX: usize = 4;
/// A size whose nodes would cost more than this factor of those of the best size is not tried.
const COST_MAX: f64 = 1.25;

/// Outcomes with nodes of one size, for the pods that another outcome has on new nodes, the cheapest first.
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
        let of_template = |(template, sizes): (&usize, &Vec<Size>)| Some((*template, *sizes.get(at).or(sizes.last())?));
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
    row: u32,
    /// The number of nodes that hold all pods, as far as resources matter.
    nodes: i64,
}

/// The sizes to try, by template, the one first whose nodes would cost least if they were filled.
fn sizes(planned: &Outcome<'_, '_>, objective: &Objective) -> BTreeMap<usize, Vec<Size>> {
    let mut assignment = planned.assignment.clone();
    let problem = assignment.problem;
    let overheads = objective.node_costs(0.0);
    let alone = classes_with_a_node_each(&assignment);
    let mut templates: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, claim) in assignment.claims.iter().enumerate() {
        templates.entry(claim.template).or_default().push(at);
    }
    let mut found = BTreeMap::new();
    for (template, claims) in templates {
        let mut requests = vec![0_i64; assignment.claims[claims[0]].used.len()];
        let mut of_class: IdVec<PodClass, u32> = IdVec::filled(0, problem.classes.len());
        let mut prices: BTreeMap<u32, Price> = BTreeMap::new();
        for at in claims {
            let claim = &assignment.claims[at];
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
        let mut sizes: Vec<(f64, i64, u32)> = Vec::new();
        for (row, price) in prices {
            let usable = problem.usable(template, row as usize).zip(&requests);
            let needed = usable.filter(|(_, sum)| **sum > 0).map(|(usable, sum)| match usable {
                ..=0 => i64::MAX,
                _ => sum.saturating_add(usable - 1) / usable,
            });
            let nodes = needed.max().unwrap_or(0).max(i64::from(nodes_min));
            let of_one = price.pico().saturating_add(overheads[template]);
            sizes.push((nodes as f64 * of_one as f64, nodes, row));
        }
        sizes.sort_by(|one, other| one.0.total_cmp(&other.0).then((one.1, one.2).cmp(&(other.1, other.2))));
        let most = sizes.first().map_or(0.0, |size| size.0 * COST_MAX);
        let mut counts: Vec<i64> = Vec::new();
        sizes.retain(|(cost, nodes, _)| {
            let kept = *cost <= most && counts.len() < SIZES_MAX && !counts.contains(nodes);
            if kept {
                counts.push(*nodes);
            }
            kept
        });
        let sizes = sizes.into_iter().map(|(_, nodes, row)| Size { row, nodes });
        found.insert(template, sizes.collect());
    }
    found
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
    /// By template.
    sizes: BTreeMap<usize, Size>,
    /// By template: the number of open claims.
    opened: BTreeMap<usize, i64>,
}

impl ClaimChooser for EqualNodes {
    fn place(&mut self, assignment: &mut Assignment<'_, '_>, query: &Query<'_>, class: ClassId, pod: PodId) -> Attempt {
        if self.open(assignment, query, class, pod, true) == Attempt::Placed {
            return Attempt::Placed;
        }
        let keeps_size = |assignment: &mut Assignment<'_, '_>, claim: usize, narrowed: &Narrowed| {
            let claim = &assignment.claims[claim];
            let size = self.sizes.get(&claim.template).map(|size| size.row as usize);
            // A node that is larger already may grow.
            size.is_none_or(|row| narrowed.rows.get(row) || !claim.rows.get(row))
        };
        if place_on_open_claim(assignment, query, class, pod, keeps_size) {
            return Attempt::Placed;
        }
        match self.open(assignment, query, class, pod, false) {
            Attempt::Failed if place_on_open_claim(assignment, query, class, pod, |_, _, _| true) => Attempt::Placed,
            attempt @ (Attempt::Placed | Attempt::Failed | Attempt::Deferred) => attempt,
        }
    }
}

impl EqualNodes {
    /// Opens a claim of the first template that accepts the pod; if `needed`, only as long as its pool has fewer than it needs.
    fn open(
        &mut self,
        assignment: &mut Assignment<'_, '_>,
        query: &Query<'_>,
        class: ClassId,
        pod: PodId,
        needed: bool,
    ) -> Attempt {
        let (template, narrowed) = match assignment.first_template(query) {
            Ok(found) => found,
            Err(rejection) => return rejection.into(),
        };
        let opened = self.opened.entry(template).or_default();
        let wanted = self.sizes.get(&template).map_or(0, |size| size.nodes);
        if needed && *opened >= wanted {
            return Attempt::Failed;
        }
        *opened += 1;
        assignment.open(template, &narrowed, class, pod);
        Attempt::Placed
    }

    /// Keeps nodes at their size. Those that are less than half full, as the last one of a pool may be, shrink to what they hold.
    fn keep_sizes(&self, assignment: &mut Assignment<'_, '_>) {
        let problem = assignment.problem;
        for at in 0..assignment.claims.len() {
            let claim = &assignment.claims[at];
            let template = claim.template;
            let size = self.sizes.get(&template).map(|size| size.row as usize);
            let Some(size) = size.filter(|row| claim.rows.get(*row)) else {
                continue;
            };
            let usable: Vec<i64> = problem.usable(template, size).collect();
            let used = usable.iter().zip(&claim.used).filter(|(_, used)| **used > 0);
            let is_half_full = used.into_iter().any(|(usable, used)| used.saturating_mul(2) >= *usable);
            if !is_half_full {
                continue;
            }
            let is_as_large = |row: &usize| {
                problem
                    .usable(template, *row)
                    .zip(&usable)
                    .all(|(of_row, size)| of_row >= *size)
            };
            let rows: Bits = claim.rows.iter().filter(is_as_large).collect();
            assignment.try_restrict_rows(at, rows);
        }
    }
}
