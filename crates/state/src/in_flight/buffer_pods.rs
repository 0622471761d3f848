//! Where the last provisioning pass placed the virtual pods of CapacityBuffers.

use crate::key::MachineKey;
use std::collections::BTreeMap;

/// How many virtual pods there are by machine (SCH-394, LIF-206).
#[derive(Default, Debug)]
pub(crate) struct BufferPods(BTreeMap<MachineKey, u32>);

impl BufferPods {
    /// How many are on a machine.
    pub(crate) fn on(&self, machine: &MachineKey) -> u32 {
        self.0.get(machine).copied().unwrap_or(0)
    }

    /// Replaces all figures. Returns the machines whose figure changed.
    pub(crate) fn replace(&mut self, figures: BTreeMap<MachineKey, u32>) -> Vec<MachineKey> {
        let before = std::mem::replace(&mut self.0, figures);
        let mut machines: Vec<MachineKey> = before.keys().chain(self.0.keys()).cloned().collect();
        machines.retain(|machine| before.get(machine).copied().unwrap_or(0) != self.on(machine));
        machines.sort();
        machines.dedup();
        machines
    }
}
