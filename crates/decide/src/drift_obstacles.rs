//! Why a drifted node is not replaced yet.

use crate::candidate_cache::SortedNodes;
use crate::inputs::Inputs;
use kerf_disruption::{Allowance, Candidate, Class, Object, Obstacle, ObstacleKind, WhatIf, what_if_options};
use kerf_model::budget::DisruptionReason;
use kerf_model::in_flight::StaticPool;
use kerf_model::nodepool::Eligibility;
use std::sync::Arc;

/// The obstacles to the replacement of drifted nodes, apart from those to every voluntary disruption.
pub(crate) struct DriftObstacles<'a> {
    inputs: &'a Inputs<'a>,
    /// The candidates of methods that may end a node in spite of its pods.
    sorted: SortedNodes,
    allowance: Allowance,
}

impl<'a> DriftObstacles<'a> {
    pub(crate) fn new(inputs: &'a Inputs<'a>) -> Self {
        Self {
            inputs,
            sorted: SortedNodes::new(inputs, Class::Eventual),
            allowance: Allowance::new(inputs.snapshot, DisruptionReason::Drifted, inputs.now),
        }
    }

    /// Adds to the obstacles of a node those of its replacement for drift, if it drifted.
    pub(crate) fn add(&self, index: usize, obstacles: &mut Vec<Obstacle>) {
        let mut candidates = self.sorted.candidates.free.iter();
        let candidate = candidates.find(|candidate| candidate.index == index);
        // A node that is no candidate is blocked for every reason; that obstacle is listed already.
        let Some(candidate) = candidate.filter(|candidate| candidate.node.lifecycle.drifted.is_some()) else {
            return;
        };
        // Pods that would block a node without a termination grace period do not keep it from being replaced (DIS-038, DIS-039).
        let of_pods = |obstacle: &&mut Obstacle| obstacle.kind == ObstacleKind::Pods;
        for of_pods in obstacles.iter_mut().filter(of_pods) {
            of_pods.reason = Some(DisruptionReason::Underutilized);
        }
        obstacles.extend(self.of(candidate));
    }

    fn of(&self, candidate: &Candidate) -> Vec<Obstacle> {
        let mut all: Vec<Obstacle> = self.budget(candidate).into_iter().collect();
        if candidate.pool.eligibility == Eligibility::Static {
            let static_pools = &self.inputs.in_flight.static_pools;
            let gate = self.inputs.settings.static_capacity;
            all.extend(of_static_pool(candidate, static_pools.get(&candidate.pool.name), gate));
        } else {
            all.extend(self.no_place(candidate));
        }
        all
    }

    fn budget(&self, candidate: &Candidate) -> Option<Obstacle> {
        let mut pools = self.allowance.pools();
        let of_pool = pools.find(|pool| pool.pool == candidate.pool.name);
        let is_invalid = of_pool.is_some_and(|pool| pool.fault.is_some());
        if is_invalid || self.allowance.left(&candidate.pool.name) > 0 {
            return None;
        }
        let remedy = match of_pool {
            Some(pool) if pool.allowed == 0 => {
                "raise spec.disruption.budgets for Drifted, which allow no node to go now, or wait until a schedule of theirs has ended"
            }
            _ => {
                "wait until disrupted nodes are gone and others are ready, or raise spec.disruption.budgets for Drifted"
            }
        };
        Some(Obstacle {
            code: "Budget",
            message: format!("NodePool \"{}\" has no disruption budget left", candidate.pool.name),
            remedy: remedy.to_owned(),
            ..about("NodePool", &candidate.pool.name)
        })
    }

    /// The pods that would have no place without the node (DIS-241).
    fn no_place(&self, candidate: &Candidate) -> Option<Obstacle> {
        let inputs = self.inputs;
        let options = what_if_options(&inputs.settings.solver);
        let simulation = WhatIf::new(inputs.snapshot, Vec::new(), inputs.now, &options)
            .and_then(|what_if| what_if.without(&[candidate]));
        Some(match simulation {
            Ok(simulation) => Obstacle {
                code: "Unplaceable",
                message: simulation.failure()?,
                remedy: "make room or relax the constraints of the pods named".to_owned(),
                ..about("Node", &candidate.node.name)
            },
            Err(error) => Obstacle {
                code: "NoSimulation",
                message: error.to_string(),
                remedy: "make some NodePool without replicas Ready".to_owned(),
                ..about("Node", &candidate.node.name)
            },
        })
    }
}

/// The obstacle to the replacement of a drifted node of a static pool (DIS-249 to DIS-252).
fn of_static_pool(candidate: &Candidate, counts: Option<&StaticPool>, gate: bool) -> Option<Obstacle> {
    let pool = &candidate.pool.name;
    let about = || about("NodePool", pool);
    if !gate {
        return Some(Obstacle {
            code: "StaticCapacityDisabled",
            message: format!("StaticCapacity is disabled, nodes of static NodePool \"{pool}\" are not replaced"),
            remedy: "switch the feature gate StaticCapacity on".to_owned(),
            ..about()
        });
    }
    let counts = counts?;
    if counts.staying > counts.replicas {
        return Some(Obstacle {
            code: "MoreThanReplicas",
            message: format!(
                "NodePool \"{pool}\" has {} nodes instead of {}; it shrinks before drifted nodes are replaced",
                counts.staying, counts.replicas
            ),
            remedy: "wait until nodes beyond spec.replicas are gone".to_owned(),
            ..about()
        });
    }
    (counts.room == 0).then(|| Obstacle {
        code: "NoRoomForReplacement",
        message: format!(
            "NodePool \"{pool}\" has as many nodes as spec.limits.nodes allows; a replacement needs one more"
        ),
        remedy: "raise spec.limits.nodes above spec.replicas".to_owned(),
        ..about()
    })
}

/// An obstacle to replacement for drift that names one object.
fn about(kind: &'static str, name: &Arc<str>) -> Obstacle {
    let object = Object::cluster_wide(kind, name);
    Obstacle {
        kind: ObstacleKind::Plain,
        code: "",
        reason: Some(DisruptionReason::Drifted),
        objects: vec![object],
        message: String::new(),
        remedy: String::new(),
    }
}
