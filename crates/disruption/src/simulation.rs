//! What if: would every pod find a place without these nodes (section 7 of the disruption contract)?

use crate::candidate::Candidate;
use crate::pods;
use jiff::Timestamp;
use kerf_model::nodepool::Eligibility;
use kerf_model::plan::{Plan, Unschedulable};
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Request, solve};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The outcome of a what-if.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The plan without the candidates.
    pub plan: Plan,
    /// `namespace/name => why` for every pod that would have no place though it was not pending (DIS-102).
    pub failures: Vec<(String, String)>,
}

/// Why no what-if could be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SimulationError {
    /// DIS-094.
    #[error("no dynamic nodepools found")]
    NoPools,
}

impl Simulation {
    /// The failure sentence (DIS-103).
    pub fn failure(&self) -> Option<String> {
        if self.failures.is_empty() {
            return None;
        }
        let mut text = "not all pods would schedule, ".to_owned();
        for (pod, why) in self.failures.iter().take(5) {
            text.push_str(&format!("{pod} => {why} "));
        }
        if self.failures.len() > 5 {
            text.push_str(&format!(" and {} other(s)", self.failures.len() - 5));
        }
        Some(text)
    }
}

/// Plans the pending pods, the candidates' pods and those of deleting nodes onto the other nodes and new ones (DIS-093 to DIS-102).
pub fn simulate(
    snapshot: &Snapshot,
    candidates: &[&Candidate],
    settling_nodes: &[usize],
    now: Timestamp,
    options: &Options,
) -> Result<Simulation, SimulationError> {
    if !snapshot
        .pools
        .iter()
        .any(|pool| pool.eligibility == Eligibility::Eligible)
    {
        return Err(SimulationError::NoPools);
    }
    let pending: BTreeSet<&str> = snapshot.pending.iter().map(|pod| &*pod.uid).collect();
    let mut all: Vec<Arc<Pod>> = snapshot.pending.clone();
    let moves = |pod: &&Arc<Pod>| pods::reschedulable_now(pod, snapshot, now);
    for candidate in candidates {
        all.extend(candidate.pods.iter().filter(moves).cloned());
    }
    let going = snapshot.nodes.iter().filter(|node| node.marked_for_deletion);
    let deleting: Vec<Arc<Pod>> = going.flat_map(|node| node.pods.iter().filter(moves).cloned()).collect();
    let from_deleting: BTreeSet<&str> = deleting.iter().map(|pod| &*pod.uid).collect();
    all.extend(deleting.iter().cloned());
    let excluded: Vec<usize> = candidates.iter().map(|candidate| candidate.index).collect();
    let request = Request {
        snapshot,
        pods: &all,
        exclude_nodes: &excluded,
        settling_nodes,
    };
    let plan = solve(&request, options, &|| false);
    let mut failures: Vec<(String, String)> = plan
        .unschedulable
        .iter()
        .filter(|left| !pending.contains(&*left.pod.uid))
        .map(|left: &Unschedulable| (left.pod.key(), left.message()))
        .collect();
    failures.extend(onto_uninitialized(snapshot, &plan, &from_deleting, &pending));
    failures.sort();
    Ok(Simulation { plan, failures })
}

/// DIS-100: a node that is not initialised is no dependable place, except for pods that lose theirs anyway.
fn onto_uninitialized(
    snapshot: &Snapshot,
    plan: &Plan,
    from_deleting: &BTreeSet<&str>,
    pending: &BTreeSet<&str>,
) -> Vec<(String, String)> {
    let mut failures = Vec::new();
    for placement in &plan.existing {
        let node = snapshot.nodes.iter().find(|node| node.name == placement.node);
        let Some(node) = node.filter(|node| node.managed && !node.initialized) else {
            continue;
        };
        let claim = node.claim_name.as_deref().unwrap_or_default();
        let why = format!(
            "would schedule against uninitialized nodeclaim/{claim}, node/{}",
            node.name
        );
        let undependable = |pod: &&Arc<Pod>| !from_deleting.contains(&*pod.uid) && !pending.contains(&*pod.uid);
        failures.extend(
            placement
                .pods
                .iter()
                .filter(undependable)
                .map(|pod| (pod.key(), why.clone())),
        );
    }
    failures
}
