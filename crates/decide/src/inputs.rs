//! The inputs of a decision.

use jiff::Timestamp;
use kerf_disruption::{Obstacle, SavingsPerPod, Unread, closed};
use kerf_model::in_flight::InFlight;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::Options;
use kerf_units::min_savings::MinSavingsPercent;
use kerf_units::policy::{CommandsPerPass, Destinations, Replacements};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Everything a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The cluster at `now`.
    pub snapshot: &'a Arc<Snapshot>,
    /// The actions in flight at `now`.
    pub in_flight: &'a InFlight,
    /// The options of the process.
    pub settings: &'a Settings,
    /// Wall time.
    pub now: Timestamp,
}

/// How to decide: the options of the process, parsed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Settings {
    /// How provisioning solves; disruption derives its own from it.
    pub solver: Options,
    /// The gate `SpotToSpotConsolidation` (DIS-143).
    pub spot_to_spot: bool,
    /// What consolidation must save for each pod it moves.
    pub savings_per_pod: SavingsPerPod,
    /// What replacements must save of the price of the nodes they replace.
    pub min_savings: MinSavingsPercent,
    /// The gate `StaticCapacity`.
    pub static_capacity: bool,
    /// How many nodes may replace those of a consolidation command.
    pub replacements: Replacements,
    /// How many commands a pass may start.
    pub commands_per_pass: CommandsPerPass,
    /// Where consolidation may move pods.
    pub destinations: Destinations,
    /// Whether every plan is compared with that of a solver without memory. The comparison takes as long as planning.
    pub compare: bool,
    /// Nodes about which something could not be read.
    pub unread: UnreadNodes,
}

/// Nodes about which the input is incomplete, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnreadNodes {
    /// Objects that could not be read may protect them: they stay. With those objects, at least one for each node.
    protected: BTreeMap<Arc<str>, Vec<Arc<Unread>>>,
    /// A pod that could not be read takes room on them: no pod is moved there.
    full: BTreeSet<Arc<str>>,
}

impl UnreadNodes {
    /// The nodes of a snapshot that these objects may protect at `now`.
    pub fn new(unread: Vec<Unread>, snapshot: &Snapshot, now: Timestamp) -> Self {
        let mut all = Self::default();
        if unread.is_empty() {
            return all;
        }
        let unread: Vec<Arc<Unread>> = unread.into_iter().map(Arc::new).collect();
        for node in &snapshot.nodes {
            let may_protect = unread.iter().filter(|one| one.may_protect(node, now));
            let may_protect: Vec<Arc<Unread>> = may_protect.cloned().collect();
            if !may_protect.is_empty() {
                all.protected.insert(Arc::clone(&node.name), may_protect);
            }
            if unread.iter().any(|one| one.is_on(node)) {
                all.full.insert(Arc::clone(&node.name));
            }
        }
        all
    }

    /// The first object that may protect the node of this name.
    pub(crate) fn protector(&self, node: &str) -> Option<&Arc<Unread>> {
        self.protected.get(node)?.first()
    }

    /// Everything that may protect the node of this name and could not be read.
    pub(crate) fn obstacles(&self, node: &str) -> impl Iterator<Item = Obstacle> {
        let unread = self.protected.get(node).into_iter().flatten();
        unread.map(|unread| Obstacle::unreadable(unread))
    }
}

impl Inputs<'_> {
    /// Indices of the nodes to which consolidation moves no pod (DIS-104).
    pub(crate) fn closed(&self) -> Vec<usize> {
        let mut closed = closed(self.settings.destinations, self.snapshot, self.now);
        let nodes = self.snapshot.nodes.iter().enumerate();
        let full = nodes.filter(|(_, node)| {
            self.settings.unread.full.contains(&node.name) || self.in_flight.receiving.contains(&node.name)
        });
        closed.extend(full.map(|(index, _)| index));
        closed.sort_unstable();
        closed.dedup();
        closed
    }

    /// Whether a node is promised to pods at `now` (DIS-155, DIS-182).
    pub(crate) fn is_nominated(&self, name: &str) -> bool {
        let Some(node) = self.snapshot.node(name) else {
            return false;
        };
        let claim = node.claim_name.as_ref();
        node.nominated_until.is_some_and(|until| self.now < until)
            || claim.is_some_and(|claim| self.awaited_claims().contains(claim))
    }

    /// The NodeClaims onto which pods without a node are planned. Their nodes stay until the pods are bound or planned elsewhere: a nomination
    /// alone ends while kube-scheduler still works through a long queue (deviation at DIS-028).
    pub(crate) fn awaited_claims(&self) -> BTreeSet<Arc<str>> {
        let going = self.snapshot.nodes.iter().filter(|node| node.marked_for_deletion);
        let moving: BTreeSet<(&str, &str)> = going
            .flat_map(|node| &node.pods)
            .map(|pod| (&*pod.namespace, &*pod.name))
            .collect();
        let planned = self.in_flight.planned.iter();
        let waiting = planned.filter(|((namespace, name), _)| !moving.contains(&(&**namespace, &**name)));
        waiting.map(|(_, claim)| Arc::clone(claim)).collect()
    }
}
