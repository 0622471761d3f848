//! The machines of a cluster, from look to look: what they cost, and which have gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;

use super::shadow_record::Machine;

/// The machines as they were at the last look, by NodeClaim.
#[derive(Debug, Default)]
pub(super) struct Machines {
    staying: BTreeMap<Arc<str>, Machine>,
    cost: Option<(usize, Price)>,
}

/// What one look finds.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MachineChange {
    /// The machines that began to go, or are gone, by NodeClaim.
    pub(super) ended: Vec<(Arc<str>, Machine)>,
    /// How many machines there are and what they cost per hour, if that has changed.
    pub(super) cost: Option<(usize, Price)>,
}

impl Machines {
    /// Looks at the cluster.
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
