//! Replacing drifted nodes of pools with a fixed number of nodes (DIS-249 to DIS-254).

use std::sync::Arc;

use kerf_disruption::{Allowance, Candidate, Replicas, static_drift};
use kerf_model::nodepool::NodePool;
use kerf_model::snapshot::Snapshot;

use super::methods::Decided;
use crate::cluster::Cluster;
use crate::context::Context;
use crate::static_capacity::{Reservation, replicas};

/// A claim whose replacement is being made, and the room for it under the pool's limit. Dropping it ends both; by then the claim is
/// marked as going and the replacement counts itself, or the command has failed and all is as before.
pub(super) struct Replacing {
    cluster: Cluster,
    claim: String,
    _room: Reservation,
}

impl Replacing {
    fn new(cluster: &Cluster, claim: &str, room: Reservation) -> Self {
        cluster.set_pending_disruption(claim, true);
        Self {
            cluster: cluster.clone(),
            claim: claim.to_owned(),
            _room: room,
        }
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        self.cluster.set_pending_disruption(&self.claim, false);
    }
}

/// One command for every drifted node that budget and limit let go now, pool by pool. Nothing is replaced with the gate off: nobody
/// would keep the number of nodes.
pub(super) fn replace(
    context: &Context,
    snapshot: &Arc<Snapshot>,
    drifted: &[Candidate],
    allowance: &Allowance,
) -> Vec<Decided> {
    if !context.options.feature_gates.static_capacity {
        return Vec::new();
    }
    let cluster = &context.cluster;
    let known = |pool: &NodePool| {
        let wanted = replicas(&*cluster.pool(&pool.name)?)?;
        let claims = cluster.pool_claims(&pool.name);
        let staying = claims.active.len() + claims.pending_disruption.len();
        Some(Replicas {
            wanted,
            staying: u64::try_from(staying).unwrap_or(u64::MAX),
        })
    };
    let mut decided = Vec::new();
    for drift in static_drift(drifted, allowance, &known) {
        let wanted = u64::try_from(drift.candidates.len()).unwrap_or(u64::MAX);
        let Some(mut room) = Reservation::take(cluster, &drift.pool.name, drift.limit(), wanted) else {
            continue;
        };
        for command in drift.commands(room.left()) {
            let claim = command.candidates.first().map_or("", Candidate::claim);
            let replacing = room.split().map(|room| Replacing::new(cluster, claim, room));
            decided.push(Decided {
                replacing,
                ..Decided::new(command, Arc::clone(snapshot))
            });
        }
    }
    decided
}
