//! Disruption commands that were decided, are not carried out, and that every round finds again.

use kerf_disruption::Command;
use kerf_model::budget::DisruptionReason;
use kerf_model::price::Price;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What makes two commands the same: the reason and the NodeClaims that go.
type Identity = (DisruptionReason, Vec<Arc<str>>);

/// A command that is still right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StandingCommand {
    /// A number that no other command has.
    pub id: u64,
    /// What it saves per hour.
    pub savings: Price,
}

/// The commands that are still right, from round to round.
#[derive(Debug, Default)]
pub struct StandingCommands {
    last_id: u64,
    standing: BTreeMap<Identity, StandingCommand>,
}

/// The changes that a round makes.
#[derive(Debug, Default)]
pub struct StandingChange<'a> {
    /// The commands that the round before did not find.
    pub new: Vec<(StandingCommand, &'a Command)>,
    /// The commands that this round no longer finds.
    pub ended: Vec<StandingCommand>,
}

impl StandingCommands {
    /// Takes the commands of a round and returns the changes. A command that is found again is not new.
    pub fn update<'a>(&mut self, found: &'a [Command]) -> StandingChange<'a> {
        let mut change = StandingChange::default();
        let mut still = BTreeSet::new();
        for command in found {
            let identity = identity(command);
            if !self.standing.contains_key(&identity) {
                self.last_id += 1;
                let standing = StandingCommand {
                    id: self.last_id,
                    savings: command.savings(),
                };
                self.standing.insert(identity.clone(), standing.clone());
                change.new.push((standing, command));
            }
            still.insert(identity);
        }
        let ended = self.standing.extract_if(.., |identity, _| !still.contains(identity));
        change.ended = ended.map(|(_, standing)| standing).collect();
        change
    }

    /// What the commands save per hour together.
    pub fn savings(&self) -> Price {
        self.standing.values().map(|standing| standing.savings).sum()
    }
}

fn identity(command: &Command) -> Identity {
    let claims = command.candidates.iter().map(|candidate| {
        let node = &candidate.node;
        Arc::clone(node.claim_name.as_ref().unwrap_or(&node.name))
    });
    let claims: BTreeSet<Arc<str>> = claims.collect();
    (command.reason, claims.into_iter().collect())
}
