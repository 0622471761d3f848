//! Machines on which pods were placed: disruption leaves them alone for a while (SCH-072).

use crate::key::MachineKey;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Until when each machine is nominated.
#[derive(Default, Debug)]
pub(crate) struct Nominations(BTreeMap<MachineKey, Timestamp>);

impl Nominations {
    /// Nominates a machine. A later time extends the nomination, an earlier one changes nothing.
    pub(crate) fn nominate(&mut self, machine: MachineKey, until: Timestamp) {
        let known = self.0.entry(machine).or_insert(until);
        *known = until.max(*known);
    }

    /// Until when a machine is nominated.
    pub(crate) fn until(&self, machine: &MachineKey) -> Option<Timestamp> {
        self.0.get(machine).copied()
    }

    /// Forgets a machine that is gone.
    pub(crate) fn forget(&mut self, machine: &MachineKey) {
        self.0.remove(machine);
    }

    /// Ends the nominations whose time has come and returns their machines.
    pub(crate) fn expire(&mut self, now: Timestamp) -> impl Iterator<Item = MachineKey> {
        self.0.extract_if(.., move |_, until| *until <= now).map(|(key, _)| key)
    }
}
