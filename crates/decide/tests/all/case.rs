//! A cluster of the testkit with everything else a decision is made from.

use kerf_decide::{Inputs, Memory, Method, Round, Settings, disrupt};
use kerf_disruption::Command;
use kerf_model::budget::DisruptionPolicy;
use kerf_model::in_flight::InFlight;
use kerf_model::snapshot::Snapshot;
use kerf_testkit::disruption::{Cluster, budget, now};
use std::sync::Arc;

/// The inputs of decisions, owned.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) in_flight: InFlight,
    pub(crate) settings: Settings,
}

impl Case {
    pub(crate) fn of(cluster: Cluster) -> Self {
        Self {
            snapshot: Arc::new(cluster.snapshot),
            in_flight: InFlight::default(),
            settings: Settings::default(),
        }
    }

    pub(crate) fn view(&self) -> Inputs<'_> {
        Inputs {
            snapshot: &self.snapshot,
            in_flight: &self.in_flight,
            settings: &self.settings,
            now: now(),
        }
    }

    /// A round from this method on, without limits.
    pub(crate) fn round(&self, from: Method, memory: &mut Memory) -> Round {
        disrupt(&self.view(), from, memory, &())
    }

    /// The same with changes to a copy of the snapshot.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut Snapshot)) -> Self {
        let mut snapshot = Snapshot::clone(&self.snapshot);
        change(&mut snapshot);
        Self {
            snapshot: Arc::new(snapshot),
            ..self.clone()
        }
    }
}

/// Pool "a" with types of two and four cores, whose nodes may all go at once.
pub(crate) fn open_pool(cluster: &mut Cluster) {
    open(cluster, "a");
}

/// A pool with types of two and four cores, whose nodes may all go at once.
pub(crate) fn open(cluster: &mut Cluster, name: &str) {
    cluster.typed(name, &[("small", 2000, 0.1), ("large", 4000, 0.2)], |pool| {
        pool.disruption = DisruptionPolicy {
            budgets: vec![budget("100%")],
            ..pool.disruption.clone()
        };
    });
}

pub(crate) fn methods(round: &Round) -> Vec<Method> {
    round.evaluations.iter().map(|evaluation| evaluation.method).collect()
}

pub(crate) fn texts(commands: &[Command]) -> Vec<String> {
    let text = |command: &Command| format!("{}: {}", command.reason.as_str(), command.short());
    commands.iter().map(text).collect()
}

/// The commands of a round.
pub(crate) fn commands(round: &Round) -> Vec<String> {
    round
        .evaluations
        .iter()
        .flat_map(|evaluation| texts(&evaluation.commands))
        .collect()
}

/// Makes a node drift.
pub(crate) fn drifted(node: &mut kerf_model::node::Node) {
    node.lifecycle.drifted = Some(("NodePoolDrifted".into(), kerf_testkit::disruption::ago(60)));
}
