//! What makes a plan cost more than its lower bound.

use crate::constraint_cost::Constraint;
use crate::inputs::Inputs;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Request, solve};
use kerf_units::policy::Packing;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A cause of the gap between the price of a plan and its lower bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapCause {
    /// Plans are chosen by where kube-scheduler is forecast to bind pods.
    ForecastBinding,
    /// Packing by another measure than the price: fewer nodes, or as upstream.
    Packing,
    /// Topology spread, pod affinity and anti-affinity, the topology of volumes, host ports.
    Topology,
    /// The limits of NodePools.
    Limits,
    /// `minValues` of NodePools.
    MinValues,
    /// The rest: machines are launched whole, and no search is exact.
    WholeMachines,
}

/// The causes that are examined by solving without them, in this order.
const LIFTED: [GapCause; 5] = [
    GapCause::ForecastBinding,
    GapCause::Packing,
    GapCause::Topology,
    GapCause::Limits,
    GapCause::MinValues,
];

impl GapCause {
    /// Whether a constraint belongs to this cause.
    fn covers(self, constraint: &Constraint) -> bool {
        match constraint {
            Constraint::TopologySpread(_)
            | Constraint::PodAffinity
            | Constraint::PodAntiAffinity
            | Constraint::VolumeTopology
            | Constraint::HostPorts => self == Self::Topology,
            Constraint::PoolLimits(_) => self == Self::Limits,
            Constraint::MinValues => self == Self::MinValues,
            Constraint::Packing(packing) => self == Self::Packing && *packing == Packing::Cheapest,
            Constraint::PodRequirement(_)
            | Constraint::PreferredNodeAffinity
            | Constraint::PoolRequirement(..)
            | Constraint::DaemonSet(_) => false,
        }
    }
}

/// The causes of the gap between a plan for the pods of `inputs` and its lower bound, each with its part in dollars per hour. The pods that the
/// plan places are planned again, each time without one more cause. What that saves is the part of the cause. Parts of zero are left out. The
/// parts are in the order in which causes are removed; their sum is the gap (`docs/packing.md`).
pub fn gap_causes(inputs: &Inputs<'_>, plan: &Plan, bound: Price) -> Vec<(GapCause, Price)> {
    let mut parts = Vec::new();
    let mut price = plan.price();
    let placed = placed_pods(plan);
    let constraints = Constraint::all(inputs);
    let (mut snapshot, mut settings) = (Arc::clone(inputs.snapshot), inputs.settings.clone());
    for cause in LIFTED {
        let lifts: Vec<&Constraint> = constraints.iter().filter(|one| cause.covers(one)).collect();
        let forecasts = cause == GapCause::ForecastBinding && settings.solver.forecast_binding;
        if lifts.is_empty() && !forecasts {
            continue;
        }
        if forecasts {
            settings.solver.forecast_binding = false;
        }
        for constraint in lifts {
            let lifted = Inputs {
                snapshot: &snapshot,
                settings: &settings,
                ..*inputs
            };
            (snapshot, settings) = constraint.lift(&lifted);
        }
        let pods = pods_named(&snapshot, &placed);
        let without = solve(&Request::new(&snapshot, &pods), &settings.solver, &|| false);
        // The bound knows a part of topology.
        let reached = without.price().max(bound);
        // Searches are not exact: one without a cause may find a dearer plan.
        if without.left_over() == 0 && reached < price {
            parts.push((cause, price - reached));
            price = reached;
        }
    }
    if price > bound {
        parts.push((GapCause::WholeMachines, price - bound));
    }
    parts
}

/// The uids of the pods that a plan places.
fn placed_pods(plan: &Plan) -> BTreeSet<Arc<str>> {
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let placed = plan.existing.iter().flat_map(|placement| &placement.pods);
    launched.chain(placed).map(|pod| Arc::clone(&pod.uid)).collect()
}

/// The pods of a snapshot with these uids.
fn pods_named(snapshot: &Snapshot, uids: &BTreeSet<Arc<str>>) -> Vec<Arc<Pod>> {
    let running = snapshot.nodes.iter().flat_map(|node| &node.pods);
    let all = snapshot.pending.iter().chain(&snapshot.untried).chain(running);
    all.filter(|pod| uids.contains(&pod.uid)).cloned().collect()
}
