//! Candidates: nodes that may be disrupted at all (section 3 of the disruption contract).

use crate::blocker::Blocker;
use crate::cost::Cost;
use crate::pods;
use jiff::Timestamp;
use kerf_model::node::Node;
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use std::cmp::Ordering;
use std::sync::Arc;

/// How a method treats pods that stand in the way (DIS-001).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// They keep the node.
    Graceful,
    /// They keep it unless the claim has a termination grace period (DIS-039).
    Eventual,
}

/// A node that may be disrupted.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its index in the snapshot.
    pub index: usize,
    /// The node.
    pub node: Arc<Node>,
    /// Its pool.
    pub pool: Arc<NodePool>,
    /// The pods that need a place when it goes.
    pub pods: Vec<Arc<Pod>>,
    /// What its offering costs; zero when unknown (DIS-044).
    pub price: Price,
    /// What moving its pods costs (DIS-045).
    pub cost: Cost,
}

impl Candidate {
    /// Whether no pod that matters runs on it (DIS-050).
    pub fn is_empty(&self) -> bool {
        self.cost <= Cost::ONE
    }

    /// The order in which methods look at candidates: price per cost of moving, highest first (DIS-051, DIS-122), then by name. Exact: the
    /// ratios are compared by cross-multiplication.
    pub fn by_savings(&self, other: &Self) -> Ordering {
        let ours = i128::from(self.price.pico()) * i128::from(other.cost.raw());
        let theirs = i128::from(other.price.pico()) * i128::from(self.cost.raw());
        theirs.cmp(&ours).then_with(|| self.node.name.cmp(&other.node.name))
    }

    /// The NodeClaim's name.
    pub fn claim(&self) -> &str {
        self.node.claim_name.as_deref().unwrap_or_default()
    }
}

/// Every node of a snapshot, sorted into candidates and the blocked.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Nodes that may go.
    pub free: Vec<Candidate>,
    /// Nodes that may not, with what keeps them.
    pub blocked: Vec<(usize, Blocker)>,
    /// When time alone makes the first of them something else: the end of a nomination or of a pod's protection.
    pub until: Option<Timestamp>,
}

/// Sorts the nodes; `queued` tells the names of nodes other commands hold.
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

/// The cluster at a moment, as blockers are looked for in it.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) now: Timestamp,
    /// Whether another command holds a node.
    pub(crate) queued: &'a dyn Fn(&Node) -> bool,
}

/// What may keep a node whatever its pool and pods.
type Rule = fn(&Moment<'_>, &Node) -> Option<Blocker>;

/// In upstream's order (DIS-022).
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

/// What the rules find, each asked only when its turn comes.
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
    Ok(Candidate::new(index, node, pool))
}

/// Everything that keeps a node from graceful methods, the first of it first, with the pod it is about.
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

/// When a blocker goes, or becomes another, by itself.
fn ends(node: &Node, blocker: &Blocker, now: Timestamp) -> Option<Timestamp> {
    match blocker {
        Blocker::Nominated => node.nominated_until,
        Blocker::PodAnnotation(_) => pods::protected_until(&node.pods, now),
        _ => None,
    }
}

impl Candidate {
    fn new(index: usize, node: &Arc<Node>, pool: &Arc<NodePool>) -> Self {
        let moving = node.pods.iter().filter(|pod| pods::reschedulable(pod));
        let moving: Vec<Arc<Pod>> = moving.cloned().collect();
        let cost = Cost::of_node(&moving);
        Self {
            index,
            node: Arc::clone(node),
            pool: Arc::clone(pool),
            pods: moving,
            price: node.price.unwrap_or(Price::ZERO),
            cost,
        }
    }

    /// A node as if nothing kept it, if its pool is known.
    pub(crate) fn of_node(snapshot: &Snapshot, index: usize) -> Option<Self> {
        let node = snapshot.nodes.get(index)?;
        let label = node.pool?;
        let pool = snapshot.pools.iter().find(|pool| pool.label == label)?;
        Some(Self::new(index, node, pool))
    }
}
