//! The room that the replacement of a static pool's node holds until its command has started (LIF-211, LIF-213).

use std::sync::Arc;

use kerf_disruption::Command;

use crate::cluster::Cluster;
use crate::context::Context;
use crate::static_capacity::Reservation;

/// A claim whose replacement is being made, and the room for it under the pool's limit. Dropping it ends both; by then the claim is
/// marked for deletion and the replacement counts itself, or the command has failed and all is as before.
pub(super) struct StaticReplacement {
    cluster: Cluster,
    claim: Arc<str>,
    _room: Reservation,
}

impl StaticReplacement {
    /// Reserves the room for a command's replacement; `None` if the pool's limit leaves none any more.
    pub(super) fn reserve(context: &Context, command: &Command) -> Option<Self> {
        let candidate = command.candidates.first()?;
        let pool = context.cluster.pool(&candidate.pool.name)?;
        let room = Reservation::take(&context.cluster, &candidate.pool.name, pool.spec.node_limit(), 1)?;
        let claim = Arc::clone(candidate.claim());
        context.cluster.set_pending_disruption(&claim, true);
        Some(Self {
            cluster: context.cluster.clone(),
            claim,
            _room: room,
        })
    }
}

impl Drop for StaticReplacement {
    fn drop(&mut self) {
        self.cluster.set_pending_disruption(&self.claim, false);
    }
}
