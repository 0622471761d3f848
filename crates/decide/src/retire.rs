//! Retirement of blocked nodes: which nodes should take no more pods (`kerf.sh/retire-blocked` on their pool).

use crate::inputs::Inputs;
use crate::memory::Memory;
use kerf_disruption::{Class, SimulationError, consolidation_options, is_retiring, retiring};

/// The nodes, by ascending index in the snapshot, that should carry the taint of retiring nodes; `None` if no pool asks for it and no node
/// carries it.
pub fn retire(inputs: &Inputs<'_>, memory: &mut Memory) -> Result<Option<Vec<usize>>, SimulationError> {
    let snapshot = inputs.snapshot;
    let asked_for = snapshot.pools.iter().any(|pool| pool.disruption.retire_blocked);
    if !asked_for && !snapshot.nodes.iter().any(|node| is_retiring(node)) {
        return Ok(None);
    }
    let sorted = memory.candidates.sort(inputs, Class::Graceful);
    let options = consolidation_options(&inputs.settings.solver);
    retiring(snapshot, &sorted.candidates, &inputs.closed(), inputs.now, &options).map(Some)
}
