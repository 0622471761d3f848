//! What a plan would cost without one of its constraints.

use crate::inputs::{Inputs, Settings};
use crate::provision::Batch;
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::plan::Plan;
use kerf_model::pod::{Pod, PodShape};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Request, solve};
use kerf_units::policy::Packing;
use std::sync::Arc;

/// Something that narrows where pods may go or what may be launched for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Constraint {
    /// The topology spread constraints of pods about a label.
    TopologySpread(Sym),
    /// The required and preferred pod affinity terms.
    PodAffinity,
    /// The required and preferred pod anti-affinity terms, those of running pods included.
    PodAntiAffinity,
    /// The node selectors and required node affinity terms of pods about a label.
    PodRequirement(Sym),
    /// The preferred node affinity of pods.
    PreferredNodeAffinity,
    /// The topology of the volumes of pods.
    VolumeTopology,
    /// The host ports of pods.
    HostPorts,
    /// The requirement of a NodePool on a label that its provider knows.
    PoolRequirement(Arc<str>, Sym),
    /// The limits of a NodePool.
    PoolLimits(Arc<str>),
    /// `minValues` of all NodePools.
    MinValues,
    /// The pods that a DaemonSet, `namespace/name`, puts on new nodes.
    DaemonSet(Arc<str>),
    /// The packing that options and annotations set; this one is used instead.
    Packing(Packing),
}

impl Constraint {
    /// All constraints that the plan for the pods of `inputs` is subject to, without a repetition. Requirements about the operating system
    /// are left out: a pod's programs run on one only.
    pub fn all(inputs: &Inputs<'_>) -> Vec<Self> {
        let snapshot = inputs.snapshot;
        let mut found = Found::default();
        let mut seen: Vec<&Arc<PodShape>> = Vec::new();
        let batch = Batch::of(inputs);
        for pod in &batch.pods {
            if pod.volumes.iter().any(|volume| !volume.topology.is_empty()) {
                found.add(Self::VolumeTopology);
            }
            // Pods of one workload share their shape and follow one another.
            if seen
                .iter()
                .rev()
                .take(SHAPES_REMEMBERED)
                .any(|shape| Arc::ptr_eq(shape, &pod.shape))
            {
                continue;
            }
            seen.push(&pod.shape);
            of_shape(&pod.shape, &mut found);
        }
        let mut running = snapshot.nodes.iter().flat_map(|node| &node.pods);
        if running.any(|pod| !pod.shape.anti_affinity.is_empty()) {
            found.add(Self::PodAntiAffinity);
        }
        for pool in eligible(snapshot) {
            of_pool(pool, snapshot, &mut found);
        }
        for daemon in &snapshot.daemons {
            found.add(Self::DaemonSet(format!("{}/{}", daemon.namespace, daemon.name).into()));
        }
        let used = inputs.settings.solver.packing;
        let others = [Packing::Balanced, Packing::Cheapest, Packing::Upstream];
        let others = others.into_iter().filter(|packing| *packing != used);
        found.extend(others.map(Self::Packing));
        found.0
    }

    /// The same cluster and settings without the constraint.
    pub(crate) fn lift(&self, inputs: &Inputs<'_>) -> (Arc<Snapshot>, Settings) {
        let (mut snapshot, mut settings) = (Snapshot::clone(inputs.snapshot), inputs.settings.clone());
        match self {
            Self::TopologySpread(key) => {
                change_shapes(&mut snapshot, |shape| {
                    shape.spread.retain(|constraint| constraint.key != *key);
                });
            }
            Self::PodAffinity => change_shapes(&mut snapshot, |shape| {
                shape.affinity.clear();
                shape.preferred_affinity.clear();
            }),
            Self::PodAntiAffinity => change_shapes(&mut snapshot, |shape| {
                shape.anti_affinity.clear();
                shape.preferred_anti_affinity.clear();
            }),
            Self::PodRequirement(key) => change_shapes(&mut snapshot, |shape| drop_requirement(shape, *key)),
            Self::PreferredNodeAffinity => change_shapes(&mut snapshot, |shape| shape.preferred_terms.clear()),
            Self::VolumeTopology => change_pods(&mut snapshot, |pod| {
                pod.volumes.iter_mut().for_each(|volume| volume.topology.clear());
            }),
            Self::HostPorts => change_shapes(&mut snapshot, |shape| shape.host_ports.clear()),
            Self::PoolRequirement(name, key) => change_pools(&mut snapshot, |pool| {
                if pool.name == *name {
                    pool.requirements.remove(*key);
                    pool.labels.retain(|(label, _)| label != key);
                }
            }),
            Self::PoolLimits(name) => change_pools(&mut snapshot, |pool| {
                if pool.name == *name {
                    pool.limits = None;
                }
            }),
            Self::MinValues => {
                let interner = Arc::clone(&snapshot.interner);
                change_pools(&mut snapshot, |pool| {
                    pool.requirements = without_min_values(&pool.requirements, &interner);
                });
            }
            Self::DaemonSet(key) => {
                let is_it = |namespace: &str, name: &str| key.split_once('/') == Some((namespace, name));
                snapshot
                    .daemons
                    .retain(|daemon| !is_it(&daemon.namespace, &daemon.name));
            }
            Self::Packing(packing) => {
                settings.solver.packing = *packing;
                change_pools(&mut snapshot, |pool| pool.packing.packing = None);
            }
        }
        (Arc::new(snapshot), settings)
    }
}

/// Constraints without a repetition, in the order in which they were found.
#[derive(Default)]
struct Found(Vec<Constraint>);

impl Found {
    fn add(&mut self, constraint: Constraint) {
        if !self.0.contains(&constraint) {
            self.0.push(constraint);
        }
    }

    fn extend(&mut self, constraints: impl IntoIterator<Item = Constraint>) {
        constraints.into_iter().for_each(|constraint| self.add(constraint));
    }
}

/// How many of the last shapes are compared with that of a pod before it is examined again.
const SHAPES_REMEMBERED: usize = 64;

fn eligible(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<NodePool>> {
    snapshot
        .pools
        .iter()
        .filter(|pool| pool.eligibility == Eligibility::Eligible)
}

fn of_shape(shape: &PodShape, found: &mut Found) {
    found.extend(
        shape
            .spread
            .iter()
            .map(|constraint| Constraint::TopologySpread(constraint.key)),
    );
    let terms = shape.required_terms.iter().flatten();
    let required = shape
        .node_selector
        .iter()
        .chain(terms)
        .map(|requirement| requirement.key);
    found.extend(required.filter(|key| *key != sym::OS).map(Constraint::PodRequirement));
    let others = [
        (
            shape.affinity.is_empty() && shape.preferred_affinity.is_empty(),
            Constraint::PodAffinity,
        ),
        (
            shape.anti_affinity.is_empty() && shape.preferred_anti_affinity.is_empty(),
            Constraint::PodAntiAffinity,
        ),
        (shape.preferred_terms.is_empty(), Constraint::PreferredNodeAffinity),
        (shape.host_ports.is_empty(), Constraint::HostPorts),
    ];
    found.extend(
        others
            .into_iter()
            .filter_map(|(absent, constraint)| (!absent).then_some(constraint)),
    );
}

fn of_pool(pool: &NodePool, snapshot: &Snapshot, found: &mut Found) {
    if pool.limits.is_some() {
        found.add(Constraint::PoolLimits(Arc::clone(&pool.name)));
    }
    if pool.requirements.has_min_values() {
        found.add(Constraint::MinValues);
    }
    let keys = pool.requirements.iter().map(|requirement| requirement.key);
    let known = keys.filter(|key| snapshot.is_well_known(*key) && ![sym::NODEPOOL, sym::OS].contains(key));
    found.extend(known.map(|key| Constraint::PoolRequirement(Arc::clone(&pool.name), key)));
}

fn without_min_values(requirements: &Requirements, interner: &Interner) -> Requirements {
    let each = requirements.iter().cloned();
    Requirements::from_all(each.map(|requirement| requirement.with_min_values(None)), interner)
}

/// Removes the requirements about a label from the shape of a pod. If a term becomes empty, all terms are removed: it accepts every node, and
/// one term suffices.
fn drop_requirement(shape: &mut PodShape, key: Sym) {
    shape.node_selector.remove(key);
    let about = |requirement: &Requirement| requirement.key == key;
    if shape
        .required_terms
        .iter()
        .any(|term| !term.is_empty() && term.iter().all(about))
    {
        shape.required_terms.clear();
    }
    for term in &mut shape.required_terms {
        term.retain(|requirement| !about(requirement));
    }
}

fn change_pools(snapshot: &mut Snapshot, change: impl Fn(&mut NodePool)) {
    for pool in &mut snapshot.pools {
        change(Arc::make_mut(pool));
    }
}

fn change_pods(snapshot: &mut Snapshot, change: impl Fn(&mut Pod)) {
    for pod in &mut snapshot.pending {
        change(Arc::make_mut(pod));
    }
    for node in &mut snapshot.nodes {
        for pod in &mut Arc::make_mut(node).pods {
            change(Arc::make_mut(pod));
        }
    }
}

/// Changes the shapes of all pods. Pods that follow one another and share a shape share the changed one.
fn change_shapes(snapshot: &mut Snapshot, change: impl Fn(&mut PodShape)) {
    let last = std::cell::RefCell::new(None::<(Arc<PodShape>, Arc<PodShape>)>);
    change_pods(snapshot, |pod| {
        let mut last = last.borrow_mut();
        let changed = match &*last {
            Some((before, after)) if Arc::ptr_eq(before, &pod.shape) => Arc::clone(after),
            _ => {
                let mut shape = PodShape::clone(&pod.shape);
                change(&mut shape);
                let after = Arc::new(shape);
                *last = Some((Arc::clone(&pod.shape), Arc::clone(&after)));
                after
            }
        };
        pod.shape = changed;
    });
}

/// The cost of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanCost {
    /// The price of what it launches.
    pub price: Price,
    /// The number of nodes it launches.
    pub nodes: usize,
    /// The number of pods it leaves without a place.
    pub left_over: usize,
}

impl PlanCost {
    /// Of this plan.
    pub fn of(plan: &Plan) -> Self {
        Self {
            price: plan.price(),
            nodes: plan.launches.len(),
            left_over: plan.left_over(),
        }
    }
}

/// The cost of the plan for the pods of `inputs` without a constraint.
pub fn cost_without(inputs: &Inputs<'_>, constraint: &Constraint) -> PlanCost {
    let (snapshot, settings) = constraint.lift(inputs);
    let lifted = Inputs {
        snapshot: &snapshot,
        settings: &settings,
        ..*inputs
    };
    let batch = Batch::of(&lifted);
    let request = Request::new(&snapshot, &batch.pods);
    PlanCost::of(&solve(&request, &settings.solver, &|| false))
}
