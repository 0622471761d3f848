//! Why an existing node, or a claim without a node yet, does not take a pod.

use crate::compile::classes::{ClassId, CompiledLevel};
use crate::compile::problem::Problem;
use crate::compile::requirements::ReqId;
use crate::compile::targets::TargetId;
use crate::output::reasons::labels::{contradiction, node_conflict};
use crate::output::reasons::reason::{Reason, query, taints};
use crate::output::reasons::text::{self, first_short};
use crate::output::reasons::topology::{on_target, topology_reason};
use crate::search::allowed::AllowedPlacement;
use crate::search::assignment::Assignment;
use crate::search::query::Query;
use crate::search::target_checks::TargetRejection;
use kerf_model::plan::{Cause, Refusal, Refuser};
use kerf_model::pod::HostPort;
use kerf_model::requirement::Requirements;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The refusals of all nodes: targets in the order they are tried, then other nodes by name.
pub(super) fn node_refusals(
    assignment: &mut Assignment<'_, '_>,
    class_id: ClassId,
    level: &CompiledLevel,
) -> Vec<Refusal> {
    let problem = assignment.problem;
    let refusal = |name: &Arc<str>, (cause, nearest_miss): Reason| Refusal {
        by: Refuser::Node(Arc::clone(name)),
        cause,
        nearest_miss,
    };
    let mut all = Vec::new();
    let allowed = AllowedPlacement::compute(problem, &assignment.counts, problem.class(class_id), level);
    // Where topology allows no node at all, other causes are still reported first.
    let anything = AllowedPlacement::default();
    let (allowed, blocked) = match &allowed {
        Ok(allowed) => (allowed, None),
        Err(group) => (&anything, Some(*group)),
    };
    let query = query(assignment, class_id, level, allowed);
    let targets = || problem.targets.entries().filter(|(at, _)| !problem.excluded.get(*at));
    for (at, target) in targets() {
        let reason = match assignment.target_rejection(&query, at) {
            Some(rejection) => Some(reason(assignment, &query, at, rejection)),
            None => blocked.map(|group| topology_reason(assignment, level, &node_labels(problem, at), group)),
        };
        all.extend(reason.map(|reason| refusal(&target.node.name, reason)));
    }
    let targets: FxHashSet<&str> = targets().map(|(_, target)| &*target.node.name).collect();
    let others = problem
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

fn node_labels(problem: &Problem<'_>, at: TargetId) -> Requirements {
    Requirements::from_labels(&problem.targets[at].node.labels, problem.interner())
}

/// The cause and the missing part of a target's rejection.
fn reason(assignment: &Assignment<'_, '_>, query: &Query<'_>, at: TargetId, rejection: TargetRejection) -> Reason {
    let problem = assignment.problem;
    let node = &problem.targets[at].node;
    let resources = || {
        let free = assignment.updated_targets.placeable(problem.targets, at);
        let short = first_short(problem, &query.class.requests, |at| free[at]);
        let miss = short.map(|(name, wanted, free)| format!("needs {wanted} {name}; {free} is free"));
        (Cause::NodeResources, miss)
    };
    let unmet = |set: ReqId, volume: bool| {
        let wanted = problem.req_sets.get(set);
        let cause = node_conflict(problem, &node_labels(problem, at), wanted, volume);
        cause.map_or_else(resources, |cause| (cause, contradiction(problem, wanted)))
    };
    match rejection {
        TargetRejection::Closed => (
            Cause::NodeNotUsable("the node is overcommitted or over an attach limit".into()),
            closed(problem, at),
        ),
        TargetRejection::Settling => (
            Cause::NodeNotUsable("a pod came or left too recently to move another one there".into()),
            None,
        ),
        TargetRejection::Taint => taints(&node.taints, query.level).unwrap_or_else(resources),
        TargetRejection::Volumes => volumes(assignment, query, at).map_or_else(resources, |cause| (cause, None)),
        TargetRejection::Ports => ports(assignment, query, at),
        TargetRejection::Resources => resources(),
        TargetRejection::Labels => unmet(query.level.full, false),
        TargetRejection::VolumeTopology => match query.class.volume_topology.last {
            Some(set) => unmet(set, true),
            None => resources(),
        },
        TargetRejection::Topology => match on_target(assignment, query, at) {
            Some(group) => topology_reason(assignment, query.level, &node_labels(problem, at), group),
            None => resources(),
        },
    }
}

/// The first driver whose attach limit would be exceeded (SCH-175).
fn volumes(assignment: &Assignment<'_, '_>, query: &Query<'_>, at: TargetId) -> Option<Cause> {
    let targets = assignment.problem.targets;
    let attached = assignment.updated_targets.attached(targets, at);
    let mut limits = targets[at].node.volume_limits.iter();
    limits.find_map(|(driver, limit)| {
        let mut claims: BTreeSet<&str> = attached
            .get(driver)
            .into_iter()
            .flatten()
            .map(|claim| &**claim)
            .collect();
        let new = query
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

/// The host port conflict (SCH-165), and the pod that has the port.
fn ports(assignment: &Assignment<'_, '_>, query: &Query<'_>, at: TargetId) -> Reason {
    let port = |port: &HostPort| format!("{}:{}/{}", port.ip, port.port, port.protocol);
    let wanted = &query.class.shape.host_ports;
    let clash = |held: &HostPort| wanted.iter().any(|wanted| wanted.conflicts(held));
    let holder = assignment.problem.targets[at]
        .node
        .host_ports()
        .find(|(_, held)| clash(held));
    let miss = match holder {
        Some((pod, held)) => Some(format!("{} is held by pod {}", port(held), pod.key())),
        None => {
            let held = assignment.ports_of(at).iter().find(|held| clash(held));
            held.map(|held| format!("{} is taken by another pod of this pass", port(held)))
        }
    };
    let mut held = assignment.ports_of(at).iter();
    let pair = held.find_map(|held| Some((held, wanted.iter().find(|wanted| wanted.conflicts(held))?)));
    let fields = |whose: &str, port: &HostPort| {
        let HostPort { ip, port, protocol } = port;
        format!("{whose}-hostport-ip={ip}, {whose}-hostport-port={port}, {whose}-hostport-protocol={protocol}")
    };
    let cause = Cause::HostPort {
        existing: pair.map_or_else(String::new, |(held, _)| fields("existing", held)),
        pod: pair.map_or_else(String::new, |(_, wanted)| fields("pod", wanted)),
    };
    (cause, miss)
}

/// Why a node takes no pod at all.
fn closed(problem: &Problem<'_>, at: TargetId) -> Option<String> {
    let target = &problem.targets[at];
    let interner = problem.interner();
    let available = target.node.available();
    let mut over: Vec<_> = available.iter().filter(|(_, amount)| *amount < 0).collect();
    over.sort_by_key(|(name, _)| interner.text(*name));
    if let Some((name, amount)) = over.first() {
        let (more, name) = (text::amount(*name, amount.saturating_neg()), interner.text(*name));
        return Some(format!("its pods ask for {more} {name} more than it has"));
    }
    let for_daemons = problem.resources.names.iter().zip(problem.targets.placeable(at));
    if let Some((name, amount)) = for_daemons.into_iter().find(|(_, amount)| **amount < 0) {
        let (more, name) = (text::amount(*name, amount.saturating_neg()), interner.text(*name));
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
