//! Launches and removals of machines with their reasons, and their sums.

use kerf_model::price::Price;
use std::fmt;

/// The reason of a launch that replaces no machine.
pub(super) const PODS_WAIT: &str = "pods need a place";
/// The reasons of consolidation, as events and budgets name them.
const SAVING: [&str; 2] = ["Empty", "Underutilized"];

/// The columns of [`MachineChange`].
pub(super) const HEADER: &str = "TIME      ACTION NODECLAIM      TYPE              ZONE        CAPACITY     $/H  WHY";

/// What happened to a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    Launch,
    Remove,
}

/// A machine as its NodeClaim describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Machine {
    pub(super) kind: String,
    pub(super) zone: String,
    pub(super) capacity_type: String,
    pub(super) price: Price,
}

/// One launch or removal, with its reason.
#[derive(Clone, Debug)]
pub(super) struct MachineChange {
    pub(super) verb: Verb,
    pub(super) claim: String,
    pub(super) machine: Machine,
    /// The reason, equal for all changes it is counted with.
    pub(super) cause: String,
    /// The reason as printed, with the details of this change.
    pub(super) why: String,
}

impl fmt::Display for MachineChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.verb {
            Verb::Launch => "launch",
            Verb::Remove => "remove",
        };
        let Machine {
            kind,
            zone,
            capacity_type,
            price,
        } = &self.machine;
        let price = price.to_string();
        write!(
            f,
            "{verb:<6} {:<13}  {kind:<16}  {zone:<10}  {capacity_type:<9} {price:>6}  {}",
            self.claim, self.why
        )
    }
}

/// The sum of all changes with one reason.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Entry {
    pub(super) cause: String,
    pub(super) launched: usize,
    pub(super) removed: usize,
    /// In dollars per hour; negative where money is saved.
    pub(super) change: f64,
}

/// Sums changes up by reason, in the order in which the reasons came up.
pub(super) fn ledger(changes: &[MachineChange]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for decision in changes {
        let at = entries.iter().position(|entry| entry.cause == decision.cause);
        let at = at.unwrap_or_else(|| {
            entries.push(Entry {
                cause: decision.cause.clone(),
                ..Entry::default()
            });
            entries.len() - 1
        });
        let Some(entry) = entries.get_mut(at) else { continue };
        let price = decision.machine.price.per_hour();
        match decision.verb {
            Verb::Launch => {
                entry.launched += 1;
                entry.change += price;
            }
            Verb::Remove => {
                entry.removed += 1;
                entry.change -= price;
            }
        }
    }
    entries
}

/// What consolidation saved, in dollars per hour.
pub(super) fn saved(entries: &[Entry]) -> f64 {
    let saving = entries.iter().filter(|entry| SAVING.contains(&entry.cause.as_str()));
    -saving.map(|entry| entry.change).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(verb: Verb, cause: &str, price: f64) -> MachineChange {
        let machine = Machine {
            price: Price::from_per_hour(price).unwrap_or_default(),
            ..Machine::default()
        };
        MachineChange {
            verb,
            claim: "default-abcde".to_owned(),
            machine,
            cause: cause.to_owned(),
            why: cause.to_owned(),
        }
    }

    #[test]
    fn replacements_count_against_what_their_command_saves() {
        let all = [
            decision(Verb::Launch, PODS_WAIT, 0.5),
            decision(Verb::Launch, "Underutilized", 0.25),
            decision(Verb::Remove, "Underutilized", 0.5),
            decision(Verb::Remove, "Drifted", 0.125),
            decision(Verb::Remove, "Empty", 0.5),
        ];
        let entries = ledger(&all);
        let causes: Vec<&str> = entries.iter().map(|entry| entry.cause.as_str()).collect();
        assert_eq!(causes, [PODS_WAIT, "Underutilized", "Drifted", "Empty"]);
        assert_eq!(
            (entries[1].launched, entries[1].removed, entries[1].change),
            (1, 1, -0.25)
        );
        assert_eq!(format!("{:.4}", saved(&entries)), "0.7500");
    }

    #[test]
    fn lines_stand_below_their_header() {
        let mut change = decision(Verb::Launch, "Empty", 0.5);
        change.machine = Machine {
            // As long as the types of the demo are.
            kind: "c7i-flex.2xlarge".to_owned(),
            zone: "us-east-1a".to_owned(),
            capacity_type: "on-demand".to_owned(),
            ..change.machine
        };
        let line = format!("{:8}  {change}", "08:00:00");
        for (text, column) in [
            ("default-", "NODECLAIM"),
            ("c7i-flex", "TYPE"),
            ("us-east-1a", "ZONE"),
            ("on-demand", "CAPACITY"),
            ("Empty", "WHY"),
        ] {
            assert_eq!(line.find(text), HEADER.find(column), "{column}");
        }
    }
}
