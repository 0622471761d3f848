//! The cheapest nodes for the pods that run today, and the commands that lead to them.

use crate::candidate_cache::SortedNodes;
use crate::carried_out::{carry_out, freed, price};
use crate::disrupt::disrupt;
use crate::inputs::{Inputs, Settings};
use crate::memory::Memory;
use crate::method::Method;
use kerf_disruption::{Candidate, Class, Command, empty};
use kerf_model::in_flight::InFlight;
use kerf_model::plan::Launch;
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Prepared, ReservedMode, WhatIf};
use kerf_units::policy::CommandsPerPass;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest number of rounds. Each round makes the cluster cheaper or smaller, so the loop ends without this bound, too.
const ROUNDS_MAX: usize = 1000;

/// The nodes of today compared with the cheapest ones for the same pods.
#[derive(Debug)]
pub struct Rebalance {
    /// What the nodes cost per hour, as far as their prices are known.
    pub before: Price,
    /// The number of nodes.
    pub nodes: usize,
    /// The cheapest nodes for the pods, however many moves it takes. `None` where some pod would have no place.
    pub target: Option<RebalanceTarget>,
    /// The commands in an order in which each may start once those before it are carried out.
    pub steps: Vec<RebalanceStep>,
}

/// The nodes that a plan for all pods at once has.
#[derive(Debug)]
pub struct RebalanceTarget {
    /// What all nodes cost per hour.
    pub price: Price,
    /// How many of today's nodes stay because disruption may not choose them.
    pub staying: usize,
    /// The nodes that take the place of the others.
    pub launches: Vec<Launch>,
}

/// A command, and the cluster after it.
#[derive(Debug)]
pub struct RebalanceStep {
    /// The command. Nodes that earlier steps launch are named `{new-000001}`, `{new-000002}` and so on.
    pub command: Command,
    /// The pass of disruption it is part of, counted from one. Commands of one pass may start together.
    pub pass: usize,
    /// What the nodes cost per hour after it.
    pub price: Price,
    /// The number of nodes after it.
    pub nodes: usize,
}

impl Rebalance {
    /// What the nodes cost per hour after all steps.
    pub fn after(&self) -> Price {
        self.steps.last().map_or(self.before, |step| step.price)
    }
}

/// Finds the cheapest nodes for the pods that run, and the commands that lead towards them. Each command is one that [`disrupt`] chooses, so that
/// budgets, PodDisruptionBudgets and everything else that blocks a node hold at every step.
///
/// Assumed are pods that stay as they are, kube-scheduler following the plans, providers giving the cheapest type, and `consolidateAfter` having
/// passed. Pods that wait and nodes that drifted are left out.
pub fn rebalance(inputs: &Inputs<'_>) -> Rebalance {
    let mut snapshot = Arc::new(settled(inputs.snapshot));
    let in_flight = InFlight {
        static_pools: inputs.in_flight.static_pools.clone(),
        ..InFlight::default()
    };
    let settings = Settings {
        commands_per_pass: CommandsPerPass::Independent,
        ..inputs.settings.clone()
    };
    let first = Inputs {
        snapshot: &snapshot,
        in_flight: &in_flight,
        settings: &settings,
        now: inputs.now,
    };
    let mut rebalance = Rebalance {
        before: price(&snapshot),
        nodes: snapshot.nodes.len(),
        target: target(&first),
        steps: Vec::new(),
    };
    let mut launched = 0;
    for pass in 1..=ROUNDS_MAX {
        let now = Inputs {
            snapshot: &snapshot,
            in_flight: &in_flight,
            settings: &settings,
            now: inputs.now,
        };
        let round = disrupt(&now, Method::ORDER[0], &mut Memory::default(), &());
        let commands = round.evaluations.into_iter().flat_map(|evaluation| evaluation.commands);
        let mut any = false;
        for command in commands.collect::<Vec<_>>() {
            let after = carry_out(&snapshot, std::slice::from_ref(&command), &mut launched);
            let before = (price(&snapshot), snapshot.nodes.len());
            if (price(&after), after.nodes.len()) >= before {
                continue;
            }
            snapshot = Arc::new(after);
            any = true;
            rebalance.steps.push(RebalanceStep {
                command,
                pass,
                price: price(&snapshot),
                nodes: snapshot.nodes.len(),
            });
        }
        if !any {
            break;
        }
    }
    rebalance
}

/// The cluster at rest: no pod waits, no node drifted or is nominated, and `consolidateAfter` has passed everywhere.
fn settled(snapshot: &Snapshot) -> Snapshot {
    let mut settled = snapshot.clone();
    settled.pending.clear();
    settled.untried.clear();
    for node in settled.nodes.iter_mut().filter(|node| node.managed) {
        let node = Arc::make_mut(node);
        node.nominated_until = None;
        node.lifecycle.drifted = None;
        node.lifecycle.consolidatable = true;
    }
    settled
}

/// The cheapest nodes for the pods of all nodes that consolidation may choose, with the other nodes as they are.
fn target(inputs: &Inputs<'_>) -> Option<RebalanceTarget> {
    let snapshot = inputs.snapshot;
    let sorted = SortedNodes::new(inputs, Class::Graceful);
    let (empty, _) = empty(&sorted.candidates.free);
    let (underutilized, _) = sorted.underutilized();
    let movable: BTreeMap<usize, &Candidate> = empty
        .iter()
        .chain(underutilized)
        .map(|candidate| (candidate.index, candidate))
        .collect();
    let indices: Vec<usize> = movable.keys().copied().collect();
    let pods: Vec<Arc<Pod>> = movable
        .values()
        .flat_map(|candidate| &candidate.pods)
        .cloned()
        .collect();
    let mut options = inputs.settings.solver.clone();
    options.reserved = ReservedMode::Fallback;
    let freed = freed(snapshot, &indices);
    let what_if = WhatIf {
        pods: &pods,
        exclude_nodes: &indices,
        settling_nodes: &[],
        freed: &freed,
    };
    let plan = Prepared::new(snapshot, &options).solve(&what_if, &options, &|| false);
    if plan.left_over() > 0 || !plan.ignored.is_empty() {
        return None;
    }
    let launched = plan.price();
    let moved: Price = movable.values().map(|candidate| candidate.price).sum();
    Some(RebalanceTarget {
        price: price(snapshot) - moved + launched,
        staying: snapshot.nodes.len() - indices.len(),
        launches: plan.launches,
    })
}
