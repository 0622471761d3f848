//! The disruption commands in flight.
//!
//! A command lives in memory only. After a restart the disruption loop removes the taints and conditions it left (DIS-004, DIS-014).

use kerf_model::budget::DisruptionReason;
use kerf_model::in_flight::Destinations;
use kerf_model::node::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How much a command's time limit grows with each machine that commands hold (DIS-279).
const PER_MACHINE: Duration = Duration::from_millis(80);
/// The longest time limit of a command (DIS-279).
const TIME_LIMIT_MAX: Duration = Duration::from_secs(3600);

/// A command that was started.
#[derive(Clone, Debug)]
pub struct CommandInFlight {
    /// Its unique id (DIS-317).
    pub id: Arc<str>,
    /// Why its nodes go.
    pub reason: DisruptionReason,
    /// The nodes that are to go.
    pub nodes: Vec<CommandNode>,
    /// The claims that replace them; none for a deletion.
    pub replacements: Vec<Replacement>,
    /// Where its pods should go once its nodes are deleted.
    pub destinations: Destinations,
    /// When it started, as uptime.
    pub started: Duration,
}

impl CommandInFlight {
    /// How many of its replacements were never initialised.
    pub fn replacements_missing(&self) -> usize {
        self.replacements.iter().filter(|one| !one.initialized).count()
    }
}

/// A node that is to go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandNode {
    /// The name of the Node, if there is one.
    pub node: Option<Arc<str>>,
    /// The name of the claim.
    pub claim: Arc<str>,
    /// The unique id of the claim.
    pub claim_uid: Arc<str>,
    /// The provider id of the machine.
    pub provider_id: Arc<str>,
}

impl CommandNode {
    /// The names of a machine in a snapshot; `None` unless it has a claim and a provider id.
    pub fn of(node: &Node) -> Option<Self> {
        Some(Self {
            node: node.node_name.clone(),
            claim: node.claim_name.clone()?,
            claim_uid: node.lifecycle.claim_uid.clone()?,
            provider_id: node.provider_id.clone()?,
        })
    }
}

/// A claim that must be initialised before the nodes go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replacement {
    /// Its name.
    pub claim: Arc<str>,
    /// It was initialised once; losing readiness later does not matter (DIS-272).
    pub initialized: bool,
}

/// All commands in flight.
#[derive(Default, Debug)]
pub(crate) struct Commands {
    by_id: BTreeMap<Arc<str>, Arc<CommandInFlight>>,
    /// The provider ids of the machines they hold.
    held: Arc<BTreeSet<Arc<str>>>,
}

impl Commands {
    /// Adds a command.
    pub(crate) fn insert(&mut self, command: CommandInFlight) {
        let ids = command.nodes.iter().map(|node| Arc::clone(&node.provider_id));
        Arc::make_mut(&mut self.held).extend(ids);
        self.by_id.insert(Arc::clone(&command.id), Arc::new(command));
    }

    /// The command of an id.
    pub(crate) fn get(&self, id: &str) -> Option<&Arc<CommandInFlight>> {
        self.by_id.get(id)
    }

    /// Records that a replacement is initialised.
    pub(crate) fn note_initialized(&mut self, id: &str, claim: &str) {
        let Some(command) = self.by_id.get_mut(id) else { return };
        let replacements = &mut Arc::make_mut(command).replacements;
        for replacement in replacements.iter_mut().filter(|one| *one.claim == *claim) {
            replacement.initialized = true;
        }
    }

    /// Takes a command out.
    pub(crate) fn remove(&mut self, id: &str) -> Option<Arc<CommandInFlight>> {
        let removed = self.by_id.remove(id)?;
        let nodes = self.by_id.values().flat_map(|command| &command.nodes);
        self.held = Arc::new(nodes.map(|node| Arc::clone(&node.provider_id)).collect());
        Some(removed)
    }

    /// The provider ids of the machines that commands hold (DIS-023).
    pub(crate) fn held(&self) -> &Arc<BTreeSet<Arc<str>>> {
        &self.held
    }

    /// The names of the Nodes onto which commands planned pods.
    pub(crate) fn planned(&self) -> BTreeSet<Arc<str>> {
        let planned = self.by_id.values().flat_map(|command| &command.destinations.planned);
        planned.cloned().collect()
    }

    /// How long a command may take now: 80 ms per machine that commands hold, at least `least`, at most an hour (DIS-279).
    pub(crate) fn time_limit(&self, least: Duration) -> Duration {
        time_limit(self.held.len(), least)
    }
}

fn time_limit(held: usize, least: Duration) -> Duration {
    let held = u32::try_from(held).unwrap_or(u32::MAX);
    PER_MACHINE.saturating_mul(held).max(least).min(TIME_LIMIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // DIS-279
    #[test]
    fn commands_may_take_longer_when_there_are_many() {
        for (held, seconds) in [
            (1, 600),
            (4_000, 600),
            (10_000, 800),
            (40_000, 3200),
            (80_000, 3600),
            (1_000_000, 3600),
        ] {
            let least = Duration::from_secs(600);
            assert_eq!(time_limit(held, least), Duration::from_secs(seconds), "{held}");
        }
    }

    // DIS-023, DIS-267
    #[test]
    fn a_machine_is_held_until_its_command_is_forgotten() {
        let mut commands = Commands::default();
        let node = |name: &str| CommandNode {
            node: None,
            claim: name.into(),
            claim_uid: name.into(),
            provider_id: name.into(),
        };
        let command = |id: &str, nodes: Vec<CommandNode>| CommandInFlight {
            id: id.into(),
            reason: DisruptionReason::Empty,
            nodes,
            replacements: Vec::new(),
            destinations: Destinations::default(),
            started: Duration::ZERO,
        };
        commands.insert(CommandInFlight {
            destinations: Destinations {
                planned: vec!["d".into()],
                avoided: vec!["e".into()],
            },
            ..command("1", vec![node("a"), node("b")])
        });
        commands.insert(command("2", vec![node("c")]));
        assert_eq!(commands.planned(), BTreeSet::from(["d".into()]));
        let held = |commands: &Commands| commands.held().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(held(&commands), ["a", "b", "c"]);
        commands.remove("1");
        assert_eq!(held(&commands), ["c"]);
        assert_eq!(commands.planned(), BTreeSet::new());
    }
}
