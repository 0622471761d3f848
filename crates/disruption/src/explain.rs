//! Why a node stays: every obstacle to its consolidation, and what removes it. [`Explainer::why_not`] is the function to read.
//!
//! The disruption loop stops at the first obstacle and publishes it as an event. This module asks the same functions for all of them:
//!
//! 1. `blockers` of `candidate.rs`: the state of the node, its annotations, its pods. Each is a [`Blocker`].
//! 2. `obstacles` of `eligible.rs`: the policy of its pool, its price, `consolidateAfter`. Each is an [`Unconsolidatable`], as all that follow.
//! 3. The disruption budgets of its pool.
//! 4. [`Consolidation::objection`]: a what-if without the node, and what its removal would save.

use crate::allowance::{Allowance, PoolAllowance};
use crate::blocker::Blocker;
use crate::candidate::{Candidate, Moment, blockers};
use crate::command::Command;
use crate::consolidation::Consolidation;
use crate::eligible::obstacles;
use crate::protection::{Protection, protection};
use crate::simulation::{Protected, SimulationError};
use crate::unconsolidatable::Unconsolidatable;
use crate::unread::Unread;
use jiff::Timestamp;
use kerf_model::budget::DisruptionReason;
use kerf_model::node::Node;
use kerf_model::pod::{DoNotDisrupt, Pod};
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// An object that an obstacle refers to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Object {
    /// `Node`, `NodeClaim`, `NodePool`, `Pod` or `PodDisruptionBudget`.
    pub kind: &'static str,
    /// Its namespace; empty for cluster-scoped objects.
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
    /// The cluster-scoped object of this name.
    pub fn cluster_wide(kind: &'static str, name: &str) -> Self {
        Self {
            kind,
            namespace: Arc::from(""),
            name: Arc::from(name),
        }
    }

    /// The object named `namespace/name`.
    fn namespaced(kind: &'static str, key: &str) -> Self {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        Self {
            kind,
            namespace: Arc::from(namespace),
            name: Arc::from(name),
        }
    }
}

/// What an obstacle means for the other obstacles of its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObstacleKind {
    /// The others do not matter: the node is being disrupted already, or is not managed.
    Final,
    /// Pods cause it. It does not count where the node drifted and has a termination grace period (DIS-038, DIS-039).
    Pods,
    /// Any other.
    Plain,
}

impl ObstacleKind {
    const fn of(blocker: &Blocker) -> Self {
        match blocker {
            Blocker::Queued | Blocker::Unmanaged | Blocker::Deleting => Self::Final,
            Blocker::PodAnnotation(_) | Blocker::Pdb(_) | Blocker::MultiplePdbs(_) => Self::Pods,
            Blocker::NoNode
            | Blocker::Uninitialized
            | Blocker::Doubled
            | Blocker::Nominated
            | Blocker::NodeAnnotation
            | Blocker::NoPoolLabel
            | Blocker::NoPool(_)
            | Blocker::OtherPool(_)
            | Blocker::Unreadable(_) => Self::Plain,
        }
    }
}

/// One obstacle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obstacle {
    /// What it means for the other obstacles.
    pub kind: ObstacleKind,
    /// A stable name for scripts: that of [`Blocker::code`] or [`Unconsolidatable::code`].
    pub code: &'static str,
    /// The kind of disruption it prevents; `None` for every voluntary one.
    pub reason: Option<DisruptionReason>,
    /// The objects it is about.
    pub objects: Vec<Object>,
    /// The obstacle in the words of events.
    pub message: String,
    /// What removes the obstacle, for people.
    pub remedy: String,
}

impl Obstacle {
    /// An object that cannot be read, as an obstacle of a node that it may protect.
    pub fn unreadable(unread: &Unread) -> Self {
        Self {
            kind: ObstacleKind::Plain,
            code: "Unreadable",
            reason: None,
            objects: vec![Object {
                kind: unread.kind,
                namespace: unread.namespace.as_deref().unwrap_or_default().into(),
                name: unread.shown_name().into(),
            }],
            message: unread.to_string(),
            remedy: unread.remedy(),
        }
    }
}

/// What an explanation depends on.
#[derive(Clone, Copy)]
pub struct Explainer<'a> {
    /// The time asked about.
    pub now: Timestamp,
    /// Whether another command holds a node.
    pub queued: &'a dyn Fn(&Node) -> bool,
    /// What budgets allow for [`DisruptionReason::Empty`].
    pub empty: &'a Allowance,
    /// What budgets allow for [`DisruptionReason::Underutilized`].
    pub underutilized: &'a Allowance,
    /// Consolidation of the cluster; `None` if no simulation is possible because no pool may get nodes (DIS-094).
    pub consolidation: Option<&'a Consolidation<'a>>,
}

impl Explainer<'_> {
    /// Every obstacle of the node with this index in the snapshot, in the order of the module's list; none if consolidation would take it now. The
    /// first obstacle is the one that events report.
    ///
    /// One obstacle may hide the others: of a node that is on its way out or not managed ([`ObstacleKind::Final`]) nothing else is said, and
    /// without a pool or labels no later step can be asked.
    pub fn why_not(&self, snapshot: &Snapshot, index: usize) -> Vec<Obstacle> {
        let Some(node) = snapshot.nodes.get(index) else {
            return Vec::new();
        };
        let (now, queued) = (self.now, self.queued);
        let moment = Moment { snapshot, now, queued };
        let blockers: Vec<(Option<&Arc<Pod>>, Blocker)> = blockers(&moment, node).collect();
        if let Some((pod, only)) = blockers
            .iter()
            .find(|(_, blocker)| ObstacleKind::of(blocker) == ObstacleKind::Final)
        {
            return vec![blocked(node, *pod, only, now)];
        }
        let mut found = all_blocked(node, &blockers, now);
        if !blockers.iter().any(|(_, blocker)| hides_the_rest(blocker))
            && let Some(candidate) = Candidate::of_node(snapshot, index)
        {
            let kept = blockers.iter().map(|(_, blocker)| blocker);
            found.extend(self.method_obstacles(snapshot, &candidate, &kept.collect::<Vec<_>>()));
        }
        found
    }

    /// The obstacles that methods find for a candidate, apart from its blockers.
    fn method_obstacles(&self, snapshot: &Snapshot, candidate: &Candidate, blockers: &[&Blocker]) -> Vec<Obstacle> {
        let (reason, allowance) = match candidate.is_empty() {
            true => (DisruptionReason::Empty, self.empty),
            false => (DisruptionReason::Underutilized, self.underutilized),
        };
        let of_pool = allowance.pools().find(|pool| pool.pool == candidate.pool.name);
        let obstacle = |why: &Unconsolidatable| staying(candidate, why, reason, of_pool, self.now);
        let mut all: Vec<Unconsolidatable> = obstacles(snapshot, candidate)
            .filter(|why| !candidate.is_empty() || keeps_empty_nodes(why))
            .collect();
        if let Some(only) = all.iter().find(|why| matches!(why, Unconsolidatable::Static(_))) {
            return vec![obstacle(only)];
        }
        let has_price = !all
            .iter()
            .any(|why| matches!(why, Unconsolidatable::TypeUnknown(_) | Unconsolidatable::NoLabel(_)));
        match of_pool.is_some_and(|pool| pool.fault.is_some()) {
            true => all.extend(invalid_budgets(candidate)),
            false if allowance.left(&candidate.pool.name) == 0 => {
                all.push(Unconsolidatable::Budget(Arc::clone(&candidate.pool.name)));
            }
            false => {}
        }
        // Pods will be bound to a nominated node; what can be done with it then is not known.
        if !candidate.is_empty() && has_price && !blockers.contains(&&Blocker::Nominated) {
            all.extend(match self.consolidation {
                None => Some(Unconsolidatable::NoSimulation(SimulationError::NoPools)),
                Some(all) if blockers.is_empty() => all.objection(candidate),
                Some(all) => all.objection_once_free(candidate),
            });
        }
        all.iter().map(obstacle).collect()
    }
}

impl Consolidation<'_> {
    /// Why a node cannot be removed alone, apart from budgets: its pods find no place at a lower price, it saves too little, its pool is Balanced and
    /// the savings are not worth the moves, or the plan checker refuses the plan.
    pub fn objection(&self, candidate: &Candidate) -> Option<Unconsolidatable> {
        if let Some(score) = self.balance.hopeless(candidate) {
            return Some(Unconsolidatable::Unbalanced(Box::new(score)));
        }
        match self.propose(&[candidate]) {
            Ok(command) => self
                .too_little(&command)
                .or_else(|| self.unbalanced(&command))
                .or_else(|| self.check(&command).err()),
            Err(why) => Some(why),
        }
    }

    /// Why a node could not be removed if all its pods might move.
    fn objection_once_free(&self, candidate: &Candidate) -> Option<Unconsolidatable> {
        if let Some(score) = self.balance.hopeless(candidate) {
            return Some(Unconsolidatable::Unbalanced(Box::new(score)));
        }
        let simulation = match self.what_if.ask(&[candidate], Protected::Move) {
            Ok(simulation) => simulation,
            Err(error) => return Some(error.into()),
        };
        match self.command(&[candidate], simulation) {
            Ok(command) => self.too_little(&command).or_else(|| self.unbalanced(&command)),
            Err((why, _)) => Some(why),
        }
    }

    fn unbalanced(&self, command: &Command) -> Option<Unconsolidatable> {
        let judgement = self.judge(command);
        judgement
            .objection()
            .map(|score| Unconsolidatable::Unbalanced(Box::new(score.clone())))
    }
}

/// Whether consolidation of the node cannot be evaluated: labels or conditions are still missing, or its pool or pods are unknown.
const fn hides_the_rest(blocker: &Blocker) -> bool {
    matches!(
        blocker,
        Blocker::NoNode
            | Blocker::Uninitialized
            | Blocker::Doubled
            | Blocker::NoPoolLabel
            | Blocker::NoPool(_)
            | Blocker::OtherPool(_)
    )
}

/// Whether it is an obstacle to emptiness too, which needs neither a price nor a simulation (DIS-150).
const fn keeps_empty_nodes(why: &Unconsolidatable) -> bool {
    !matches!(
        why,
        Unconsolidatable::TypeUnknown(_) | Unconsolidatable::NoLabel(_) | Unconsolidatable::LeftToEmptiness
    )
}

/// The obstacle of an invalid budget, which allows no disruption whatever the other budgets say (DIS-079).
fn invalid_budgets(candidate: &Candidate) -> impl Iterator<Item = Unconsolidatable> {
    let pool = &candidate.pool;
    let budgets = pool.disruption.budgets.iter().enumerate();
    let invalid = budgets.filter_map(|(at, budget)| Some((at, budget.as_ref().err()?)));
    invalid.map(|(at, fault)| Unconsolidatable::InvalidBudget {
        pool: Arc::clone(&pool.name),
        field: format!("spec.disruption.budgets[{at}]"),
        fault: Arc::clone(&fault.0),
    })
}

/// Blockers as obstacles; pods that the same budgets cover become one obstacle.
fn all_blocked(node: &Node, blockers: &[(Option<&Arc<Pod>>, Blocker)], now: Timestamp) -> Vec<Obstacle> {
    let mut found: Vec<Obstacle> = Vec::new();
    let mut by_budget: BTreeMap<Vec<Object>, usize> = BTreeMap::new();
    for (pod, blocker) in blockers {
        let obstacle = blocked(node, *pod, blocker, now);
        let Some(pod) = pod.filter(|_| matches!(blocker, Blocker::Pdb(_) | Blocker::MultiplePdbs(_))) else {
            found.push(obstacle);
            continue;
        };
        let at = *by_budget.entry(obstacle.objects.clone()).or_insert(found.len());
        if at == found.len() {
            found.push(obstacle);
        }
        if let Some(known) = found.get_mut(at) {
            known.objects.push(Object::namespaced("Pod", &pod.key()));
        }
    }
    found
}

/// A blocker as an obstacle.
fn blocked(node: &Node, pod: Option<&Arc<Pod>>, blocker: &Blocker, now: Timestamp) -> Obstacle {
    let own = || Object::cluster_wide("Node", node.node_name.as_deref().unwrap_or(&node.name));
    let (objects, remedy) = match blocker {
        Blocker::Queued => (
            vec![own()],
            "none: it is on its way out; marks of a command that was given up vanish by themselves".to_owned(),
        ),
        Blocker::Unmanaged => (
            vec![own()],
            "none: no NodeClaim stands behind it, so it is somebody else's to remove".to_owned(),
        ),
        // A machine without a Node has the name of its NodeClaim.
        Blocker::NoNode => (
            vec![Object::cluster_wide("NodeClaim", &node.name)],
            "wait until its machine has joined the cluster".to_owned(),
        ),
        Blocker::Uninitialized => (
            vec![own()],
            "wait until it is Ready, its startup taints are gone and its resources are registered".to_owned(),
        ),
        Blocker::Deleting => (vec![own()], "none: it is being deleted".to_owned()),
        Blocker::Doubled => (
            vec![own()],
            "delete the Nodes and NodeClaims with its provider id but the right one of each".to_owned(),
        ),
        Blocker::OtherPool(pool) => (
            vec![own()],
            format!("set the Node's label karpenter.sh/nodepool back to {pool}, as its NodeClaim has it"),
        ),
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
        Blocker::PodAnnotation(key) => (vec![Object::namespaced("Pod", key)], unprotect(pod, now)),
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
        Blocker::Unreadable(unread) => return Obstacle::unreadable(unread),
    };
    Obstacle {
        kind: ObstacleKind::of(blocker),
        code: blocker.code(),
        reason: None,
        objects,
        message: blocker.message(),
        remedy,
    }
}

/// What ends the protection of a pod.
fn unprotect(pod: Option<&Arc<Pod>>, now: Timestamp) -> String {
    let remove = "remove its annotation karpenter.sh/do-not-disrupt";
    match pod.map(|pod| (protection(pod, now), &pod.do_not_disrupt)) {
        Some((Protection::Until(end), _)) => format!("wait until {end} or until the pod has finished, or {remove}"),
        Some((Protection::Open, DoNotDisrupt::ForNanos(_))) => {
            format!("wait until the pod has finished, or {remove}, whose time begins when the pod has started")
        }
        _ => format!("wait until the pod has finished, or {remove}"),
    }
}

/// What removes the obstacle of a budget that allows no eviction.
fn raise_budgets(candidate: &Candidate, reason: DisruptionReason) -> String {
    let mut budgets = candidate.pool.disruption.budgets.iter().flatten();
    let raise = format!("raise spec.disruption.budgets for {}", reason.as_str());
    match budgets.any(|budget| budget.window.is_some()) {
        true => format!("{raise}, which allow no node to go now, or wait until a schedule of theirs has ended"),
        false => format!("{raise}: they allow no node to go"),
    }
}

/// The reason a method found, as an obstacle.
fn staying(
    candidate: &Candidate,
    why: &Unconsolidatable,
    reason: DisruptionReason,
    allowance: Option<&PoolAllowance>,
    now: Timestamp,
) -> Obstacle {
    let node = &candidate.node;
    let own = || Object::cluster_wide("Node", node.node_name.as_deref().unwrap_or(&node.name));
    let pool = || Object::cluster_wide("NodePool", &candidate.pool.name);
    let (object, remedy) = match why {
        Unconsolidatable::Static(_) => (
            pool(),
            "lower spec.replicas: static pools are not consolidated".to_owned(),
        ),
        Unconsolidatable::TypeUnknown(kind) if kind.is_empty() => (
            own(),
            "give the Node its label node.kubernetes.io/instance-type back".to_owned(),
        ),
        Unconsolidatable::TypeUnknown(_) => (
            own(),
            "see why the provider no longer lists this instance type for the pool".to_owned(),
        ),
        Unconsolidatable::NoLabel(key) => (own(), format!("give the Node its label {key} back")),
        Unconsolidatable::ConsolidationDisabled(_) => {
            (pool(), "set spec.disruption.consolidateAfter to a duration".to_owned())
        }
        Unconsolidatable::HasBufferPods(_) => (
            own(),
            "lower the replicas of the CapacityBuffers whose room is on it, or delete them".to_owned(),
        ),
        Unconsolidatable::LeftToEmptiness => (own(), "none: it goes as an empty node".to_owned()),
        Unconsolidatable::NotEmpty(_) => (
            pool(),
            "set spec.disruption.consolidationPolicy to WhenEmptyOrUnderutilized".to_owned(),
        ),
        Unconsolidatable::Unsettled(until) => (
            Object::cluster_wide("NodeClaim", candidate.claim()),
            match until {
                None => "wait until the claim is initialised".to_owned(),
                Some(until) if *until <= now => {
                    format!("none: that time was over at {until}; Kerf marks its NodeClaim Consolidatable by itself")
                }
                Some(until) => {
                    format!("wait until its NodeClaim is Consolidatable: not before {until}, later if pods come or go")
                }
            },
        ),
        Unconsolidatable::SavesTooLittle { .. } => (
            own(),
            "nothing to do: it goes when its removal saves more, or lower --consolidation-savings-per-pod or --consolidation-min-savings-percent".to_owned(),
        ),
        Unconsolidatable::MoveUndone { until, .. } => {
            (own(), format!("wait until {until}, or make more room on other nodes"))
        }
        Unconsolidatable::Budget(_) if allowance.is_some_and(|pool| pool.allowed == 0) => {
            (pool(), raise_budgets(candidate, reason))
        }
        Unconsolidatable::Budget(_) => (
            pool(),
            format!(
                "wait until disrupted nodes are gone and others are ready, or raise spec.disruption.budgets for {}",
                reason.as_str()
            ),
        ),
        Unconsolidatable::InvalidBudget { field, .. } => (pool(), format!("correct {field} of the NodePool")),
        Unconsolidatable::Unbalanced(_) => (
            pool(),
            "set consolidationPolicy to WhenEmptyOrUnderutilized, or move fewer pods for the savings".to_owned(),
        ),
        Unconsolidatable::NoSimulation(_) => (pool(), "make some NodePool without replicas Ready".to_owned()),
        Unconsolidatable::Unplaceable(_) => (own(), "make room or relax the constraints of the pods named".to_owned()),
        Unconsolidatable::NeedsSeveral(_) | Unconsolidatable::NotCheaper => (
            own(),
            "none: it is the cheapest way to run its pods; allow the pool cheaper types if there are some".to_owned(),
        ),
        Unconsolidatable::MinValues(_) => (pool(), "lower minValues, or allow the pool more types".to_owned()),
        Unconsolidatable::SpotToSpotDisabled => {
            (own(), "switch the feature gate SpotToSpotConsolidation on".to_owned())
        }
        Unconsolidatable::SpotToSpotChoice { .. } => (pool(), "allow the pool more cheap spot types".to_owned()),
        Unconsolidatable::ReplacementFailed(until) => (
            pool(),
            format!("wait until {until}, or allow the pool more instance types and zones"),
        ),
        Unconsolidatable::Refused(_) => (own(), "none: it is a bug in Kerf, please report this plan".to_owned()),
    };
    Obstacle {
        kind: ObstacleKind::Plain,
        code: why.code(),
        reason: Some(reason).filter(|_| !matches!(why, Unconsolidatable::InvalidBudget { .. })),
        objects: vec![object],
        message: why.message(),
        remedy,
    }
}
