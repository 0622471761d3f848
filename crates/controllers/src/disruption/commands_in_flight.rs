//! The commands under way. In memory only; see the module above for what a restart makes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_disruption::Decision;
use kerf_model::budget::DisruptionReason;
use kerf_model::node::Node;
use tokio::time::Instant;

/// A command that was started.
#[derive(Clone, Debug)]
pub(super) struct CommandInFlight {
    /// Its unique id: what it is examined by (DIS-317).
    pub(super) id: Arc<str>,
    pub(super) reason: DisruptionReason,
    pub(super) decision: Decision,
    pub(super) nodes: Vec<CommandNode>,
    pub(super) replacements: Vec<Replacement>,
    /// On the clock that does not jump.
    pub(super) started: Instant,
}

/// A node that is to go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CommandNode {
    pub(super) node: Option<Arc<str>>,
    pub(super) claim: Arc<str>,
    pub(super) claim_uid: Arc<str>,
    pub(super) provider_id: Arc<str>,
}

impl CommandNode {
    pub(super) fn of(node: &Node) -> Self {
        let text = |text: &Option<Arc<str>>| text.clone().unwrap_or_default();
        Self {
            node: node.node_name.clone(),
            claim: text(&node.claim_name),
            claim_uid: text(&node.lifecycle.claim_uid),
            provider_id: text(&node.provider_id),
        }
    }
}

/// A claim that must be initialised before the nodes go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Replacement {
    pub(super) claim: Arc<str>,
    /// Remembered once seen; losing readiness later does not matter (DIS-272).
    pub(super) initialized: bool,
}

/// All commands under way; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandsInFlight(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    commands: BTreeMap<Arc<str>, CommandInFlight>,
    /// Which command holds a machine, by provider id.
    held: BTreeMap<Arc<str>, Arc<str>>,
    /// The keys of `held`, as decisions see them.
    shown: Arc<BTreeSet<Arc<str>>>,
}

impl Inner {
    fn show(&mut self) {
        self.shown = Arc::new(self.held.keys().cloned().collect());
    }
}

impl CommandsInFlight {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a command in.
    pub(super) fn insert(&self, command: CommandInFlight) {
        let mut inner = self.lock();
        for node in &command.nodes {
            inner
                .held
                .insert(Arc::clone(&node.provider_id), Arc::clone(&command.id));
        }
        inner.commands.insert(Arc::clone(&command.id), command);
        inner.show();
    }

    pub(super) fn get(&self, id: &str) -> Option<CommandInFlight> {
        self.lock().commands.get(id).cloned()
    }

    /// Remembers that a replacement is initialised.
    pub(super) fn note_initialized(&self, id: &str, claim: &str) {
        let mut inner = self.lock();
        let replacements = inner
            .commands
            .get_mut(id)
            .into_iter()
            .flat_map(|command| &mut command.replacements);
        for replacement in replacements.filter(|replacement| *replacement.claim == *claim) {
            replacement.initialized = true;
        }
    }

    /// Forgets a command.
    pub(super) fn remove(&self, id: &str) {
        let mut inner = self.lock();
        if let Some(command) = inner.commands.remove(id) {
            for node in &command.nodes {
                inner.held.remove(&node.provider_id);
            }
            inner.show();
        }
    }

    /// Whether a command holds the machine (DIS-023).
    pub(super) fn holds(&self, node: &Node) -> bool {
        node.provider_id
            .as_ref()
            .is_some_and(|id| self.lock().held.contains_key(id))
    }

    /// The provider ids of the machines that commands hold.
    pub(crate) fn held(&self) -> Arc<BTreeSet<Arc<str>>> {
        Arc::clone(&self.lock().shown)
    }

    /// How long a command may take now: 80 ms per machine in the queue, at least `least`, at most an hour (DIS-279).
    pub(super) fn time_limit(&self, least: Duration) -> Duration {
        time_limit(self.lock().held.len(), least)
    }
}

fn time_limit(held: usize, least: Duration) -> Duration {
    let millis = u64::try_from(held).unwrap_or(u64::MAX).saturating_mul(80);
    Duration::from_millis(millis).max(least).min(Duration::from_secs(3600))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_lifecycle::liveness::Timeouts;

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
            let least = Timeouts::default().replacement;
            assert_eq!(time_limit(held, least), Duration::from_secs(seconds), "{held}");
        }
    }

    // DIS-023, DIS-267
    #[test]
    fn a_machine_is_held_until_its_command_is_forgotten() {
        let commands = CommandsInFlight::default();
        let node = |name: &str| CommandNode {
            node: None,
            claim: name.into(),
            claim_uid: name.into(),
            provider_id: name.into(),
        };
        let command = |id: &str, nodes: Vec<CommandNode>| CommandInFlight {
            id: id.into(),
            reason: DisruptionReason::Empty,
            decision: Decision::Delete,
            nodes,
            replacements: Vec::new(),
            started: Instant::now(),
        };
        commands.insert(command("1", vec![node("a"), node("b")]));
        commands.insert(command("2", vec![node("c")]));
        let holders: Vec<String> = commands
            .lock()
            .held
            .iter()
            .map(|(id, command)| format!("{id} {command}"))
            .collect();
        assert_eq!(holders, ["a 1", "b 1", "c 2"]);
        commands.remove("1");
        let held: Vec<Arc<str>> = commands.lock().held.keys().cloned().collect();
        assert_eq!(held, ["c".into()]);
    }
}
