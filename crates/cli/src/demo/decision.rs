//! What Kerf did to a machine and for what, and what that came to.

use kerf_model::price::Price;
use std::fmt;

/// Why a machine is launched that replaces none.
pub(super) const PODS_WAITED: &str = "pods need a place";
/// The causes that are there to save money, as events and budgets name them.
const SAVING: [&str; 2] = ["Empty", "Underutilized"];

/// The columns of [`Decision`].
pub(super) const HEADER: &str = "TIME      ACTION  NODECLAIM      TYPE         ZONE        CAPACITY       $/H  WHY";

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    Launch,
    Remove,
}

/// A machine as its claim describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Machine {
    pub(super) kind: String,
    pub(super) zone: String,
    pub(super) capacity_type: String,
    pub(super) price: Price,
}

/// One step, with its reason.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) verb: Verb,
    pub(super) claim: String,
    pub(super) machine: Machine,
    /// The reason, the same for all decisions of a sort.
    pub(super) cause: String,
    /// The reason of just this one.
    pub(super) why: String,
}

impl fmt::Display for Decision {
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
            "{verb:<6}  {:<13}  {kind:<11}  {zone:<10}  {capacity_type:<9}  {price:>7}  {}",
            self.claim, self.why
        )
    }
}

/// What all decisions with one cause came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Entry {
    pub(super) cause: String,
    pub(super) launched: usize,
    pub(super) removed: usize,
    /// In dollars per hour; less than nothing is saved.
    pub(super) change: f64,
}

/// Sums decisions up by cause, in the order in which the causes came up.
pub(super) fn ledger(decisions: &[Decision]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for decision in decisions {
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

/// What consolidation took off the bill, in dollars per hour.
pub(super) fn saved(entries: &[Entry]) -> f64 {
    let saving = entries.iter().filter(|entry| SAVING.contains(&entry.cause.as_str()));
    -saving.map(|entry| entry.change).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(verb: Verb, cause: &str, price: f64) -> Decision {
        let machine = Machine {
            price: Price::from_per_hour(price).unwrap_or_default(),
            ..Machine::default()
        };
        Decision {
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
            decision(Verb::Launch, PODS_WAITED, 0.5),
            decision(Verb::Launch, "Underutilized", 0.25),
            decision(Verb::Remove, "Underutilized", 0.5),
            decision(Verb::Remove, "Drifted", 0.125),
            decision(Verb::Remove, "Empty", 0.5),
        ];
        let entries = ledger(&all);
        let causes: Vec<&str> = entries.iter().map(|entry| entry.cause.as_str()).collect();
        assert_eq!(causes, [PODS_WAITED, "Underutilized", "Drifted", "Empty"]);
        assert_eq!(
            (entries[1].launched, entries[1].removed, entries[1].change),
            (1, 1, -0.25)
        );
        assert_eq!(format!("{:.4}", saved(&entries)), "0.7500");
    }

    #[test]
    fn lines_stand_below_their_header() {
        let line = format!("{:8}  {}", "08:00:00", decision(Verb::Launch, "Empty", 0.5));
        assert_eq!(line.find("Empty"), HEADER.find("WHY"));
        assert_eq!(line.find("default-"), HEADER.find("NODECLAIM"));
    }
}
