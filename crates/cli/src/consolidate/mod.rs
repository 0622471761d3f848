//! What consolidation would do now, and why everything else stays: one look at a snapshot, as the controller's loop would take it.

mod report;
mod table;

pub(crate) use report::{ConsolidationReport, MoveReport, NodeName, ObstacleReport};
pub(crate) use table::render;

use jiff::Timestamp;
use kerf_disruption::{
    Allowance, Balance, Candidates, Class, Command, Consolidation, DestinationRule, Explainer, Object, Obstacle,
    Settings, Survey, WhatIf, candidates, consolidation_options, emptiness, empty, interleaved, underutilized,
};
use kerf_model::budget::DisruptionReason;
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

/// Looks at a snapshot: empty nodes go first, and what is left of the others is consolidated, several at once or else one.
pub(crate) fn look(snapshot: &Snapshot, options: &Options, spot_to_spot: bool, now: Timestamp) -> Look {
    let nobody = |_: &kerf_model::node::Node| false;
    let sorted = candidates(snapshot, now, Class::Graceful, &nobody);
    let (eligible, _) = empty(&sorted.free);
    let mut allowance = Allowance::new(snapshot, DisruptionReason::Empty, now);
    let mut moves: Vec<Command> = emptiness(&eligible, &mut allowance).into_iter().collect();
    let mut rest = snapshot.clone();
    for candidate in moves.iter().flat_map(|command| &command.candidates) {
        if let Some(node) = rest.nodes.get_mut(candidate.index) {
            Arc::make_mut(node).marked_for_deletion = true;
        }
    }
    let after = candidates(&rest, now, Class::Graceful, &nobody);
    let closed = DestinationRule::default().closed(&rest, now);
    let what_if = WhatIf::new(&rest, closed, now, &consolidation_options(options)).ok();
    let balance = Balance::new(&rest, &after.free);
    let checker = checker(options);
    let consolidation = what_if.as_ref().map(|what_if| Consolidation {
        what_if,
        balance: &balance,
        settings: Settings {
            spot_to_spot,
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
    let explainer = Explainer {
        sorted: &sorted,
        empty: &allowance,
        underutilized: &Allowance::new(&rest, DisruptionReason::Underutilized, now),
        consolidation: consolidation.as_ref(),
    };
    let stays = (0..snapshot.nodes.len())
        .filter(|index| !gone.contains(index))
        .map(|index| {
            let mut obstacles = explainer.why_not(&rest, index);
            if obstacles.is_empty() {
                obstacles.push(later(snapshot, index));
            }
            (index, obstacles)
        });
    let stays = stays.collect();
    Look { moves, stays }
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
    let check = crate::simulate::check_options(options);
    move |snapshot, pods, plan| match kerf_check::verify(snapshot, pods, plan, &check).first() {
        None => Ok(()),
        Some(violation) => Err(violation.to_string()),
    }
}

/// Nothing keeps the node but that others go first.
fn later(snapshot: &Snapshot, index: usize) -> Obstacle {
    let name = snapshot.nodes.get(index).map(|node| Arc::clone(&node.name));
    Obstacle {
        code: "Later",
        reason: Some(DisruptionReason::Underutilized),
        objects: vec![Object {
            kind: "Node",
            namespace: Arc::from(""),
            name: name.unwrap_or_else(|| Arc::from("")),
        }],
        message: "Consolidation would take it too, but carries out one command at a time".to_owned(),
        remedy: "nothing: its turn comes once the nodes that go now are gone".to_owned(),
    }
}
