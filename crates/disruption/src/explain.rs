//! Why a node stays: everything that is in the way of taking it, with what would clear the way.

use crate::allowance::Allowance;
use crate::blocker::Blocker;
use crate::candidate::{Candidate, Candidates};
use crate::consolidation::Consolidation;
use crate::eligible::obstacle;
use crate::stay::Stay;
use kerf_model::budget::DisruptionReason;
use kerf_model::node::Node;
use kerf_model::snapshot::Snapshot;
use std::fmt;
use std::sync::Arc;

/// An object somebody can look at.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Object {
    /// `Node`, `NodeClaim`, `NodePool`, `Pod` or `PodDisruptionBudget`.
    pub kind: &'static str,
    /// Empty for what is cluster-wide.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_lowercase();
        if self.namespace.is_empty() {
            write!(f, "{kind}/{}", self.name)
        } else {
            write!(f, "{kind}/{}/{}", self.namespace, self.name)
        }
    }
}

impl Object {
    fn cluster_wide(kind: &'static str, name: &str) -> Self {
        Self {
            kind,
            namespace: Arc::from(""),
            name: Arc::from(name),
        }
    }

    /// From `namespace/name`.
    fn namespaced(kind: &'static str, key: &str) -> Self {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        Self {
            kind,
            namespace: Arc::from(namespace),
            name: Arc::from(name),
        }
    }
}

/// One thing in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obstacle {
    /// A stable name for scripts, as [`Blocker::code`] and [`Stay::code`] have it.
    pub code: &'static str,
    /// What it is in the way of; none for every voluntary disruption.
    pub reason: Option<DisruptionReason>,
    /// The objects it is about.
    pub objects: Vec<Object>,
    /// What is the case, as events tell it.
    pub message: String,
    /// What would clear the way, for people.
    pub remedy: String,
}

/// What explaining needs to know of a moment.
#[derive(Clone, Copy)]
pub struct Explainer<'a> {
    /// All nodes, sorted for graceful methods.
    pub sorted: &'a Candidates,
    /// What budgets leave for [`DisruptionReason::Empty`].
    pub empty: &'a Allowance,
    /// What budgets leave for [`DisruptionReason::Underutilized`].
    pub underutilized: &'a Allowance,
    /// How nodes are consolidated; none where no what-if can be made because no pool may get nodes (DIS-094).
    pub consolidation: Option<&'a Consolidation<'a>>,
}

impl Explainer<'_> {
    /// What keeps a node, by its index in the snapshot; nothing where consolidation would take it now.
    pub fn why_not(&self, snapshot: &Snapshot, index: usize) -> Vec<Obstacle> {
        let Some(node) = snapshot.nodes.get(index) else {
            return Vec::new();
        };
        if let Some((_, blocker)) = self.sorted.blocked.iter().find(|(at, _)| *at == index) {
            return vec![blocked(node, blocker)];
        }
        let Some(candidate) = self.sorted.free.iter().find(|candidate| candidate.index == index) else {
            return Vec::new();
        };
        let mut found: Vec<Obstacle> = Vec::new();
        let mut add = |why: &Stay, reason| found.push(held(candidate, why, reason));
        let budget = || Stay::Budget(Arc::clone(&candidate.pool.name));
        match obstacle(snapshot, candidate) {
            Some(Stay::LeftToEmptiness) => {
                if let Some(why) = crate::eligible::unsettled(candidate) {
                    add(&why, DisruptionReason::Empty);
                }
                if self.empty.left(&candidate.pool.name) == 0 {
                    add(&budget(), DisruptionReason::Empty);
                }
            }
            Some(why) => add(&why, reason_of(candidate)),
            None => {
                if self.underutilized.left(&candidate.pool.name) == 0 {
                    add(&budget(), DisruptionReason::Underutilized);
                }
                if let Some(why) = self.consolidation.and_then(|all| all.objection(candidate)) {
                    add(&why, DisruptionReason::Underutilized);
                }
                if self.consolidation.is_none() {
                    let why = Stay::NoSimulation(crate::simulation::SimulationError::NoPools);
                    add(&why, DisruptionReason::Underutilized);
                }
            }
        }
        found
    }
}

impl Consolidation<'_> {
    /// What speaks against removing one node alone, budgets apart.
    pub fn objection(&self, candidate: &Candidate) -> Option<Stay> {
        if let Some(score) = self.balance.hopeless(candidate) {
            return Some(Stay::Unbalanced(Box::new(score)));
        }
        let command = match self.propose(&[candidate]) {
            Ok(command) => command,
            Err(why) => return Some(why),
        };
        let judgement = self.judge(&command);
        match judgement.objection() {
            Some(score) => Some(Stay::Unbalanced(Box::new(score.clone()))),
            None => self.check(&command).err(),
        }
    }
}

const fn reason_of(candidate: &Candidate) -> DisruptionReason {
    // Emptiness asks the cost alone (DIS-050).
    if candidate.cost.raw() <= crate::cost::Cost::ONE.raw() {
        DisruptionReason::Empty
    } else {
        DisruptionReason::Underutilized
    }
}

/// A blocker as people read it.
pub(crate) fn blocked(node: &Node, blocker: &Blocker) -> Obstacle {
    let claim = || Object::cluster_wide("NodeClaim", node.claim_name.as_deref().unwrap_or_default());
    let own = || Object::cluster_wide("Node", node.node_name.as_deref().unwrap_or(&node.name));
    let (objects, remedy) = match blocker {
        Blocker::Queued => (vec![own()], "nothing: it is on its way out".to_owned()),
        Blocker::Unmanaged => (
            vec![own()],
            "nothing: no NodeClaim stands behind it, so it is somebody else's to remove".to_owned(),
        ),
        Blocker::NoNode => (
            vec![claim()],
            "wait until its machine has joined the cluster".to_owned(),
        ),
        Blocker::Uninitialized => (
            vec![own()],
            "wait until it is Ready, its startup taints are gone and its resources are registered".to_owned(),
        ),
        Blocker::Deleting => (vec![own()], "nothing: it is being deleted".to_owned()),
        Blocker::Nominated => (
            vec![own()],
            node.nominated_until.map_or_else(
                || "wait until the pods planned for it have come".to_owned(),
                |until| format!("wait until the pods planned for it have come, at the latest until {until}"),
            ),
        ),
        Blocker::NodeAnnotation => (
            vec![own()],
            "remove the annotation karpenter.sh/do-not-disrupt from the Node".to_owned(),
        ),
        Blocker::NoPoolLabel => (
            vec![own()],
            "give the Node its label karpenter.sh/nodepool back".to_owned(),
        ),
        Blocker::NoPool(pool) => (
            vec![Object::cluster_wide("NodePool", pool)],
            "create the NodePool, or see why it has no instance types".to_owned(),
        ),
        Blocker::PodAnnotation(pod) => (
            vec![Object::namespaced("Pod", pod)],
            "wait until the pod has finished, or remove its annotation karpenter.sh/do-not-disrupt".to_owned(),
        ),
        Blocker::Pdb(pdb) => (
            vec![Object::namespaced("PodDisruptionBudget", pdb)],
            "wait until the budget allows a disruption: more ready pods, or a looser budget".to_owned(),
        ),
        Blocker::MultiplePdbs(pdbs) => (
            pdbs.split(' ')
                .map(|pdb| Object::namespaced("PodDisruptionBudget", pdb))
                .collect(),
            "let each pod be covered by one PodDisruptionBudget only".to_owned(),
        ),
    };
    Obstacle {
        code: blocker.code(),
        reason: None,
        objects,
        message: blocker.message(),
        remedy,
    }
}

/// What a method found, as people read it.
pub(crate) fn held(candidate: &Candidate, why: &Stay, reason: DisruptionReason) -> Obstacle {
    let node = &candidate.node;
    let own = || Object::cluster_wide("Node", node.node_name.as_deref().unwrap_or(&node.name));
    let pool = || Object::cluster_wide("NodePool", &candidate.pool.name);
    let (object, remedy) = match why {
        Stay::Static(_) => (
            pool(),
            "lower spec.replicas: static pools are not consolidated".to_owned(),
        ),
        Stay::TypeUnknown(_) => (
            own(),
            "see why the provider no longer lists this instance type for the pool".to_owned(),
        ),
        Stay::NoLabel(key) => (own(), format!("give the Node its label {key} back")),
        Stay::ConsolidationDisabled(_) => (pool(), "set spec.disruption.consolidateAfter to a duration".to_owned()),
        Stay::LeftToEmptiness => (own(), "nothing: it goes as an empty node".to_owned()),
        Stay::NotEmpty(_) => (
            pool(),
            "set spec.disruption.consolidationPolicy to WhenEmptyOrUnderutilized".to_owned(),
        ),
        Stay::Unsettled(until) => (
            Object::cluster_wide("NodeClaim", candidate.claim()),
            until.map_or_else(
                || "wait until the claim is initialised".to_owned(),
                |until| {
                    format!("wait until its NodeClaim is Consolidatable: not before {until}, later if pods come or go")
                },
            ),
        ),
        Stay::Resting(until) => (own(), format!("wait until {until}, or make more room on other nodes")),
        Stay::Budget(_) => (
            pool(),
            format!(
                "wait until disrupted nodes are gone and others are ready, or raise spec.disruption.budgets for {}",
                reason.as_str()
            ),
        ),
        Stay::Unbalanced(_) => (
            pool(),
            "set consolidationPolicy to WhenEmptyOrUnderutilized, or move fewer pods for the savings".to_owned(),
        ),
        Stay::NoSimulation(_) => (pool(), "make some NodePool without replicas Ready".to_owned()),
        Stay::Unplaceable(_) => (own(), "make room or relax the constraints of the pods named".to_owned()),
        Stay::NeedsSeveral(_) | Stay::NotCheaper | Stay::SameType => (
            own(),
            "nothing: it is the cheapest way to run its pods; allow the pool cheaper types if there are some"
                .to_owned(),
        ),
        Stay::MinValues(_) => (pool(), "lower minValues, or allow the pool more types".to_owned()),
        Stay::SpotToSpotDisabled => (own(), "switch the feature gate SpotToSpotConsolidation on".to_owned()),
        Stay::SpotToSpotChoice { .. } => (pool(), "allow the pool more cheap spot types".to_owned()),
        Stay::Refused(_) => (own(), "nothing you can do: please report this plan".to_owned()),
    };
    Obstacle {
        code: why.code(),
        reason: Some(reason),
        objects: vec![object],
        message: why.message(),
        remedy,
    }
}
