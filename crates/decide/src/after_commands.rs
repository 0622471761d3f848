//! The cluster as if commands had been started. Later commands of the same pass are decided on it.

use crate::inputs::Inputs;
use kerf_disruption::Command;
use kerf_model::in_flight::InFlight;
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::plan::{Launch, Plan};
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A cluster after commands.
///
/// The nodes of a command are marked for deletion. Its pods are where its plan puts them, and its replacements are planned machines that are
/// full of their pods. No later command chooses a node that receives pods, or moves pods there, so commands of one pass do not depend on where
/// kube-scheduler puts each other's pods.
#[derive(Debug)]
pub(crate) struct AfterCommands {
    snapshot: Arc<Snapshot>,
    in_flight: InFlight,
    replacements: usize,
    /// Whether a command was started.
    any: bool,
}

impl AfterCommands {
    /// The cluster as it is, before any command.
    pub(crate) fn new(inputs: &Inputs<'_>) -> Self {
        Self {
            snapshot: Arc::clone(inputs.snapshot),
            in_flight: inputs.in_flight.clone(),
            replacements: 0,
            any: false,
        }
    }

    /// The cluster after these commands.
    pub(crate) fn of(inputs: &Inputs<'_>, commands: &[Command]) -> Self {
        let mut after = Self::new(inputs);
        after.start(commands);
        after
    }

    /// Whether no command was started.
    pub(crate) const fn is_unchanged(&self) -> bool {
        !self.any
    }

    /// Inputs that see this cluster.
    pub(crate) fn view<'a>(&'a self, inputs: &Inputs<'a>) -> Inputs<'a> {
        Inputs {
            snapshot: &self.snapshot,
            in_flight: &self.in_flight,
            ..*inputs
        }
    }

    /// Starts commands. Skips nodes that no longer exist.
    pub(crate) fn start(&mut self, commands: &[Command]) {
        if commands.is_empty() {
            return;
        }
        self.any = true;
        let mut after = Snapshot::clone(&self.snapshot);
        let mut command_machines = BTreeSet::clone(&self.in_flight.command_machines);
        for command in commands {
            for candidate in &command.candidates {
                command_machines.extend(candidate.node.provider_id.clone());
                let at = after.position(&candidate.node.name);
                let Some(node) = at.and_then(|at| after.nodes.get_mut(at)).map(Arc::make_mut) else {
                    continue;
                };
                node.marked_for_deletion = true;
                if command.plan.is_some() {
                    let moving: BTreeSet<&str> = candidate.pods.iter().map(|pod| &*pod.uid).collect();
                    node.pods.retain(|pod| !moving.contains(&*pod.uid));
                }
            }
            match &command.plan {
                Some(plan) => {
                    self.place(&mut after, plan);
                    for launch in &command.replacements {
                        self.launch(&mut after, launch);
                    }
                }
                // Only nodes of static pools are replaced without a plan: each replacement takes room under the pool's limit (LIF-213).
                None => take_room(&mut self.in_flight, command),
            }
        }
        self.in_flight.command_machines = Arc::new(command_machines);
        self.snapshot = Arc::new(after);
    }

    /// Puts the pods that move onto the nodes that a plan names for them.
    fn place(&mut self, snapshot: &mut Snapshot, plan: &Plan) {
        for placement in &plan.existing {
            let at = snapshot.position(&placement.node);
            let Some(node) = at.and_then(|at| snapshot.nodes.get_mut(at)) else {
                continue;
            };
            self.in_flight.receiving.insert(Arc::clone(&node.name));
            let moving: Vec<_> = placement.pods.iter().filter(|pod| pod.node_name.is_some()).collect();
            if moving.is_empty() {
                continue;
            }
            let node = Arc::make_mut(node);
            for pod in moving {
                node.requested.add(&pod.shape.requests);
                node.pods.push(Arc::clone(pod));
            }
        }
    }

    /// Adds a replacement as a planned machine that has room for nothing but its pods, and counts the largest machine it may become under the
    /// limits of its pool.
    fn launch(&mut self, snapshot: &mut Snapshot, launch: &Launch) {
        let Some(pool) = snapshot.pools.iter_mut().find(|pool| pool.name == launch.pool) else {
            return;
        };
        if let Some(limits) = pool.limits.clone() {
            let pool = Arc::make_mut(pool);
            for (name, _) in limits.iter() {
                let types = launch
                    .types
                    .iter()
                    .filter_map(|at| launch.catalogue.types.get(*at as usize));
                let most = if name == sym::NODES {
                    Some(1)
                } else {
                    types.map(|kind| kind.capacity.get(name)).max()
                };
                let used = pool.usage.get(name);
                pool.usage.set(name, used.saturating_add(most.unwrap_or_default()));
            }
        }
        self.replacements += 1;
        // Names of nodes have no tilde, so this one comes last, and no other node changes its index.
        let name: Arc<str> = format!("~{:06}", self.replacements).into();
        let hostname = snapshot.interner.intern(&name);
        let mut labels = pool.labels.clone();
        let fixed = launch
            .requirements
            .iter()
            .filter_map(|requirement| Some((requirement.key, requirement.single()?)));
        labels.extend(fixed);
        labels.push((sym::HOSTNAME, hostname));
        labels.sort_unstable();
        labels.dedup_by_key(|(key, _)| *key);
        let pending: BTreeSet<&str> = launch.pods.iter().map(|pod| &*pod.uid).collect();
        snapshot.pending.retain(|pod| !pending.contains(&*pod.uid));
        let full = launch.requests.clone();
        snapshot.nodes.push(Arc::new(Node {
            claim_name: Some(Arc::clone(&name)),
            pool: Some(pool.label),
            labels,
            taints: pool.taints.clone(),
            allocatable: full.clone(),
            capacity: full.clone(),
            requested: full,
            pods: launch.pods.clone(),
            price: launch.price(),
            managed: true,
            ..Node::empty(name, hostname)
        }));
    }
}

/// Takes the room of a command's replacements from their static pools.
fn take_room(in_flight: &mut InFlight, command: &Command) {
    for launch in &command.replacements {
        if let Some(pool) = in_flight.static_pools.get_mut(&launch.pool) {
            pool.room = pool.room.saturating_sub(1);
        }
    }
}
