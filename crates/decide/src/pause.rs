//! The pause of consolidation after a command that removes many nodes (deviation at DIS-104).
//!
//! Pods that were moved keep the nodes they are on now out of consolidation for `consolidateAfter`. A search meanwhile sees only the rest of
//! the cluster: it finds many small commands instead of a few large ones, and removes nodes that pods were just moved to.

use crate::inputs::Inputs;
use jiff::{SignedDuration, Timestamp};
use kerf_units::duration::GoDuration;
use std::time::Duration;

/// The time after the start of a command in which most of its pods are evicted and bound elsewhere.
const BINDING: Duration = Duration::from_secs(15);
/// NodePools whose `consolidateAfter` is longer cause no pause: it would keep back savings for too long.
const CONSOLIDATE_AFTER_MAX: Duration = Duration::from_secs(60);
/// Commands that together remove less than this part of the managed nodes cause no pause. With `day` of the controllers' benches and `KERF_DAY_LIFE=1`, a
/// cluster that shrinks from 6,000 pods to 2,400 has 2,274 evictions with 1/50, 2,324 with 1/20, 2,374 with no bound, and 3,162 without pauses.
const MANY_NODES: usize = 50;

/// When consolidation may search again: `consolidateAfter` after the pods of the last command that removed several nodes were bound elsewhere.
/// `None` if no such command started lately, or if the commands since removed few of the nodes.
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
        one.nodes > 1 && passed < pause
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
