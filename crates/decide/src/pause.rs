//! The pause of consolidation after a command that removes many nodes (deviation at DIS-104).
//!
//! Pods that were moved keep the nodes they are on now out of consolidation for `consolidateAfter`. A search meanwhile sees only the rest of
//! the cluster: it finds many small commands instead of a few large ones, and removes nodes that pods were just moved to.

use crate::inputs::Inputs;
use jiff::{SignedDuration, Timestamp};
use kerf_units::duration::GoDuration;
use std::time::Duration;

/// The time after the start of a command in which most of its pods are evicted and bound elsewhere. With the 15 s of validation and a
/// `consolidateAfter` of 30 s, consolidation decides once a minute; `docs/packing.md` has what that saves.
const BINDING: Duration = Duration::from_secs(15);
/// NodePools whose `consolidateAfter` is longer cause no pause: it would keep back savings for too long.
const CONSOLIDATE_AFTER_MAX: Duration = Duration::from_secs(60);
/// Commands that together remove less than this part of the managed nodes cause no pause. The bench `day` with `KERF_DAY_LIFE=1` and seed 7 has
/// 2,200 to 2,270 evictions with a fiftieth, 2,324 with a twentieth, 2,374 where every command of several nodes causes a pause, and 3,162 without pauses.
const MANY_NODES: usize = 50;

/// The time from which consolidation may search: 15 s and the longest `consolidateAfter` after the last command of several nodes started.
/// `None` if it may search now: no such command started lately, those that did removed few of the nodes, or no NodePool has a
/// `consolidateAfter` of a minute or less.
pub(crate) fn paused_until(inputs: &Inputs<'_>) -> Option<Timestamp> {
    let limit = GoDuration::from_std(CONSOLIDATE_AFTER_MAX);
    let pools = inputs.snapshot.pools.iter();
    let after = pools
        .filter_map(|pool| pool.disruption.consolidate_after)
        .filter(|after| *after > GoDuration::ZERO && *after <= limit)
        .max()?;
    let pause = SignedDuration::try_from(BINDING)
        .ok()?
        .saturating_add(after.to_signed());
    let recent = inputs.in_flight.moves.iter().filter(|one| {
        let passed = inputs.now.duration_since(one.at);
        // A move in the future was recorded before the clock was set back.
        one.nodes > 1 && passed < pause && !passed.is_negative()
    });
    let (mut removed, mut last) = (0, None);
    for one in recent {
        removed += one.nodes;
        last = last.max(Some(one.at));
    }
    let managed = inputs.snapshot.nodes.iter().filter(|node| node.managed).count();
    let until = last?.checked_add(pause).unwrap_or(Timestamp::MAX);
    (removed.saturating_mul(MANY_NODES) >= managed).then_some(until)
}
