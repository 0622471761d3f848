//! What if: would every pod find a place without these nodes (section 7 of the disruption contract)?

use crate::candidate::Candidate;
use crate::pods;
use jiff::Timestamp;
use kerf_model::node::Node;
use kerf_model::nodepool::Eligibility;
use kerf_model::plan::{Plan, Unschedulable};
use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Prepared, ReservedMode, WhatIf as Question};
use kerf_units::policy::Packing;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many failures the sentence names (DIS-103).
const NAMED: usize = 5;

/// The outcome of a what-if.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The plan without the candidates.
    pub plan: Plan,
    /// Pods that would have no place though they were not pending (DIS-102), by namespace and name.
    pub unplaced: Vec<Unplaced>,
}

/// A pod that runs somewhere and would run nowhere.
#[derive(Clone, PartialEq, Debug)]
pub struct Unplaced {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Why, as the sentence has it.
    pub why: String,
}

/// Why no what-if could be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SimulationError {
    /// DIS-094.
    #[error("no dynamic nodepools found")]
    NoPools,
    /// DIS-095.
    #[error("candidate is deleting")]
    Deleting,
}

impl Simulation {
    /// The failure sentence (DIS-103).
    pub fn failure(&self) -> Option<String> {
        if self.unplaced.is_empty() {
            return None;
        }
        let mut text = "not all pods would schedule, ".to_owned();
        for Unplaced { pod, why } in self.unplaced.iter().take(NAMED) {
            text.push_str(&format!("{} => {why} ", pod.key()));
        }
        if self.unplaced.len() > NAMED {
            text.push_str(&format!(" and {} other(s)", self.unplaced.len() - NAMED));
        }
        Some(text)
    }
}

/// Whether pods that must not be disrupted now are planned for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protected {
    /// They stay where they are, so they need nothing (DIS-096).
    Stay,
    /// They need a place like others: what if they were done?
    Move,
}

/// What all what-ifs about one snapshot share.
#[derive(Debug)]
pub struct WhatIf<'a> {
    snapshot: &'a Snapshot,
    prepared: Arc<Prepared>,
    settling: Vec<usize>,
    now: Timestamp,
    options: Options,
    /// Whose failure counts for nothing (DIS-102).
    pending: BTreeSet<&'a str>,
    /// Pods a claim was made for, which stands in the snapshot as a machine that is full of them, with that machine.
    served: BTreeMap<&'a str, &'a Node>,
    /// Pods of deleting nodes, with the index of their node (DIS-096).
    homeless: Vec<(usize, Arc<Pod>)>,
}

impl<'a> WhatIf<'a> {
    /// Prepares to ask about a snapshot. `settling` are the nodes closed to pods that move by choice (DIS-104).
    pub fn new(
        snapshot: &'a Snapshot,
        settling: Vec<usize>,
        now: Timestamp,
        options: &Options,
    ) -> Result<Self, SimulationError> {
        let prepared = || Arc::new(Prepared::new(snapshot, options));
        Self::reading(snapshot, prepared, settling, now, options)
    }

    /// The same where the snapshot may have been read already: what `prepared` gives must be a reading of it with these options.
    pub fn reading(
        snapshot: &'a Snapshot,
        prepared: impl FnOnce() -> Arc<Prepared>,
        settling: Vec<usize>,
        now: Timestamp,
        options: &Options,
    ) -> Result<Self, SimulationError> {
        let mut pools = snapshot.pools.iter();
        if !pools.any(|pool| pool.eligibility == Eligibility::Eligible) {
            return Err(SimulationError::NoPools);
        }
        let planned = snapshot.nodes.iter().filter(|node| node.is_planned());
        let promised = planned.flat_map(|node| node.pods.iter().map(move |pod| (&*pod.uid, &**node)));
        let served: BTreeMap<&str, &Node> = promised.collect();
        let mut homeless = Vec::new();
        let going = snapshot.nodes.iter().enumerate();
        for (index, node) in going.filter(|(_, node)| node.marked_for_deletion) {
            let moves = |pod: &&Arc<Pod>| {
                pod.node_name.is_some()
                    && !served.contains_key(&*pod.uid)
                    && pods::reschedulable_now(pod, snapshot, now)
            };
            homeless.extend(node.pods.iter().filter(moves).map(|pod| (index, Arc::clone(pod))));
        }
        Ok(Self {
            snapshot,
            prepared: prepared(),
            settling,
            now,
            options: options.clone(),
            pending: snapshot.pending.iter().map(|pod| &*pod.uid).collect(),
            served,
            homeless,
        })
    }

    /// The snapshot asked about.
    pub const fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The time asked about.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Plans the pending pods, the candidates' pods and those of deleting nodes onto the other nodes and new ones (DIS-093 to DIS-102).
    pub fn without(&self, candidates: &[&Candidate]) -> Result<Simulation, SimulationError> {
        self.ask(candidates, Protected::Stay)
    }

    pub(crate) fn ask(&self, candidates: &[&Candidate], protected: Protected) -> Result<Simulation, SimulationError> {
        let is_going = |candidate: &&Candidate| candidate.node.marked_for_deletion;
        if candidates.iter().any(is_going) {
            return Err(SimulationError::Deleting);
        }
        let pods = self.pods(candidates, protected);
        let excluded: Vec<usize> = candidates.iter().map(|candidate| candidate.index).collect();
        let question = Question {
            pods: &pods,
            exclude_nodes: &excluded,
            settling_nodes: &self.settling,
            freed: &freed(candidates),
        };
        let plan = self.prepared.solve(&question, &self.options, &|| false);
        let mut unplaced = self.unplaced(&plan);
        unplaced.extend(self.on_uninitialized(&plan));
        unplaced.extend(self.promised(candidates));
        unplaced.sort_by(|a, b| name(&a.pod).cmp(&name(&b.pod)).then_with(|| a.why.cmp(&b.why)));
        Ok(Simulation { plan, unplaced })
    }

    /// The pods of a what-if: pending ones first, then the candidates', then those of deleting nodes (DIS-096).
    pub(crate) fn pods(&self, candidates: &[&Candidate], protected: Protected) -> Vec<Arc<Pod>> {
        let moves = |pod: &&Arc<Pod>| {
            !self.served.contains_key(&*pod.uid)
                && (protected == Protected::Move || pods::reschedulable_now(pod, self.snapshot, self.now))
        };
        let mut all: Vec<Arc<Pod>> = self.snapshot.pending.clone();
        for candidate in candidates {
            all.extend(candidate.pods.iter().filter(moves).cloned());
        }
        all.extend(self.homeless.iter().map(|(_, pod)| Arc::clone(pod)));
        all
    }

    /// Pods that run somewhere and would run nowhere, with why.
    fn unplaced(&self, plan: &Plan) -> Vec<Unplaced> {
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
            .map(|(pod, why)| Unplaced {
                pod: Arc::clone(pod),
                why,
            })
            .collect()
    }

    /// DIS-100: a node that is not initialised is no dependable place, except for pods that lose theirs anyway.
    fn on_uninitialized(&self, plan: &Plan) -> Vec<Unplaced> {
        let mut found = Vec::new();
        for placement in &plan.existing {
            let node = self.snapshot.node(&placement.node);
            let Some(node) = node.filter(|node| node.managed && !node.initialized) else {
                continue;
            };
            let why = against(node);
            let homeless = |pod: &Pod| self.homeless.iter().any(|(_, other)| other.uid == pod.uid);
            let undependable = |pod: &&Arc<Pod>| !homeless(pod) && !self.pending.contains(&*pod.uid);
            found.extend(placement.pods.iter().filter(undependable).map(|pod| Unplaced {
                pod: Arc::clone(pod),
                why: why.clone(),
            }));
        }
        found
    }

    /// Pods of the candidates whose machine is still to be launched, since another command was given up: until it is initialised, it is as
    /// little of a place as any other that is not.
    fn promised(&self, candidates: &[&Candidate]) -> impl Iterator<Item = Unplaced> {
        let pods = candidates.iter().flat_map(|candidate| &candidate.pods);
        pods.filter_map(|pod| {
            let why = against(self.served.get(&*pod.uid)?);
            let pod = Arc::clone(pod);
            Some(Unplaced { pod, why })
        })
    }
}

/// DIS-100
fn against(node: &Node) -> String {
    let claim = node.claim_name.as_deref().unwrap_or_default();
    format!(
        "would schedule against uninitialized nodeclaim/{claim}, node/{}",
        node.name
    )
}

fn name(pod: &Pod) -> (&str, &str) {
    (&pod.namespace, &pod.name)
}

/// The cluster after candidates were marked as going: what a plan without them is judged against.
pub(crate) fn marked(snapshot: &Snapshot, candidates: &[&Candidate]) -> Snapshot {
    let mut after = snapshot.clone();
    for candidate in candidates {
        if let Some(node) = after.nodes.get_mut(candidate.index) {
            Arc::make_mut(node).marked_for_deletion = true;
        }
    }
    for (name, capacity) in freed(candidates) {
        if let Some(pool) = after.pools.iter_mut().find(|pool| pool.name == name) {
            Arc::make_mut(pool).usage.subtract(&capacity);
        }
    }
    after
}

/// DIS-312: what the candidates use of their pools' limits is free again.
fn freed(candidates: &[&Candidate]) -> Vec<(Arc<str>, Resources)> {
    let limited = candidates.iter().filter(|candidate| candidate.pool.limits.is_some());
    limited
        .map(|candidate| (Arc::clone(&candidate.pool.name), candidate.node.capacity.clone()))
        .collect()
}

/// How disruption asks the solver, given how provisioning does: without a reservation rather than not at all (DIS-098).
pub fn what_if_options(provisioning: &Options) -> Options {
    Options {
        reserved: match provisioning.reserved {
            ReservedMode::Strict => ReservedMode::Fallback,
            mode @ (ReservedMode::Off | ReservedMode::Fallback) => mode,
        },
        ..provisioning.clone()
    }
}

/// The same for consolidation, where two cheap machines are no substitute for one (DIS-131): pods are packed onto as few as will hold them.
pub fn consolidation_options(provisioning: &Options) -> Options {
    Options {
        packing: Packing::Upstream,
        ..what_if_options(provisioning)
    }
}
