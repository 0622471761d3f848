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
/// `settling_nodes` are closed to pods that move by choice (DIS-104).
pub fn simulate(
    snapshot: &Snapshot,
    candidates: &[&Candidate],
    settling_nodes: &[usize],
    now: Timestamp,
    options: &Options,
) -> Result<Simulation, SimulationError> {
    let mut pools = snapshot.pools.iter();
    if !pools.any(|pool| pool.eligibility == Eligibility::Eligible) {
        return Err(SimulationError::NoPools);
    }
    let without = without_usage_of(snapshot, candidates);
    let snapshot = without.as_ref().unwrap_or(snapshot);
    let load = Load::new(snapshot, candidates, now);
    let excluded: Vec<usize> = candidates.iter().map(|candidate| candidate.index).collect();
    let request = Request {
        snapshot,
        pods: &load.pods,
        exclude_nodes: &excluded,
        settling_nodes,
    };
    let plan = solve(&request, options, &|| false);
    let mut failures = load.unplaced(&plan);
    failures.extend(load.on_uninitialized(snapshot, &plan));
    failures.sort();
    Ok(Simulation { plan, failures })
}

/// DIS-312: what the candidates use of their pools' limits is free again. `None` where no limit is concerned.
fn without_usage_of(snapshot: &Snapshot, candidates: &[&Candidate]) -> Option<Snapshot> {
    let limited = |candidate: &&&Candidate| candidate.pool.limits.is_some();
    let mut changed: Option<Snapshot> = None;
    for candidate in candidates.iter().filter(limited) {
        let snapshot = changed.get_or_insert_with(|| snapshot.clone());
        let pool = snapshot
            .pools
            .iter_mut()
            .find(|pool| pool.label == candidate.pool.label);
        if let Some(pool) = pool {
            Arc::make_mut(pool).usage.subtract(&candidate.node.capacity);
        }
    }
    changed
}

/// The pods of a what-if.
struct Load<'a> {
    /// Pending ones first, then the candidates', then those of deleting nodes (DIS-096).
    pods: Vec<Arc<Pod>>,
    /// Whose failure counts for nothing (DIS-102).
    pending: BTreeSet<&'a str>,
    /// Who may go to nodes that are not initialised yet, since they lose theirs anyway (DIS-100).
    homeless: BTreeSet<Arc<str>>,
}

impl<'a> Load<'a> {
    fn new(snapshot: &'a Snapshot, candidates: &[&Candidate], now: Timestamp) -> Self {
        // A claim was made for these, which stands in the snapshot as a machine that is full of them.
        let planned = snapshot
            .nodes
            .iter()
            .filter(|node| node.managed && node.provider_id.is_none());
        let served: BTreeSet<&str> = planned.flat_map(|node| &node.pods).map(|pod| &*pod.uid).collect();
        let moves = |pod: &&Arc<Pod>| !served.contains(&*pod.uid) && pods::reschedulable_now(pod, snapshot, now);
        let mut all: Vec<Arc<Pod>> = snapshot.pending.clone();
        for candidate in candidates {
            all.extend(candidate.pods.iter().filter(moves).cloned());
        }
        let taken: BTreeSet<usize> = candidates.iter().map(|candidate| candidate.index).collect();
        let going = snapshot.nodes.iter().enumerate();
        let going = going.filter(|(index, node)| node.marked_for_deletion && !taken.contains(index));
        let going = going.flat_map(|(_, node)| &node.pods);
        let homeless: Vec<Arc<Pod>> = going
            .filter(|pod| pod.node_name.is_some())
            .filter(moves)
            .cloned()
            .collect();
        all.extend(homeless.iter().cloned());
        Self {
            pods: all,
            pending: snapshot.pending.iter().map(|pod| &*pod.uid).collect(),
            homeless: homeless.iter().map(|pod| Arc::clone(&pod.uid)).collect(),
        }
    }

    /// Pods that run somewhere and would run nowhere, with why.
    fn unplaced(&self, plan: &Plan) -> Vec<(String, String)> {
        let refused = plan
            .unschedulable
            .iter()
            .map(|left: &Unschedulable| (&left.pod, left.message()));
        let ignored = plan.ignored.iter().map(|(pod, faults)| {
            let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
            (pod, texts.join("; "))
        });
        let unattempted = plan
            .unattempted
            .iter()
            .map(|pod| (pod, "not attempted in time".to_owned()));
        let all = refused.chain(ignored).chain(unattempted);
        all.filter(|(pod, _)| !self.pending.contains(&*pod.uid))
            .map(|(pod, why)| (pod.key(), why))
            .collect()
    }

    /// DIS-100: a node that is not initialised is no dependable place, except for pods that lose theirs anyway.
    fn on_uninitialized(&self, snapshot: &Snapshot, plan: &Plan) -> Vec<(String, String)> {
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
            let undependable = |pod: &&Arc<Pod>| !self.homeless.contains(&pod.uid) && !self.pending.contains(&*pod.uid);
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
}
