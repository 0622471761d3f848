//! Existing nodes as targets, compiled (sections 5 and 16.3).

use crate::amounts::{Amounts, ResourceIndex, fits, subtract};
use crate::bits::Bits;
use crate::daemons::Expected;
use crate::taints::TaintSets;
use kerf_model::node::Node;
use kerf_model::pod::HostPort;
use kerf_model::snapshot::Snapshot;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Distinct volume claims attached, by driver with a limit.
pub(crate) type Attached = FxHashMap<Arc<str>, FxHashSet<Arc<str>>>;

/// A node pods may be placed on.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) node: Arc<Node>,
    /// Number of its taint set.
    pub(crate) taints: u32,
    /// Overcommitted or over an attach limit: it takes no pod at all (SCH-480, SCH-481).
    pub(crate) closed: bool,
    /// Ports held by bound pods and by DaemonSets.
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: Attached,
}

/// All of them in the order they are tried: initialised first, then by name (SCH-247).
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    list: Vec<Arc<Target>>,
    /// Those that are not closed.
    pub(crate) open: Bits,
    /// What pods may still take of each, DaemonSet pods to come being off already: `width` amounts per target.
    placeable: Vec<i64>,
    width: usize,
    /// Per [`BLOCK`] targets: the most of each resource any of them has.
    most: Vec<i64>,
    /// By position among the snapshot's nodes: the number as a target, for those that are one.
    of_node: Vec<Option<u32>>,
}

/// Which nodes of a snapshot are the very ones of an earlier one.
#[derive(Debug)]
pub(crate) struct Unchanged {
    before: Vec<Option<u32>>,
    /// The nodes there were, by position, where others stand now in all their places that differ in nothing but what they hold.
    pub(crate) replaced: Option<Vec<(usize, Arc<Node>)>>,
}

impl Unchanged {
    /// Compares two snapshots, which have their nodes by name.
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

    /// The position in the earlier snapshot of a node that is unchanged.
    pub(crate) fn before(&self, index: usize) -> Option<usize> {
        self.before.get(index).copied().flatten().map(|at| at as usize)
    }
}

/// Whether two versions of a node differ at most in what they hold, can hold and are about to become.
fn alike(old: &Node, new: &Node) -> bool {
    old.name == new.name
        && old.node_name == new.node_name
        && old.hostname == new.hostname
        && old.labels == new.labels
        && old.taints == new.taints
        && old.initialized == new.initialized
        && old.marked_for_deletion == new.marked_for_deletion
}

/// How many targets share a bound on what any of them can take: as many as one word of a bit set covers.
pub(crate) const BLOCK: usize = 64;

impl Targets {
    /// Every node that is not marked for deletion (SCH-032). Of nodes that are as `before`, nothing is worked out again.
    pub(crate) fn new(
        snapshot: &Snapshot,
        resources: &ResourceIndex,
        taints: &mut TaintSets,
        before: Option<(&Self, &Unchanged)>,
    ) -> Self {
        let candidates = (0..snapshot.nodes.len()).filter(|at| !snapshot.nodes[*at].marked_for_deletion);
        // Snapshots have their nodes by name, so that little is left to sort.
        let (mut order, rest): (Vec<usize>, Vec<usize>) = candidates.partition(|at| snapshot.nodes[*at].initialized);
        let initialized = order.len();
        order.extend(rest);
        let (first, last) = order.split_at_mut(initialized);
        for part in [first, last] {
            part.sort_by(|a, b| snapshot.nodes[*a].name.cmp(&snapshot.nodes[*b].name));
        }
        let width = resources.len();
        let mut targets = Self {
            list: Vec::with_capacity(order.len()),
            open: Bits::default(),
            placeable: Vec::with_capacity(order.len() * width),
            width,
            most: Vec::with_capacity(order.len().div_ceil(BLOCK) * width),
            of_node: vec![None; snapshot.nodes.len()],
        };
        let expected = Expected::new(snapshot, resources);
        for index in order {
            let node = &snapshot.nodes[index];
            targets.of_node[index] = Some(targets.list.len() as u32);
            let known = before.and_then(|(before, unchanged)| {
                let at = before.of_node(unchanged.before(index)?)? as usize;
                Some((Arc::clone(&before.list[at]), before.placeable(at)))
            });
            if let Some((target, placeable)) = known {
                targets.push(target, placeable);
                continue;
            }
            let mut placeable = resources.dense(&node.available());
            subtract(&mut placeable, &expected.reserve(node, resources, &snapshot.interner));
            let mut target = target(node, taints.number(&node.taints), &placeable);
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
        self.open.set(self.list.len(), !target.closed);
        self.list.push(target);
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Target> {
        self.list.iter().map(|target| &**target)
    }

    /// What pods may take of a target before any is placed.
    pub(crate) fn placeable(&self, at: usize) -> &[i64] {
        &self.placeable[at * self.width..(at + 1) * self.width]
    }

    /// Whether some target of a block may have as much; pods placed only ever lessen it.
    pub(crate) fn block_may_fit(&self, block: usize, request: &[i64]) -> bool {
        fits(request, &self.most[block * self.width..(block + 1) * self.width])
    }

    /// The number of a node as a target.
    pub(crate) fn of_node(&self, index: usize) -> Option<u32> {
        self.of_node.get(index).copied().flatten()
    }
}

impl std::ops::Index<usize> for Targets {
    type Output = Target;

    fn index(&self, at: usize) -> &Target {
        &self.list[at]
    }
}

/// What of a node placement looks at.
fn target(node: &Arc<Node>, taints: u32, placeable: &Amounts) -> Target {
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
