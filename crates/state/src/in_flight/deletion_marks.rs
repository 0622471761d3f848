//! Machines that disruption commands hold (SCH-067).

use crate::key::MachineKey;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The provider ids of the machines.
#[derive(Default, Debug)]
pub(crate) struct DeletionMarks(BTreeSet<Arc<str>>);

impl DeletionMarks {
    /// Marks a machine; false if it was marked before.
    pub(crate) fn insert(&mut self, provider_id: &Arc<str>) -> bool {
        self.0.insert(Arc::clone(provider_id))
    }

    /// Removes the mark; false if there was none.
    pub(crate) fn remove(&mut self, provider_id: &str) -> bool {
        self.0.remove(provider_id)
    }

    /// Whether a provider id is marked.
    pub(crate) fn contains(&self, provider_id: &str) -> bool {
        self.0.contains(provider_id)
    }

    /// Whether a machine is marked. Only machines with a provider id can be.
    pub(crate) fn has(&self, machine: &MachineKey) -> bool {
        matches!(machine, MachineKey::Provider(id) if self.0.contains(id))
    }

    /// Forgets a machine that is gone.
    pub(crate) fn forget(&mut self, machine: &MachineKey) {
        if let MachineKey::Provider(id) = machine {
            self.0.remove(id);
        }
    }
}
