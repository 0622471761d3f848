//! Placements on machines that exist, one machine at a time: everything but topology.

use crate::rules::amounts::{self, Amounts};
use crate::rules::expression::{all_hold, selects};
use crate::rules::{host_port, taint};
use crate::text::print_selection;
use crate::violation::{Rule, Violations};
use kerf_model::intern::Interner;
use kerf_model::node::Node;
use kerf_model::plan::Placement;
use kerf_model::pod::{HostPort, Pod, PodShape};
use kerf_model::snapshot::{Daemon, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// A label of a machine; the hostname label falls back to its name.
pub(crate) fn label<'a>(node: &Node, key: &str, interner: &'a Interner) -> Option<&'a str> {
    let own = node.labels.iter().find(|(known, _)| interner.text(*known) == key);
    let own = own.map(|(_, value)| interner.text(*value));
    own.or_else(|| (key == HOSTNAME).then(|| interner.text(node.hostname)))
}

pub(crate) fn check(snapshot: &Snapshot, placement: &Placement, found: &mut Violations) {
    let name = &*placement.node;
    let Some(node) = snapshot.node(name) else {
        return found.add_for_node(name, Rule::UnknownNode);
    };
    if node.marked_for_deletion || node.lifecycle.deleting {
        found.add_for_node(name, Rule::DeletingNode);
    }
    for pod in &placement.pods {
        check_pod(snapshot, node, pod, found);
    }
    check_resources(snapshot, node, placement, found);
    check_attach_limits(node, placement, found);
    let held = node.pods.iter().filter(|bound| is_elsewhere(bound, &placement.pods));
    let names: Vec<String> = held.clone().map(|pod| pod.key()).collect();
    let held = names.iter().map(String::as_str).zip(held.map(|pod| &*pod.shape));
    // Daemons that have no pod there yet will.
    let daemons = daemons_of(snapshot, node).map(|daemon| (&*daemon.name, &*daemon.shape));
    let held: Vec<(&str, &PodShape)> = held.chain(daemons).collect();
    check_ports(name, placement.pods.iter(), &held, found);
}

/// Whether a bound pod is none of those about to be placed.
fn is_elsewhere(bound: &Pod, placed: &[Arc<Pod>]) -> bool {
    !placed
        .iter()
        .any(|pod| pod.name == bound.name && pod.namespace == bound.namespace)
}

fn check_pod(snapshot: &Snapshot, node: &Node, pod: &Pod, found: &mut Violations) {
    let interner = &*snapshot.interner;
    let mut violation = |rule| found.add_for_placement(&node.name, &pod.key(), rule);
    if let Some(taint) = taint::first_refusing(&node.taints, &pod.shape.tolerations) {
        let taint = taint.to_string();
        violation(Rule::Taint { taint });
    }
    if !selects(&pod.shape, interner, |key| label(node, key, interner)) {
        let wanted = print_selection(&pod.shape, interner);
        violation(Rule::NodeAffinity { wanted });
    }
    for volume in &pod.volumes {
        let reachable = volume.topology.is_empty()
            || volume
                .topology
                .iter()
                .any(|term| all_hold(term, interner, |key| label(node, key, interner)));
        if !reachable {
            let claim = volume.claim.to_string();
            violation(Rule::VolumeTopology { claim });
        }
    }
}

fn check_resources(snapshot: &Snapshot, node: &Node, placement: &Placement, found: &mut Violations) {
    if placement.pods.is_empty() {
        return;
    }
    let interner = &*snapshot.interner;
    let wanted = Amounts::sum(placement.pods.iter().map(|pod| &pod.shape.requests), interner);
    let mut available = amounts::available(node, interner);
    // SCH-158: what daemons will ask for but the node lacks is ignored.
    let there = Amounts::read(&node.allocatable, interner);
    let mut reserve = daemon_reserve(snapshot, node);
    reserve.0.retain(|name, _| there.0.contains_key(name));
    available.take(&reserve);
    for (resource, wanted, available) in wanted.short_of(&available) {
        let resource = resource.to_owned();
        let rule = Rule::Resources {
            resource,
            wanted,
            available,
        };
        found.add_for_node(&node.name, rule);
    }
}

/// The daemons that belong on a node.
fn daemons_of<'a>(snapshot: &'a Snapshot, node: &'a Node) -> impl Iterator<Item = &'a Arc<Daemon>> {
    snapshot.daemons.iter().filter(|daemon| {
        taint::first_refusing(&node.taints, &daemon.shape.tolerations).is_none()
            && selects(&daemon.shape, &snapshot.interner, |key| {
                label(node, key, &snapshot.interner)
            })
    })
}

/// SCH-158, SCH-159: what daemons that belong on the node and are not there yet will take.
fn daemon_reserve<'a>(snapshot: &'a Snapshot, node: &'a Node) -> Amounts<'a> {
    let interner = &*snapshot.interner;
    let requests = daemons_of(snapshot, node).map(|daemon| &daemon.shape.requests);
    let mut reserve = Amounts::sum(requests, interner);
    reserve.take(&Amounts::read(&node.daemon_requested, interner));
    reserve.0.retain(|_, amount| *amount > 0);
    reserve
}

fn check_attach_limits(node: &Node, placement: &Placement, found: &mut Violations) {
    let mut claims: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for pod in node.pods.iter().chain(&placement.pods) {
        for volume in &pod.volumes {
            if let Some(driver) = &volume.driver {
                claims.entry(driver).or_default().insert(&volume.claim);
            }
        }
    }
    for (driver, limit) in &node.volume_limits {
        let count = claims.get(&**driver).map_or(0, BTreeSet::len) as u32;
        let uses = |pod: &Arc<Pod>| pod.volumes.iter().any(|v| v.driver.as_deref() == Some(&**driver));
        if count > *limit && placement.pods.iter().any(uses) {
            let driver = driver.to_string();
            found.add_for_node(
                &node.name,
                Rule::VolumeLimit {
                    driver,
                    count,
                    limit: *limit,
                },
            );
        }
    }
}

/// Whether the pods, and shapes that will be there besides, claim different host ports.
pub(crate) fn check_ports<'a>(
    node: &str,
    pods: impl Iterator<Item = &'a Arc<Pod>>,
    besides: &[(&str, &PodShape)],
    found: &mut Violations,
) {
    let mut taken: Vec<(String, &HostPort)> = Vec::new();
    for (name, shape) in besides {
        taken.extend(shape.host_ports.iter().map(|port| ((*name).to_owned(), port)));
    }
    for pod in pods {
        let key = pod.key();
        for port in &pod.shape.host_ports {
            if let Some((other, _)) = taken
                .iter()
                .find(|(holder, held)| *holder != key && host_port::conflict(held, port))
            {
                let rule = Rule::HostPort {
                    port: format!("{}:{}/{}", port.ip, port.port, port.protocol),
                    other: other.clone(),
                };
                found.add_for_placement(node, &key, rule);
            }
        }
        taken.extend(pod.shape.host_ports.iter().map(|port| (key.clone(), port)));
    }
}
