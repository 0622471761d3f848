//! The forecast of the crate `decide`, completed by what could not be read.

use crate::decision::DecisionInputs;
use crate::messages::say;
use kerf_decide::Forecast;
use kerf_disruption::{Object, Obstacle};
use kerf_model::budget::DisruptionReason;
use kerf_model::node::Node;
use std::sync::Arc;

/// The commands a controller would start now, and everything that keeps the other nodes: all of them, or `only` one by its index.
pub(crate) fn forecast(inputs: &DecisionInputs, only: Option<usize>) -> Forecast {
    let mut forecast = kerf_decide::forecast(&inputs.view(), only);
    for violations in &forecast.refused_plans {
        say!("note: a plan breaks a rule and is not carried out: {violations}");
    }
    for (index, obstacles) in &mut forecast.obstacles {
        let Some(node) = inputs.snapshot.nodes.get(*index) else {
            continue;
        };
        if !obstacles.iter().any(is_last_word) {
            // Like others that block every voluntary disruption, before what keeps consolidation alone.
            let at = obstacles.iter().position(|obstacle| obstacle.reason.is_some());
            let at = at.unwrap_or(obstacles.len());
            obstacles.splice(at..at, inputs.unread_obstacles(node));
        }
        if obstacles.is_empty() {
            obstacles.push(later(node));
        }
    }
    forecast
}

/// Whether nothing else matters: the node is going anyway, or is not ours.
fn is_last_word(obstacle: &Obstacle) -> bool {
    matches!(obstacle.code, "Queued" | "Unmanaged" | "Deleting")
}

/// Nothing keeps the node but that others go first.
fn later(node: &Node) -> Obstacle {
    Obstacle {
        code: "Later",
        reason: Some(DisruptionReason::Underutilized),
        objects: vec![Object {
            kind: "Node",
            namespace: Arc::from(""),
            name: Arc::clone(&node.name),
        }],
        message: "Consolidation would take it too, but carries out one command at a time".to_owned(),
        remedy: "none: its turn comes once the nodes that go now are gone".to_owned(),
    }
}
