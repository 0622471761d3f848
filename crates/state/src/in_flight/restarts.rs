//! Initialised machines whose node seems to start again; they count as starting for a limited time.

use crate::key::MachineKey;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Until when at most each machine counts as starting.
#[derive(Default, Debug)]
pub(crate) struct Restarts(BTreeMap<MachineKey, Timestamp>);

impl Restarts {
    /// Sets until when a machine counts as starting; `None` if it does not.
    pub(crate) fn set(&mut self, machine: &MachineKey, until: Option<Timestamp>) {
        match until {
            Some(until) => self.0.insert(machine.clone(), until),
            None => self.0.remove(machine),
        };
    }

    /// Removes the machines whose time has passed and returns them.
    pub(crate) fn expire(&mut self, now: Timestamp) -> impl Iterator<Item = MachineKey> {
        self.0.extract_if(.., move |_, until| *until <= now).map(|(key, _)| key)
    }
}
