//! Retirement of blocked nodes. If only pods that must not be disrupted prevent consolidation from deleting a node, the node takes no more
//! pods and is deleted when those have finished.
//!
//! A node retires only if the other nodes have room for all its pods, protected ones included: their successors then need no new machine.
//! All retiring nodes are judged together, those that retire already first. If the load has grown so that they are needed, the last ones
//! return to service.

use crate::balance::Balance;
use crate::blocker::Blocker;
use crate::candidate::{Candidate, Candidates};
use crate::cost::Cost;
use crate::eligible::obstacle;
use crate::pods;
use crate::simulation::{Protected, SimulationError, WhatIf};
use crate::unconsolidatable::Unconsolidatable;
use jiff::Timestamp;
use kerf_model::node::Node;
use kerf_model::nodepool::Eligibility;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::Options;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The key of the taint that keeps pods away from a node that retires; its effect is `NoSchedule`.
pub const RETIRING: &str = "kerf.sh/retiring";

/// How many nodes one pass tries. Each costs a simulation, and one node retires per pass, so the next pass can try the others.
const TRIES: usize = 16;

/// Whether a node carries the taint.
pub fn is_retiring(node: &Node) -> bool {
    node.taints.iter().any(|taint| *taint.key == *RETIRING)
}

/// The nodes, by index in the snapshot, that should carry the taint: those that may keep it, and at most one more. `sorted` are the candidates
/// of graceful methods.
pub fn retiring(
    snapshot: &Snapshot,
    sorted: &Candidates,
    settling_nodes: &[usize],
    now: Timestamp,
    options: &Options,
) -> Result<Vec<usize>, SimulationError> {
    let (mut asking, mut wanted) = (Vec::new(), Vec::new());
    for (index, node) in snapshot.nodes.iter().enumerate() {
        let tainted = is_retiring(node);
        match retirement_state(snapshot, sorted, index, now) {
            RetirementState::Undecided if tainted => wanted.push(index),
            RetirementState::OnlyProtectedPods(candidate) => asking.push((candidate, tainted)),
            RetirementState::Unblocked(candidate) if tainted => asking.push((candidate, tainted)),
            RetirementState::NotAsked | RetirementState::Undecided | RetirementState::Unblocked(_) => {}
        }
    }
    let rests: Vec<Candidate> = asking
        .iter()
        .map(|(candidate, _)| unprotected(candidate, now))
        .collect();
    let balance = Balance::new(snapshot, &rests);
    let (mut already, mut new) = (Vec::new(), Vec::new());
    for ((candidate, tainted), rest) in asking.into_iter().zip(&rests) {
        let may_go = would_go(snapshot, &candidate, now) && balance.hopeless(rest).is_none();
        match (may_go, tainted) {
            (true, true) => already.push(candidate),
            (true, false) if candidate.node.lifecycle.consolidatable => new.push(candidate),
            _ => {}
        }
    }
    if already.is_empty() && new.is_empty() {
        return Ok(wanted);
    }
    already.sort_by(Candidate::by_savings);
    new.sort_by(Candidate::by_savings);
    let open = without_taint(snapshot);
    let what_if = WhatIf::new(&open, settling_nodes.to_vec(), now, options)?;
    // The machines that are needed and the pods that have no place even if no node retires.
    let needed = what_if.ask(&[], Protected::Move)?;
    let homeless: BTreeSet<&str> = needed.unplaced.iter().map(|left| &*left.pod.uid).collect();
    let fits = |set: &[&Candidate]| -> Result<bool, SimulationError> {
        let simulation = what_if.ask(set, Protected::Move)?;
        let all_stay_placed = simulation.unplaced.iter().all(|left| homeless.contains(&*left.pod.uid));
        // `unplaced` has no pending pods, so they are counted: where limits forbid a new machine, the node may be their only place.
        Ok(all_stay_placed
            && simulation.plan.left_over() <= needed.plan.left_over()
            && simulation.plan.launches.len() <= needed.plan.launches.len())
    };
    let all: Vec<&Candidate> = already.iter().collect();
    let (mut low, mut high) = (0, all.len());
    if !all.is_empty() && !fits(&all)? {
        // Feasibility is monotone: if a set fits, so does each of its prefixes. Binary search finds the longest one that fits.
        high -= 1;
        while low < high {
            let middle = (low + high).div_ceil(2);
            match fits(all.get(..middle).unwrap_or(&all))? {
                true => low = middle,
                false => high = middle - 1,
            }
        }
    }
    let mut kept: Vec<&Candidate> = all.iter().take(high).copied().collect();
    if kept.len() == all.len() {
        for candidate in new.iter().take(TRIES) {
            kept.push(candidate);
            if fits(&kept)? {
                break;
            }
            kept.pop();
        }
    }
    wanted.extend(kept.iter().map(|candidate| candidate.index));
    wanted.sort_unstable();
    Ok(wanted)
}

/// Whether a node may retire.
enum RetirementState {
    /// No: its pool does not ask for retirement, or the node has another blocker.
    NotAsked,
    /// Not now: it is being disrupted, or pods are nominated to it. Its taint stays as it is.
    Undecided,
    /// Yes: only pods that must not be disrupted block it.
    OnlyProtectedPods(Candidate),
    /// It has no blocker, so consolidation can take it without retirement.
    Unblocked(Candidate),
}

fn retirement_state(snapshot: &Snapshot, sorted: &Candidates, index: usize, now: Timestamp) -> RetirementState {
    if let Some(candidate) = sorted.free.iter().find(|candidate| candidate.index == index) {
        return match asks(candidate) {
            true => RetirementState::Unblocked(candidate.clone()),
            false => RetirementState::NotAsked,
        };
    }
    let blocker = sorted.blocked.iter().find(|(at, _)| *at == index);
    match blocker.map(|(_, blocker)| blocker) {
        Some(Blocker::Queued | Blocker::Deleting | Blocker::Nominated) => RetirementState::Undecided,
        Some(Blocker::PodAnnotation(_)) => {
            let Some(candidate) = Candidate::of_node(snapshot, index).filter(asks) else {
                return RetirementState::NotAsked;
            };
            let others: Vec<Arc<Pod>> = candidate
                .node
                .pods
                .iter()
                .filter(|pod| !is_protected(pod, now))
                .cloned()
                .collect();
            match pods::blocker(&others, snapshot, now) {
                None => RetirementState::OnlyProtectedPods(candidate),
                Some(_) => RetirementState::NotAsked,
            }
        }
        _ => RetirementState::NotAsked,
    }
}

/// Whether the node's pool wants blocked nodes to retire, and consolidates at all.
fn asks(candidate: &Candidate) -> bool {
    let pool = &candidate.pool;
    pool.disruption.retire_blocked
        && pool.disruption.consolidate_after.is_some()
        && pool.eligibility != Eligibility::Static
}

fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    pod.is_active() && pod.do_not_disrupt_active(now)
}

/// Whether consolidation could choose the node after its protected pods have finished.
fn would_go(snapshot: &Snapshot, candidate: &Candidate, now: Timestamp) -> bool {
    match obstacle(snapshot, candidate) {
        None | Some(Unconsolidatable::LeftToEmptiness | Unconsolidatable::Unsettled(_)) => true,
        // The policy `WhenEmpty`: the node is empty once its protected pods have finished.
        Some(Unconsolidatable::NotEmpty(_)) => candidate.pods.iter().all(|pod| is_protected(pod, now)),
        Some(_) => false,
    }
}

/// The candidate without its protected pods. Balanced pools score the cost of moving the others (DIS-205).
fn unprotected(candidate: &Candidate, now: Timestamp) -> Candidate {
    let mut rest = candidate.clone();
    rest.pods.retain(|pod| !is_protected(pod, now));
    rest.cost = Cost::of_node(&rest.pods);
    rest
}

/// The cluster as it would be if nothing retired.
fn without_taint(snapshot: &Snapshot) -> Snapshot {
    let mut open = snapshot.clone();
    for node in open.nodes.iter_mut().filter(|node| is_retiring(node)) {
        Arc::make_mut(node).taints.retain(|taint| *taint.key != *RETIRING);
    }
    open
}
