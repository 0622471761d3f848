//! The cluster once commands are carried out: their nodes are gone, replacements are ready, and pods run where they were planned.

use kerf_disruption::Command;
use kerf_model::node::{Node, NodeLifecycle};
use kerf_model::plan::Launch;
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Carries commands out in a snapshot. `launched` counts the nodes that were launched so far and names the next ones.
pub(crate) fn carry_out(snapshot: &Snapshot, commands: &[Command], launched: &mut usize) -> Snapshot {
    let mut after = snapshot.clone();
    let candidates = commands.iter().flat_map(|command| &command.candidates);
    let going: BTreeSet<&str> = candidates.map(|candidate| &*candidate.node.name).collect();
    for node in snapshot.nodes.iter().filter(|node| going.contains(&*node.name)) {
        let pool = after.pools.iter_mut().find(|pool| Some(pool.label) == node.pool);
        if let Some(pool) = pool.map(Arc::make_mut) {
            pool.usage.subtract(&node.capacity);
        }
    }
    after.nodes.retain(|node| !going.contains(&*node.name));
    for command in commands {
        let pods = command.candidates.iter().flat_map(|candidate| &candidate.pods);
        let moving: BTreeMap<&str, &Arc<Pod>> = pods.map(|pod| (&*pod.uid, pod)).collect();
        let placements = command.plan.iter().flat_map(|plan| &plan.existing);
        for placement in placements {
            let at = after.position(&placement.node);
            if let Some(node) = at.and_then(|at| after.nodes.get_mut(at)) {
                bind(Arc::make_mut(node), &placement.pods, &moving);
            }
        }
        for launch in &command.replacements {
            // Names of nodes have no brace, and it sorts after their letters and before the names of planned machines.
            let name: Arc<str> = format!("{{new-{:06}}}", *launched + 1).into();
            let Some(mut node) = node_of(&after, launch, name) else {
                continue;
            };
            *launched += 1;
            bind(&mut node, &launch.pods, &moving);
            if let Some(pool) = after.pools.iter_mut().find(|pool| pool.name == launch.pool) {
                Arc::make_mut(pool).usage.add(&node.capacity);
            }
            after.nodes.push(Arc::new(node));
        }
    }
    after
}

/// Binds those of some pods that move.
fn bind(node: &mut Node, pods: &[Arc<Pod>], moving: &BTreeMap<&str, &Arc<Pod>>) {
    for pod in pods.iter().filter_map(|pod| moving.get(&*pod.uid)) {
        let mut bound = Pod::clone(pod);
        bound.node_name = Some(Arc::clone(&node.name));
        node.requested.add(&bound.shape.requests);
        node.pods.push(Arc::new(bound));
    }
    node.pods
        .sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
}

/// The ready node that a launch becomes if the provider gives its cheapest type, without pods but with room taken by DaemonSets. `None` where no
/// type is known.
fn node_of(snapshot: &Snapshot, launch: &Launch, name: Arc<str>) -> Option<Node> {
    let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool)?;
    let mut node = launch.cheapest_node(pool, name, &snapshot.interner)?;
    let mut daemons = launch.requests.clone();
    for pod in &launch.pods {
        daemons.subtract(&pod.shape.requests);
    }
    node.requested = daemons.clone();
    node.daemon_requested = daemons;
    node.lifecycle = NodeLifecycle {
        claim_uid: Some(Arc::clone(&node.name)),
        consolidatable: true,
        ready: true,
        ..NodeLifecycle::default()
    };
    Some(node)
}

/// What nodes cost per hour, as far as prices are known, without those that go anyway.
pub(crate) fn price(snapshot: &Snapshot) -> Price {
    let staying = snapshot.nodes.iter().filter(|node| !node.marked_for_deletion);
    staying.filter_map(|node| node.price).sum()
}

/// What a NodePool would get back under its limits if some nodes were gone, by its name.
pub(crate) fn freed(snapshot: &Snapshot, nodes: &[usize]) -> Vec<(Arc<str>, Resources)> {
    let mut freed: BTreeMap<&Arc<str>, Resources> = BTreeMap::new();
    for node in nodes.iter().filter_map(|index| snapshot.nodes.get(*index)) {
        if let Some(pool) = snapshot.pools.iter().find(|pool| Some(pool.label) == node.pool) {
            freed.entry(&pool.name).or_default().add(&node.capacity);
        }
    }
    freed
        .into_iter()
        .map(|(name, amounts)| (Arc::clone(name), amounts))
        .collect()
}
