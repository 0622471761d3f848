//! Simulation: where would every pod go without these nodes (DIS-093 to DIS-105)?

use crate::candidate::Candidate;
use crate::pods;
use jiff::Timestamp;
use kerf_model::node::Node;
use kerf_model::plan::{Plan, Unschedulable};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Prepared, ReservedMode, WhatIf as Question};
use kerf_units::launch_price_range::LaunchPriceRange;
use kerf_units::policy::Packing;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of failures that the message names (DIS-103).
const NAMED: usize = 5;

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The plan without the candidates.
    pub plan: Plan,
    /// Pods that were not pending and would have no node, ordered by namespace and name (DIS-102).
    pub unplaced: Vec<Unplaced>,
}

/// A pod that has a node and would lose it without getting another.
#[derive(Clone, PartialEq, Debug)]
pub struct Unplaced {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The reason.
    pub why: String,
}

/// Why no simulation is possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SimulationError {
    /// No pool may get new nodes (DIS-094).
    #[error("no dynamic nodepools found")]
    NoPools,
    /// A candidate is being deleted already (DIS-095).
    #[error("candidate is deleting")]
    Deleting,
}

impl Simulation {
    /// The message that names the pods without a node; `None` if every pod has one (DIS-103).
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

/// What the simulation assumes of pods that must not be disrupted now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protected {
    /// They stay where they are, so it does not plan for them (DIS-096).
    Stay,
    /// They move like others.
    Move,
}

/// What all simulations of one snapshot share.
#[derive(Debug)]
pub struct WhatIf<'a> {
    snapshot: &'a Snapshot,
    prepared: Arc<Prepared>,
    settling: Vec<usize>,
    now: Timestamp,
    options: Options,
    /// Unique ids of the pending pods, whose failures do not count (DIS-102).
    pending: BTreeSet<&'a str>,
    /// Pods for which a NodeClaim was created, by unique id, with its machine. In the snapshot that machine is full of them.
    served: BTreeMap<&'a str, &'a Node>,
    /// Pods of nodes that are being deleted, with the index of their node (DIS-096).
    homeless: Vec<(usize, Arc<Pod>)>,
}

impl<'a> WhatIf<'a> {
    /// Prepares simulations of a snapshot. `settling` are the nodes to which consolidation moves no pod (DIS-104).
    pub fn new(
        snapshot: &'a Snapshot,
        settling: Vec<usize>,
        now: Timestamp,
        options: &Options,
    ) -> Result<Self, SimulationError> {
        let prepared = || Arc::new(Prepared::new(snapshot, options));
        Self::reading(snapshot, prepared, settling, now, options)
    }

    /// As [`Self::new`], with `prepared` made by the caller from the same snapshot and options.
    pub fn reading(
        snapshot: &'a Snapshot,
        prepared: impl FnOnce() -> Arc<Prepared>,
        settling: Vec<usize>,
        now: Timestamp,
        options: &Options,
    ) -> Result<Self, SimulationError> {
        if !snapshot.has_eligible_pool() {
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

    /// The snapshot.
    pub const fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// What a node of a pool costs besides its price.
    pub(crate) fn node_overhead(&self, pool: &str) -> Price {
        let pool = self.snapshot.pools.iter().find(|known| *known.name == *pool);
        let configured = pool.and_then(|pool| pool.packing.node_overhead);
        Price::from_pico(configured.unwrap_or(self.options.node_overhead).pico())
    }

    /// The time of the simulations.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Plans pending pods, the candidates' pods and the pods of nodes being deleted onto the other nodes and new ones (DIS-093 to DIS-102).
    pub fn without(&self, candidates: &[&Candidate]) -> Result<Simulation, SimulationError> {
        self.ask(candidates, Protected::Stay)
    }

    /// As [`Self::without`], with `balanced` packing instead of as few new nodes as possible.
    pub(crate) fn without_for_several(&self, candidates: &[&Candidate]) -> Result<Simulation, SimulationError> {
        let options = Options {
            packing: Packing::Balanced,
            forecast_binding: false,
            threads: 1,
            ..self.options.clone()
        };
        self.ask_with(candidates, Protected::Stay, &options)
    }

    /// As [`Self::without`], with this assumption about pods that must not be disrupted now.
    pub(crate) fn ask(&self, candidates: &[&Candidate], protected: Protected) -> Result<Simulation, SimulationError> {
        self.ask_with(candidates, protected, &self.options)
    }

    fn ask_with(
        &self,
        candidates: &[&Candidate],
        protected: Protected,
        options: &Options,
    ) -> Result<Simulation, SimulationError> {
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
        let plan = self.prepared.solve(&question, options, &|| false);
        let mut unplaced = self.unplaced(&plan);
        unplaced.extend(self.on_uninitialized(&plan));
        unplaced.extend(self.promised(candidates));
        unplaced.sort_by(|a, b| name(&a.pod).cmp(&name(&b.pod)).then_with(|| a.why.cmp(&b.why)));
        Ok(Simulation { plan, unplaced })
    }

    /// The pods of a simulation: pending ones first, then the candidates', then those of nodes being deleted (DIS-096).
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

    /// Pods that had a node and have none in the plan, with the reason.
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

    /// Pods planned onto nodes that are not initialized. Such a node may never become ready, so only pods that lose their node anyway may be
    /// planned there (DIS-100).
    fn on_uninitialized(&self, plan: &Plan) -> Vec<Unplaced> {
        let mut found = Vec::new();
        for placement in &plan.existing {
            let Some(why) = self.snapshot.node(&placement.node).and_then(|node| against(node)) else {
                continue;
            };
            let homeless = |pod: &Pod| self.homeless.iter().any(|(_, other)| other.uid == pod.uid);
            let undependable = |pod: &&Arc<Pod>| !homeless(pod) && !self.pending.contains(&*pod.uid);
            found.extend(placement.pods.iter().filter(undependable).map(|pod| Unplaced {
                pod: Arc::clone(pod),
                why: why.clone(),
            }));
        }
        found
    }

    /// Pods of the candidates for which a machine was planned by a command that was given up. Until that machine is initialized, it is treated
    /// like any other that is not.
    fn promised(&self, candidates: &[&Candidate]) -> impl Iterator<Item = Unplaced> {
        let pods = candidates.iter().flat_map(|candidate| &candidate.pods);
        pods.filter_map(|pod| {
            let why = against(self.served.get(&*pod.uid)?)?;
            let pod = Arc::clone(pod);
            Some(Unplaced { pod, why })
        })
    }
}

/// The reason why a node of a NodeClaim takes no pod (DIS-100); `None` if it is initialized.
fn against(node: &Node) -> Option<String> {
    let claim = node.claim_name.as_ref().filter(|_| !node.initialized)?;
    let name = &node.name;
    Some(format!(
        "would schedule against uninitialized nodeclaim/{claim}, node/{name}"
    ))
}

fn name(pod: &Pod) -> (&str, &str) {
    (&pod.namespace, &pod.name)
}

/// The cluster after candidates were marked for deletion. The checker verifies plans against it.
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

/// The capacity that the candidates free under their pools' limits, by pool (DIS-312).
fn freed(candidates: &[&Candidate]) -> Vec<(Arc<str>, Resources)> {
    let limited = candidates.iter().filter(|candidate| candidate.pool.limits.is_some());
    limited
        .map(|candidate| (Arc::clone(&candidate.pool.name), candidate.node.capacity.clone()))
        .collect()
}

/// The solver options of disruption, made from those of provisioning: a pod may go without a reservation (DIS-098).
pub fn what_if_options(provisioning: &Options) -> Options {
    Options {
        reserved: match provisioning.reserved {
            ReservedMode::Strict => ReservedMode::Fallback,
            mode @ (ReservedMode::Off | ReservedMode::Fallback) => mode,
        },
        ..provisioning.clone()
    }
}

/// The solver options of consolidation: pods are packed onto as few machines as possible, because a command launches at most one by default
/// (DIS-131). Replacements may be of any type that is cheaper than the nodes that go.
pub fn consolidation_options(provisioning: &Options) -> Options {
    Options {
        packing: Packing::Upstream,
        launch_price_range: LaunchPriceRange::default(),
        ..what_if_options(provisioning)
    }
}
