//! What the plan would cost without each of its constraints (`--explain-cost`).

use crate::columns::columns;
use crate::decision::DecisionInputs;
use crate::node_report::HOURS_PER_MONTH;
use kerf_decide::{Constraint, PlanCost, cost_without};
use kerf_model::intern::Interner;
use serde::Serialize;
use std::sync::{Mutex, PoisonError};

/// Smaller differences in dollars per hour are not shown in the table.
const SHOWN: f64 = 0.00005;

/// The plan for the same pods without one constraint.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConstraintCost {
    /// What is left out.
    without: String,
    pub(crate) price_per_hour: f64,
    /// How much less the plan costs without it, in dollars. Negative where the plan is dearer, because more pods get a place or the search
    /// goes another way.
    pub(crate) saves_per_hour: f64,
    saves_per_month: f64,
    new_nodes: usize,
    unschedulable: usize,
}

impl ConstraintCost {
    fn new(constraint: &Constraint, interner: &Interner, base: PlanCost, without: PlanCost) -> Self {
        let saves = base.price.per_hour() - without.price.per_hour();
        Self {
            without: text(constraint, interner),
            price_per_hour: without.price.per_hour(),
            saves_per_hour: saves,
            saves_per_month: saves * HOURS_PER_MONTH,
            new_nodes: without.nodes,
            unschedulable: without.left_over,
        }
    }
}

/// Plans once without each constraint, on all processors. The largest saving comes first.
pub(crate) fn constraint_costs(inputs: &DecisionInputs, base: PlanCost) -> Vec<ConstraintCost> {
    let view = inputs.view();
    let constraints = Constraint::all(&view);
    let (waiting, found) = (Mutex::new(constraints.into_iter().enumerate()), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, constraint)) = next() {
                    let cost = cost_without(&view, &constraint);
                    let cost = ConstraintCost::new(&constraint, &view.snapshot.interner, base, cost);
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((index, cost));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by(|(i, one), (j, other)| {
        let saves = other.saves_per_hour.total_cmp(&one.saves_per_hour);
        saves.then(i.cmp(j))
    });
    found.into_iter().map(|(_, cost)| cost).collect()
}

/// The constraint in the words of manifests.
fn text(constraint: &Constraint, interner: &Interner) -> String {
    let label = |key| interner.text(key);
    match constraint {
        Constraint::TopologySpread(key) => format!("pods: topology spread over {}", label(*key)),
        Constraint::PodAffinity => "pods: pod affinity".to_owned(),
        Constraint::PodAntiAffinity => "pods: pod anti-affinity".to_owned(),
        Constraint::PodRequirement(key) => format!("pods: node selector and affinity about {}", label(*key)),
        Constraint::PreferredNodeAffinity => "pods: preferred node affinity".to_owned(),
        Constraint::VolumeTopology => "pods: where volumes are reachable".to_owned(),
        Constraint::HostPorts => "pods: host ports".to_owned(),
        Constraint::PoolRequirement(pool, key) => format!("NodePool {pool}: requirement {}", label(*key)),
        Constraint::PoolLimits(pool) => format!("NodePool {pool}: limits"),
        Constraint::MinValues => "NodePools: minValues".to_owned(),
        Constraint::DaemonSet(name) => format!("DaemonSet {name}"),
        Constraint::Packing(packing) => format!("this packing, with {packing} instead"),
    }
}

/// The costs as a table, beside a plan that leaves `unschedulable` pods without a place. Constraints that change nothing are named in one line.
pub(crate) fn render(costs: &[ConstraintCost], unschedulable: usize) -> String {
    let matters = |cost: &&ConstraintCost| cost.saves_per_hour.abs() >= SHOWN || cost.unschedulable != unschedulable;
    let header = [
        "WITHOUT",
        "$/H",
        "SAVES $/H",
        "SAVES $/MONTH",
        "NEW NODES",
        "UNSCHEDULABLE",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(costs.iter().filter(matters).map(|cost| {
        vec![
            cost.without.clone(),
            format!("{:.4}", cost.price_per_hour),
            format!("{:.4}", cost.saves_per_hour),
            format!("{:.2}", cost.saves_per_month),
            cost.new_nodes.to_string(),
            cost.unschedulable.to_string(),
        ]
    }));
    let mut text = String::new();
    if rows.len() > 1 {
        text.push_str(&columns(&rows));
    }
    let idle: Vec<&str> = costs
        .iter()
        .filter(|cost| !matters(cost))
        .map(|cost| &*cost.without)
        .collect();
    if !idle.is_empty() {
        text.push_str(&format!("no effect on the cost: {}\n", idle.join("; ")));
    }
    text
}
