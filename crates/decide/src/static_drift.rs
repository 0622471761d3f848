//! Replacing drifted nodes of pools with a fixed number of nodes (DIS-249 to DIS-254).

use crate::inputs::Inputs;
use kerf_disruption::{Allowance, Candidate, Command, Replicas, static_drift};

/// One command for every drifted node that its pool's budget and limit let go now. There are none with the gate `StaticCapacity` off: no
/// controller would keep the number of nodes.
pub(crate) fn replace_drifted(inputs: &Inputs<'_>, drifted: &[Candidate], allowance: &Allowance) -> Vec<Command> {
    if !inputs.settings.static_capacity {
        return Vec::new();
    }
    let pools = &inputs.in_flight.static_pools;
    let replicas = |pool: &kerf_model::nodepool::NodePool| {
        let pool = pools.get(&pool.name)?;
        Some(Replicas {
            wanted: pool.replicas,
            staying: pool.staying,
        })
    };
    let of_pools = static_drift(drifted, allowance, &replicas).into_iter();
    let commands = of_pools.flat_map(|drift| {
        let room = pools.get(&drift.pool.name).map_or(0, |pool| pool.room);
        drift.commands(room)
    });
    commands.collect()
}
