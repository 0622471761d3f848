//! Replacing drifted nodes of pools with a fixed number of nodes (DIS-249 to DIS-254).

use crate::inputs::Inputs;
use kerf_disruption::{Allowance, Candidate, Command, static_drift};

/// One command for every drifted node that its pool's budget and limit let go now. There are none with the gate `StaticCapacity` off: no
/// controller would keep the number of nodes.
pub(crate) fn replace_drifted(inputs: &Inputs<'_>, drifted: &[Candidate], allowance: &Allowance) -> Vec<Command> {
    if !inputs.settings.static_capacity {
        return Vec::new();
    }
    static_drift(drifted, allowance, &inputs.in_flight.static_pools)
}
