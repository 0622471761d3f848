//! Existing nodes as targets of placements, compiled (sections 5 and 16.3 of `docs/behaviour/scheduling.md`).

use crate::compile::daemons::DaemonOverhead;
use crate::compile::taints::{TaintSetId, TaintSets};
use crate::dense::amounts::{Amounts, ResourceIndex, fits, subtract};
use crate::dense::id_set::IdSet;
use crate::dense::ids::{Id, IdVec};
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::pod::HostPort;
use kerf_model::snapshot::Snapshot;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Distinct attached volume claims, by driver. Empty for a node without attach limits.
pub(crate) type Attached = FxHashMap<Arc<str>, FxHashSet<Arc<str>>>;

/// The id of a target.
pub(crate) type TargetId = Id<Target>;

/// An existing node that pods may be placed on.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) node: Arc<Node>,
    pub(crate) taints: TaintSetId,
    /// Whether it is overcommitted or over an attach limit, so that it takes no pod (SCH-480, SCH-481).
    pub(crate) closed: bool,
    /// Host ports of bound pods and of DaemonSets.
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: Attached,
    /// How many of its pods request no cpu, and how many no memory.
    pub(crate) without_requests: [i64; 2],
}

/// All targets in the order they are tried: initialized nodes first, then by name (SCH-247).
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    list: IdVec<Target, Arc<Target>>,
    /// The targets that are not closed.
    pub(crate) open: IdSet<Target>,
    /// What pods may still use of each target, with future DaemonSet pods subtracted: `width` amounts per target.
    placeable: Vec<i64>,
    width: usize,
    /// Per block of [`BLOCK`] targets: the largest amount of each resource.
    most: Vec<i64>,
    /// Per node of the snapshot: its target, if it is one.
    of_node: Vec<Option<TargetId>>,
}

/// Which nodes of a snapshot are the same values as in an earlier one.
#[derive(Debug)]
pub(crate) struct SnapshotDiff {
    before: Vec<Option<u32>>,
    /// The previous versions of replaced nodes, by position. `None` where the nodes differ in more than the pods they run.
    pub(crate) replaced: Option<Vec<(usize, Arc<Node>)>>,
}

impl SnapshotDiff {
    /// Compares two snapshots, whose nodes are sorted by name.
    pub(crate) fn between(before: &Snapshot, now: &Snapshot) -> Self {
        let mut at = 0;
        let same = now.nodes.iter().map(|node| {
            while let Some(old) = before.nodes.get(at) {
                if Arc::ptr_eq(old, node) {
                    at += 1;
                    return Some(at as u32 - 1);
                }
                if old.name > node.name {
                    break;
                }
                at += 1;
            }
            None
        });
        let same: Vec<Option<u32>> = same.collect();
        let aligned = before.nodes.len() == now.nodes.len();
        let replaced = aligned.then(|| {
            let places = same.iter().zip(before.nodes.iter().zip(&now.nodes)).enumerate();
            let mut replaced = Vec::new();
            for (at, (known, (old, new))) in places {
                match known {
                    Some(before) if *before as usize == at => {}
                    None if alike(old, new) => replaced.push((at, Arc::clone(old))),
                    _ => return None,
                }
            }
            Some(replaced)
        });
        Self {
            before: same,
            replaced: replaced.flatten(),
        }
    }

    /// The position in the earlier snapshot of an unchanged node.
    pub(crate) fn before(&self, index: usize) -> Option<usize> {
        self.before.get(index).copied().flatten().map(|at| at as usize)
    }
}

/// Returns whether two versions of a node differ only in pods, capacity and lifecycle.
fn alike(old: &Node, new: &Node) -> bool {
    old.name == new.name
        && old.node_name == new.node_name
        && old.hostname == new.hostname
        && old.labels == new.labels
        && old.taints == new.taints
        && old.initialized == new.initialized
        && old.marked_for_deletion == new.marked_for_deletion
}

/// The number of targets that share one upper bound on free resources: one word of a bit set.
pub(crate) const BLOCK: usize = 64;

impl Targets {
    /// Compiles every node that is not marked for deletion (SCH-032). Nodes that are unchanged since `before` are reused.
    pub(crate) fn new(
        snapshot: &Snapshot,
        resources: &ResourceIndex,
        taints: &mut TaintSets,
        before: Option<(&Self, &SnapshotDiff)>,
    ) -> Self {
        let candidates = (0..snapshot.nodes.len()).filter(|at| !snapshot.nodes[*at].marked_for_deletion);
        // The nodes of a snapshot are sorted by name already.
        let (mut order, rest): (Vec<usize>, Vec<usize>) = candidates.partition(|at| snapshot.nodes[*at].initialized);
        let initialized = order.len();
        order.extend(rest);
        let (first, last) = order.split_at_mut(initialized);
        for part in [first, last] {
            part.sort_by(|a, b| snapshot.nodes[*a].name.cmp(&snapshot.nodes[*b].name));
        }
        let width = resources.len();
        let mut targets = Self {
            list: IdVec::with_capacity(order.len()),
            open: IdSet::default(),
            placeable: Vec::with_capacity(order.len() * width),
            width,
            most: Vec::with_capacity(order.len().div_ceil(BLOCK) * width),
            of_node: vec![None; snapshot.nodes.len()],
        };
        let expected = DaemonOverhead::new(snapshot, resources);
        for index in order {
            let node = &snapshot.nodes[index];
            targets.of_node[index] = Some(targets.list.next_id());
            let known = before.and_then(|(before, unchanged)| {
                let target = before.of_node(unchanged.before(index)?)?;
                Some((Arc::clone(&before.list[target]), before.placeable(target)))
            });
            if let Some((target, placeable)) = known {
                targets.push(target, placeable);
                continue;
            }
            let mut placeable = resources.dense(&node.available());
            subtract(&mut placeable, &expected.reserve(node, resources, &snapshot.interner));
            let mut target = target(node, taints.intern(&node.taints), &placeable);
            target.ports.extend(expected.ports(node, &snapshot.interner));
            targets.push(Arc::new(target), &placeable);
        }
        targets
    }

    fn push(&mut self, target: Arc<Target>, placeable: &[i64]) {
        if self.list.len().is_multiple_of(BLOCK) {
            self.most.extend_from_slice(placeable);
        } else {
            let block = self.most.len() - self.width;
            for (most, amount) in self.most[block..].iter_mut().zip(placeable) {
                *most = (*most).max(*amount);
            }
        }
        self.placeable.extend_from_slice(placeable);
        self.open.set(self.list.next_id(), !target.closed);
        self.list.push(target);
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// All ids, in the order targets are tried.
    pub(crate) fn ids(&self) -> impl Iterator<Item = TargetId> + use<> {
        self.list.ids()
    }

    /// The targets with their ids, in the order they are tried.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (TargetId, &Target)> {
        self.list.entries().map(|(id, target)| (id, &**target))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Target> {
        self.list.iter().map(|target| &**target)
    }

    /// What pods may use of a target before any is placed.
    pub(crate) fn placeable(&self, target: TargetId) -> &[i64] {
        let at = target.index();
        &self.placeable[at * self.width..(at + 1) * self.width]
    }

    /// Returns whether some target of a block may have as much. Placing pods only lowers it.
    pub(crate) fn block_may_fit(&self, block: usize, request: &[i64]) -> bool {
        fits(request, &self.most[block * self.width..(block + 1) * self.width])
    }

    /// The target of a node of the snapshot, if it is one.
    pub(crate) fn of_node(&self, index: usize) -> Option<TargetId> {
        self.of_node.get(index).copied().flatten()
    }
}

impl std::ops::Index<TargetId> for Targets {
    type Output = Target;

    fn index(&self, id: TargetId) -> &Target {
        &self.list[id]
    }
}

/// Compiles one node.
fn target(node: &Arc<Node>, taints: TaintSetId, placeable: &Amounts) -> Target {
    let attached = attached(node);
    let over = node.volume_limits.iter().any(|(driver, limit)| {
        attached
            .get(driver)
            .is_some_and(|claims| claims.len() as u64 > u64::from(*limit))
    });
    let overcommitted = node.available().iter().any(|(_, amount)| amount < 0);
    Target {
        node: Arc::clone(node),
        taints,
        closed: over || overcommitted || placeable.iter().any(|amount| *amount < 0),
        ports: node.host_ports().map(|(_, port)| port.clone()).collect(),
        attached,
        without_requests: [sym::CPU, sym::MEMORY].map(|resource| {
            let without = node.pods.iter().filter(|pod| pod.shape.requests.get(resource) == 0);
            without.count() as i64
        }),
    }
}

fn attached(node: &Node) -> Attached {
    let mut attached = Attached::default();
    if node.volume_limits.is_empty() {
        return attached;
    }
    for volume in node.pods.iter().flat_map(|pod| &pod.volumes) {
        if let Some(driver) = &volume.driver {
            attached
                .entry(Arc::clone(driver))
                .or_default()
                .insert(Arc::clone(&volume.claim));
        }
    }
    attached
}
