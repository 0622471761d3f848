//! Why an existing node, or one on its way, does not take a pod.

use super::{Reason, ask, first_short, labels, taints, topology};
use crate::classes::{ClassId, Variant};
use crate::run::{Ask, Run, TargetNo};
use crate::topology::Allowed;
use crate::world::World;
use kerf_model::plan::{Cause, Refusal, Refuser};
use kerf_model::pod::HostPort;
use kerf_model::requirement::Requirements;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The refusals of all nodes: targets in the order they are tried, then those that are no targets, by name.
pub(super) fn refusals(run: &mut Run<'_, '_>, class_id: ClassId, variant: &Variant) -> Vec<Refusal> {
    let world = run.world;
    let refusal = |name: &Arc<str>, (cause, nearest_miss): Reason| Refusal {
        by: Refuser::Node(Arc::clone(name)),
        cause,
        nearest_miss,
    };
    let mut all = Vec::new();
    let allowed = Allowed::compute(world, &run.counts, world.class(class_id), variant);
    // Where topology leaves nothing at all, other causes still come first.
    let anything = Allowed::default();
    let (allowed, blocked) = match &allowed {
        Ok(allowed) => (allowed, None),
        Err(group) => (&anything, Some(*group)),
    };
    let ask = ask(run, class_id, variant, allowed);
    let targets = || {
        world
            .targets
            .iter()
            .enumerate()
            .filter(|(at, _)| !world.excluded.get(*at))
    };
    for (at, target) in targets() {
        let reason = match run.target_refusal(&ask, at) {
            Some(no) => Some(reason(run, &ask, at, no)),
            None => blocked.map(|group| topology::unmet(run, variant, &node_labels(world, at), group)),
        };
        all.extend(reason.map(|reason| refusal(&target.node.name, reason)));
    }
    let targets: FxHashSet<&str> = targets().map(|(_, target)| &*target.node.name).collect();
    let others = world
        .snapshot
        .nodes
        .iter()
        .filter(|node| !targets.contains(&*node.name));
    all.extend(others.map(|node| {
        let why = if node.marked_for_deletion {
            "it is being deleted"
        } else {
            "it is not considered"
        };
        refusal(&node.name, (Cause::NodeNotUsable(why.to_owned()), None))
    }));
    all
}

fn node_labels(world: &World<'_>, at: usize) -> Requirements {
    Requirements::from_labels(&world.targets[at].node.labels, world.interner())
}

/// The cause behind a target's refusal.
fn reason(run: &Run<'_, '_>, ask: &Ask<'_>, at: usize, no: TargetNo) -> Reason {
    let world = run.world;
    let node = &world.targets[at].node;
    let resources = || {
        let free = run.touched.placeable(world.targets, at);
        let short = first_short(world, &ask.class.requests, |at| free[at]);
        let miss = short.map(|(name, wanted, free)| format!("needs {wanted} {name}; {free} is free"));
        (Cause::NodeResources, miss)
    };
    let unmet = |set: u32, volume: bool| {
        let wanted = world.req_sets.get(set);
        let cause = labels::of_node(world, &node_labels(world, at), wanted, volume);
        cause.map_or_else(resources, |cause| (cause, labels::contradiction(world, wanted)))
    };
    match no {
        TargetNo::Closed => (
            Cause::NodeNotUsable("the node is overcommitted or over an attach limit".into()),
            closed(world, at),
        ),
        TargetNo::Settling => (
            Cause::NodeNotUsable("a pod came or left too recently to move another one there".into()),
            None,
        ),
        TargetNo::Taint => taints(&node.taints, ask.variant).unwrap_or_else(resources),
        TargetNo::Volumes => volumes(run, ask, at).map_or_else(resources, |cause| (cause, None)),
        TargetNo::Ports => ports(run, ask, at),
        TargetNo::Resources => resources(),
        TargetNo::Labels => unmet(ask.variant.full, false),
        TargetNo::Reach => match ask.class.reach.last {
            Some(set) => unmet(set, true),
            None => resources(),
        },
        TargetNo::Topology => match topology::on_target(run, ask, at) {
            Some(group) => topology::unmet(run, ask.variant, &node_labels(world, at), group),
            None => resources(),
        },
    }
}

/// SCH-175: the first driver of which there would be too many volumes.
fn volumes(run: &Run<'_, '_>, ask: &Ask<'_>, at: usize) -> Option<Cause> {
    let targets = run.world.targets;
    let attached = run.touched.attached(targets, at);
    let mut limits = targets[at].node.volume_limits.iter();
    limits.find_map(|(driver, limit)| {
        let mut claims: BTreeSet<&str> = attached
            .get(driver)
            .into_iter()
            .flatten()
            .map(|claim| &**claim)
            .collect();
        let new = ask
            .class
            .volumes
            .iter()
            .filter(|volume| volume.driver.as_ref() == Some(driver));
        claims.extend(new.map(|volume| &*volume.claim));
        let (count, driver) = (claims.len(), driver.to_string());
        (count as u64 > u64::from(*limit)).then_some(Cause::VolumeLimit {
            driver,
            count: count as u32,
            limit: *limit,
        })
    })
}

/// SCH-165, and who holds the port.
fn ports(run: &Run<'_, '_>, ask: &Ask<'_>, at: usize) -> Reason {
    let port = |port: &HostPort| format!("{}:{}/{}", port.ip, port.port, port.protocol);
    let texts = |ports: &[HostPort]| ports.iter().map(port).collect::<Vec<_>>().join(" ");
    let wanted = &ask.class.shape.host_ports;
    let clash = |held: &HostPort| wanted.iter().any(|wanted| wanted.conflicts(held));
    let holder = run.world.targets[at].node.host_ports().find(|(_, held)| clash(held));
    let miss = match holder {
        Some((pod, held)) => Some(format!("{} is held by pod {}", port(held), pod.key())),
        None => {
            let held = run.ports_of(at).iter().find(|held| clash(held));
            held.map(|held| format!("{} is taken by another pod of this pass", port(held)))
        }
    };
    let cause = Cause::HostPort {
        existing: texts(run.ports_of(at)),
        pod: texts(wanted),
    };
    (cause, miss)
}

/// What closes a node to every pod.
fn closed(world: &World<'_>, at: usize) -> Option<String> {
    let target = &world.targets[at];
    let interner = world.interner();
    let available = target.node.available();
    let mut over: Vec<_> = available.iter().filter(|(_, amount)| *amount < 0).collect();
    over.sort_by_key(|(name, _)| interner.text(*name));
    if let Some((name, amount)) = over.first() {
        let (more, name) = (super::amount(*name, amount.saturating_neg()), interner.text(*name));
        return Some(format!("its pods ask for {more} {name} more than it has"));
    }
    let for_daemons = world.resources.names.iter().zip(world.targets.placeable(at));
    if let Some((name, amount)) = for_daemons.into_iter().find(|(_, amount)| **amount < 0) {
        let (more, name) = (super::amount(*name, amount.saturating_neg()), interner.text(*name));
        return Some(format!(
            "DaemonSet pods still to come need {more} {name} more than is free"
        ));
    }
    let limits = target.node.volume_limits.iter();
    let mut counted =
        limits.map(|(driver, limit)| (driver, target.attached.get(driver).map_or(0, FxHashSet::len), limit));
    let (driver, count, limit) = counted.find(|(_, count, limit)| *count as u64 > u64::from(**limit))?;
    Some(format!(
        "{count} volumes of {driver} are attached; its limit is {limit}"
    ))
}
