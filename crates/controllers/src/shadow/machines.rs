//! Compares the machines of a cluster between two observations: their cost, and the machines that are gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;

use super::shadow_record::Machine;

/// The machines at the last observation, by NodeClaim.
#[derive(Debug, Default)]
pub(super) struct Machines {
    staying: BTreeMap<Arc<str>, Machine>,
    cost: Option<(usize, Price)>,
}

/// The changes since the last observation.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MachineChange {
    /// The machines whose deletion began, or that are gone, by NodeClaim.
    pub(super) ended: Vec<(Arc<str>, Machine)>,
    /// The number of machines and their price per hour, if one of them has changed.
    pub(super) cost: Option<(usize, Price)>,
}

impl Machines {
    /// Takes the machines of a snapshot and returns the changes.
    pub(super) fn update(&mut self, snapshot: &Snapshot) -> MachineChange {
        let managed = || snapshot.nodes.iter().filter(|node| node.managed);
        let staying = managed().filter(|node| !node.lifecycle.deleting);
        let staying: BTreeMap<Arc<str>, Machine> = staying
            .filter_map(|node| {
                let claim = Arc::clone(node.claim_name.as_ref()?);
                Some((claim, Machine::of_node(node, &snapshot.interner)))
            })
            .collect();
        let before = std::mem::replace(&mut self.staying, staying);
        let ended = before
            .into_iter()
            .filter(|(claim, _)| !self.staying.contains_key(claim));
        let ended = ended.collect();
        // A machine that drains is paid for until it is gone.
        let cost = (managed().count(), managed().filter_map(|node| node.price).sum());
        let changed = self.cost != Some(cost);
        self.cost = Some(cost);
        MachineChange {
            ended,
            cost: changed.then_some(cost),
        }
    }
}
