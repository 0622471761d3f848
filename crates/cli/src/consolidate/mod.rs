//! What consolidation would do now, and why everything else stays: one look at a snapshot, as the controller's loop would take it.

mod guards;
mod report;
mod table;
mod unread;

pub(crate) use guards::{Guards, budget_faults, void_annotations};
pub(crate) use report::{ConsolidationReport, MoveReport, NodeName, ObstacleReport};
pub(crate) use table::render;

use crate::decision;
use jiff::Timestamp;
use kerf_controllers::violations;
use kerf_disruption::{
    Allowance, Balance, Candidates, Class, Command, Consolidation, DestinationRule, Explainer, Object, Obstacle,
    Settings, Survey, WhatIf, candidates, consolidation_options, emptiness, empty, interleaved, unchecked,
    underutilized,
};
use kerf_model::budget::DisruptionReason;
use kerf_model::node::Node;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::Options;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a look found.
pub(crate) struct Look {
    /// Commands in the order in which they would be carried out.
    pub(crate) moves: Vec<Command>,
    /// Nodes that stay, by index in the snapshot, with what keeps each.
    pub(crate) stays: Vec<(usize, Vec<Obstacle>)>,
}

/// What is looked at, and how.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) guards: &'a Guards,
    pub(crate) settings: &'a decision::Settings,
}

/// Looks at a snapshot: empty nodes go first, and what is left of the others is consolidated, several at once or else one. What keeps nodes
/// is told of all of them, or of `only` one by its index.
pub(crate) fn look(view: &View<'_>, only: Option<usize>) -> Look {
    let View {
        guards,
        settings:
            decision::Settings {
                now,
                options,
                spot_to_spot,
                ..
            },
        ..
    } = *view;
    let now = *now;
    let queued = |node: &Node| guards.is_held(node);
    let mut rest = view.snapshot.clone();
    // As a running controller has them: on their way out, so that budgets count them and their pods need places.
    let held: Vec<usize> = indices(view.snapshot, queued);
    mark(&mut rest, held);
    let sort = |snapshot: &Snapshot| {
        let mut sorted = candidates(snapshot, now, Class::Graceful, &queued);
        sorted
            .free
            .retain(|candidate| !guards.may_protect(&candidate.node, now));
        sorted
    };
    let (eligible, _) = empty(&sort(&rest).free);
    let mut allowance = Allowance::new(&rest, DisruptionReason::Empty, now);
    let mut moves: Vec<Command> = emptiness(&eligible, &mut allowance).into_iter().collect();
    let emptied = moves.iter().flat_map(|command| &command.candidates);
    mark(&mut rest, emptied.map(|candidate| candidate.index));
    let after = sort(&rest);
    let mut closed = DestinationRule::default().closed(&rest, now);
    closed.extend(indices(&rest, |node| guards.take_room(node)));
    let solver = consolidation_options(options);
    let what_if = WhatIf::new(&rest, closed, now, &solver).ok();
    let balance = Balance::new(&rest, &after.free);
    let checker = checker(&solver);
    let consolidation = what_if.as_ref().map(|what_if| Consolidation {
        what_if,
        balance: &balance,
        settings: Settings {
            spot_to_spot: *spot_to_spot,
            threads: options.threads,
            ..Settings::default()
        },
        checker: &checker,
    });
    if let Some(consolidation) = &consolidation {
        moves.extend(consolidate(consolidation, &rest, &after, now));
    }
    let gone: BTreeSet<usize> = moves
        .iter()
        .flat_map(|command| &command.candidates)
        .map(|candidate| candidate.index)
        .collect();
    // A plan is checked before it is carried out. To check those of all nodes whose turn comes later takes longer than to find them.
    let moving = only.is_none() && !moves.is_empty();
    let told = consolidation.map(|all| Consolidation {
        checker: if moving { &unchecked } else { all.checker },
        ..all
    });
    let explainer = Explainer {
        now,
        queued: &queued,
        empty: &allowance,
        underutilized: &Allowance::new(&rest, DisruptionReason::Underutilized, now),
        consolidation: told.as_ref(),
    };
    let asked = rest.nodes.iter().enumerate();
    let asked = asked.filter(|(index, _)| !gone.contains(index) && only.is_none_or(|only| only == *index));
    let stays = asked.map(|(index, node)| {
        let mut obstacles = explainer.why_not(&rest, index);
        if !obstacles.iter().any(is_last_word) {
            // Like others that block every voluntary disruption, before what keeps consolidation alone.
            let at = obstacles.iter().position(|obstacle| obstacle.reason.is_some());
            let at = at.unwrap_or(obstacles.len());
            obstacles.splice(at..at, guards.obstacles(node, now));
        }
        if obstacles.is_empty() {
            obstacles.push(later(node));
        }
        (index, obstacles)
    });
    let stays = stays.collect();
    Look { moves, stays }
}

fn indices(snapshot: &Snapshot, which: impl Fn(&Node) -> bool) -> Vec<usize> {
    let nodes = snapshot.nodes.iter().enumerate();
    nodes.filter(|(_, node)| which(node)).map(|(index, _)| index).collect()
}

/// Marks nodes as going.
fn mark(snapshot: &mut Snapshot, nodes: impl IntoIterator<Item = usize>) {
    for index in nodes {
        if let Some(node) = snapshot.nodes.get_mut(index) {
            Arc::make_mut(node).marked_for_deletion = true;
        }
    }
}

/// One command, as the controller carries out one at a time.
fn consolidate(
    consolidation: &Consolidation<'_>,
    snapshot: &Snapshot,
    sorted: &Candidates,
    now: Timestamp,
) -> Option<Command> {
    let never = || false;
    let (eligible, _) = underutilized(snapshot, &sorted.free);
    let allowance = || Allowance::new(snapshot, DisruptionReason::Underutilized, now);
    let multi = consolidation.multi(&eligible, &mut allowance(), &never);
    multi.command.or_else(|| {
        let order = interleaved(&eligible, &BTreeSet::new());
        consolidation
            .single(&order, &allowance(), &Survey::default(), &never)
            .command
    })
}

/// The plan checker as consolidation asks it.
fn checker(options: &Options) -> impl Fn(&Snapshot, &[Arc<Pod>], &Plan) -> Result<(), String> + Sync {
    move |snapshot, pods, plan| match violations(snapshot, pods, plan, options).first() {
        None => Ok(()),
        Some(violation) => Err(violation.to_string()),
    }
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
