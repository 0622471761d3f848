//! Candidates: nodes that may be disrupted (DIS-022 to DIS-051).

use crate::blocker::Blocker;
use crate::cost::Cost;
use crate::leaving_pods::reschedulable;
use crate::pods;
use jiff::Timestamp;
use kerf_model::node::Node;
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use std::cmp::Ordering;
use std::sync::Arc;

/// How a method treats pods that block the disruption of their node (DIS-001).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Such pods block the node.
    Graceful,
    /// Such pods block the node unless its NodeClaim has a termination grace period (DIS-039).
    Eventual,
}

/// A node that may be disrupted. It has a NodeClaim.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its index in the snapshot.
    pub index: usize,
    /// The node.
    pub node: Arc<Node>,
    /// Its pool.
    pub pool: Arc<NodePool>,
    /// The pods that must be rescheduled when the node goes.
    pub pods: Vec<Arc<Pod>>,
    /// The price of its offering per hour; zero if unknown (DIS-044).
    pub price: Price,
    /// The cost of moving its pods (DIS-045).
    pub cost: Cost,
    claim: Arc<str>,
    claim_uid: Arc<str>,
}

impl Candidate {
    /// Whether moving its pods costs nothing (DIS-050).
    pub fn is_empty(&self) -> bool {
        self.cost <= Cost::ONE
    }

    /// The order in which methods try candidates: highest price per cost of moving first, then by name (DIS-051, DIS-122). Exact: the
    /// ratios are compared by cross-multiplication.
    pub fn by_savings(&self, other: &Self) -> Ordering {
        let ours = i128::from(self.price.pico()) * i128::from(other.cost.raw());
        let theirs = i128::from(other.price.pico()) * i128::from(self.cost.raw());
        theirs.cmp(&ours).then_with(|| self.node.name.cmp(&other.node.name))
    }

    /// The NodeClaim's name.
    pub fn claim(&self) -> &Arc<str> {
        &self.claim
    }

    /// The NodeClaim's unique id.
    pub fn claim_uid(&self) -> &Arc<str> {
        &self.claim_uid
    }
}

/// The nodes of a snapshot, divided into candidates and blocked nodes.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Nodes that may be disrupted.
    pub free: Vec<Candidate>,
    /// Nodes that may not be disrupted, by index in the snapshot, with the reason.
    pub blocked: Vec<(usize, Blocker)>,
    /// The earliest time at which the end of a nomination or of a pod's protection changes this division.
    pub until: Option<Timestamp>,
}

/// Divides the nodes; `queued` says whether another command holds a node.
pub fn candidates(snapshot: &Snapshot, now: Timestamp, class: Class, queued: &dyn Fn(&Node) -> bool) -> Candidates {
    let moment = Moment { snapshot, now, queued };
    let mut sorted = Candidates::default();
    for (index, node) in snapshot.nodes.iter().enumerate() {
        match candidate(&moment, class, index, node) {
            Ok(candidate) => sorted.free.push(candidate),
            Err(blocker) => {
                let ends = [sorted.until, ends(node, &blocker, now)];
                sorted.until = ends.into_iter().flatten().min();
                sorted.blocked.push((index, blocker));
            }
        }
    }
    sorted
}

/// What blockers depend on.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) now: Timestamp,
    /// Whether another command holds a node.
    pub(crate) queued: &'a dyn Fn(&Node) -> bool,
}

/// A rule about a node alone, apart from its pool and pods.
type Rule = fn(&Moment<'_>, &Node) -> Option<Blocker>;

/// The rules in upstream's order (DIS-022).
const RULES: [Rule; 8] = [
    |moment, node| (moment.queued)(node).then_some(Blocker::Queued),
    |_, node| (!node.managed).then_some(Blocker::Unmanaged),
    |_, node| node.node_name.is_none().then_some(Blocker::NoNode),
    |_, node| (!node.initialized).then_some(Blocker::Uninitialized),
    |_, node| (node.marked_for_deletion || node.lifecycle.deleting).then_some(Blocker::Deleting),
    |_, node| node.lifecycle.shares_provider_id.then_some(Blocker::Doubled),
    |moment, node| {
        let until = node.nominated_until.filter(|until| moment.now < *until);
        until.map(|_| Blocker::Nominated)
    },
    |_, node| node.lifecycle.do_not_disrupt.then_some(Blocker::NodeAnnotation),
];

/// The blockers that the rules find, evaluated lazily.
fn of_node<'a>(moment: &'a Moment<'a>, node: &'a Node) -> impl Iterator<Item = Blocker> {
    RULES.iter().filter_map(|rule| rule(moment, node))
}

/// The pool of a node, if its nodes may be disrupted (DIS-030, DIS-032, DIS-033).
fn pool_of<'a>(snapshot: &'a Snapshot, node: &Node) -> Result<&'a Arc<NodePool>, Blocker> {
    let label = node.pool.ok_or(Blocker::NoPoolLabel)?;
    let pool = snapshot.pools.iter().find(|pool| pool.label == label);
    let usable = |pool: &&Arc<NodePool>| {
        pool.catalogue
            .as_ref()
            .is_ok_and(|catalogue| !catalogue.types.is_empty())
    };
    let pool = pool
        .filter(|pool| pool.eligibility != Eligibility::ForeignNodeClass)
        .filter(usable);
    pool.ok_or_else(|| Blocker::NoPool(snapshot.interner.shared(label)))
}

fn other_pool(snapshot: &Snapshot, node: &Node) -> Option<Blocker> {
    let claims = node.lifecycle.claim_pool?;
    Some(Blocker::OtherPool(snapshot.interner.shared(claims)))
}

fn candidate(moment: &Moment<'_>, class: Class, index: usize, node: &Arc<Node>) -> Result<Candidate, Blocker> {
    if let Some(blocker) = of_node(moment, node).next() {
        return Err(blocker);
    }
    let pool = pool_of(moment.snapshot, node)?;
    if let Some(blocker) = other_pool(moment.snapshot, node) {
        return Err(blocker);
    }
    let overlooks_pods = class == Class::Eventual && node.lifecycle.termination_grace_seconds.is_some();
    if !overlooks_pods && let Some(blocker) = pods::blocker(&node.pods, moment.snapshot, moment.now) {
        return Err(blocker);
    }
    Candidate::new(index, node, pool).ok_or(Blocker::Unmanaged)
}

/// Every blocker of a node for graceful methods, in upstream's order, with the pod it is about.
pub(crate) fn blockers<'a>(
    moment: &'a Moment<'a>,
    node: &'a Node,
) -> impl Iterator<Item = (Option<&'a Arc<Pod>>, Blocker)> {
    let of_pool = [pool_of(moment.snapshot, node).err(), other_pool(moment.snapshot, node)];
    let of_pods = pods::blockers(&node.pods, moment.snapshot, moment.now);
    let others = of_node(moment, node).chain(of_pool.into_iter().flatten());
    others
        .map(|blocker| (None, blocker))
        .chain(of_pods.map(|(pod, blocker)| (Some(pod), blocker)))
}

/// The time at which a blocker ends or changes by itself.
fn ends(node: &Node, blocker: &Blocker, now: Timestamp) -> Option<Timestamp> {
    match blocker {
        Blocker::Nominated => node.nominated_until,
        Blocker::PodAnnotation(_) => pods::protected_until(&node.pods, now),
        Blocker::Queued
        | Blocker::Unmanaged
        | Blocker::NoNode
        | Blocker::Uninitialized
        | Blocker::Deleting
        | Blocker::Doubled
        | Blocker::NodeAnnotation
        | Blocker::NoPoolLabel
        | Blocker::NoPool(_)
        | Blocker::OtherPool(_)
        | Blocker::Pdb(_)
        | Blocker::MultiplePdbs(_)
        | Blocker::Unreadable(_) => None,
    }
}

impl Candidate {
    /// `None` if the node has no NodeClaim.
    fn new(index: usize, node: &Arc<Node>, pool: &Arc<NodePool>) -> Option<Self> {
        let moving = node.pods.iter().filter(|pod| reschedulable(pod));
        let moving: Vec<Arc<Pod>> = moving.cloned().collect();
        let cost = Cost::of_node(&moving);
        Some(Self {
            index,
            node: Arc::clone(node),
            pool: Arc::clone(pool),
            pods: moving,
            price: node.price.unwrap_or(Price::ZERO),
            cost,
            claim: node.claim_name.clone()?,
            claim_uid: node.lifecycle.claim_uid.clone()?,
        })
    }

    /// A candidate made from a node without a check for blockers; `None` if its pool is unknown or it has no NodeClaim.
    pub(crate) fn of_node(snapshot: &Snapshot, index: usize) -> Option<Self> {
        let node = snapshot.nodes.get(index)?;
        let label = node.pool?;
        let pool = snapshot.pools.iter().find(|pool| pool.label == label)?;
        Self::new(index, node, pool)
    }
}
