//! The pause of consolidation after a command that removes many nodes (deviation at DIS-104).
//!
//! Pods that were moved keep the nodes they are on now out of consolidation for `consolidateAfter`. A search meanwhile sees only the rest of
//! the cluster: it finds many small commands instead of a few large ones, and removes nodes that pods were just moved to.

use crate::inputs::Inputs;
use jiff::{SignedDuration, Timestamp};
use kerf_disruption::settles_at;
use kerf_model::node::Node;
use kerf_units::duration::GoDuration;
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

/// The time after the start of a command in which most of its pods are evicted and bound elsewhere. With the 15 s of validation and a
/// `consolidateAfter` of 30 s, consolidation decides once a minute; `docs/packing.md` has what that saves.
const BINDING: Duration = Duration::from_secs(15);
/// The longest such time. kube-scheduler on two cores took 45 s for a thousand pods.
const BINDING_MAX: Duration = Duration::from_secs(60);
/// Consolidation waits longer than [`BINDING`] while more than this part of the managed nodes got pods after the command.
const UNSETTLED_NODES: usize = 10;
/// NodePools whose `consolidateAfter` is longer cause no pause: it would keep back savings for too long.
const CONSOLIDATE_AFTER_MAX: Duration = Duration::from_secs(60);
/// Commands that together remove less than this part of the managed nodes cause no pause. The bench `day` with `KERF_DAY_LIFE=1` and seed 7 has
/// 2,200 to 2,270 evictions with a fiftieth, 2,324 with a twentieth, 2,374 where every command of several nodes causes a pause, and 3,162 without pauses.
const MANY_NODES: usize = 50;
/// Neither do commands that together remove fewer nodes than this: their pods are bound within seconds. In the bench `day`, where about 30 nodes
/// run, pauses after such commands cost 1 % and save no eviction.
const NODES_MIN: usize = 5;

/// The time from which consolidation may search: 15 s and the longest `consolidateAfter` after the last command of several nodes started, or up to
/// 45 s later, when nine tenths of the nodes have settled.
/// `None` if it may search now: no such command started lately, those that did removed few of the nodes, or no NodePool has a
/// `consolidateAfter` of a minute or less.
pub(crate) fn paused_until(inputs: &Inputs<'_>) -> Option<Timestamp> {
    let limit = GoDuration::from_std(CONSOLIDATE_AFTER_MAX);
    let pools = inputs.snapshot.pools.iter();
    let after = pools
        .filter_map(|pool| pool.disruption.consolidate_after)
        .filter(|after| *after > GoDuration::ZERO && *after <= limit)
        .max()?;
    let from_start = |binding| {
        Some(
            SignedDuration::try_from(binding)
                .ok()?
                .saturating_add(after.to_signed()),
        )
    };
    let (pause, longest) = (from_start(BINDING)?, from_start(BINDING_MAX)?);
    // A move in the future was recorded before the clock was set back.
    let moves = inputs.in_flight.moves.iter();
    let moves = moves.filter(|one| one.nodes > 1 && one.at <= inputs.now);
    let last = moves.clone().map(|one| one.at).max()?;
    if inputs.now.duration_since(last) >= longest {
        return None;
    }
    let together = moves.filter(|one| last.duration_since(one.at) < pause);
    let removed: usize = together.map(|one| one.nodes).sum();
    let managed = inputs.snapshot.nodes.iter().filter(|node| node.managed);
    if removed < NODES_MIN.max(managed.clone().count().div_ceil(MANY_NODES)) {
        return None;
    }
    let at = |pause| last.checked_add(pause).unwrap_or(Timestamp::MAX);
    let settled = settled(managed, last, after).unwrap_or(at(pause));
    Some(settled.clamp(at(pause), at(longest))).filter(|until| *until > inputs.now)
}

/// When nine tenths of the nodes have settled that had pods bound or removed since a command started. `None` if they have not been so many.
fn settled<'a>(
    nodes: impl Iterator<Item = &'a Arc<Node>> + Clone,
    started: Timestamp,
    after: GoDuration,
) -> Option<Timestamp> {
    let tenth = nodes.clone().count() / UNSETTLED_NODES;
    let life = nodes.map(|node| &node.lifecycle);
    let busy = life.filter(|life| life.last_pod_event.is_some_and(|event| event >= started));
    let mut settle: Vec<Timestamp> = busy
        .filter_map(|life| settles_at(life.initialized_at, life.last_pod_event, after))
        .collect();
    settle.sort_unstable_by_key(|at| Reverse(*at));
    settle.get(tenth).copied()
}
