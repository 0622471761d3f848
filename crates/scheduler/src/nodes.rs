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
    list: Vec<Target>,
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

/// How many targets share a bound on what any of them can take: as many as one word of a bit set covers.
pub(crate) const BLOCK: usize = 64;

impl Targets {
    /// Every node that is not marked for deletion (SCH-032).
    pub(crate) fn new(snapshot: &Snapshot, resources: &ResourceIndex, taints: &mut TaintSets) -> Self {
        let mut order: Vec<usize> = (0..snapshot.nodes.len())
            .filter(|at| !snapshot.nodes[*at].marked_for_deletion)
            .collect();
        order.sort_by(|a, b| {
            let (a, b) = (&snapshot.nodes[*a], &snapshot.nodes[*b]);
            b.initialized.cmp(&a.initialized).then_with(|| a.name.cmp(&b.name))
        });
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
            let mut placeable = resources.dense(&node.available());
            subtract(&mut placeable, &expected.reserve(node, resources, &snapshot.interner));
            targets.of_node[index] = Some(targets.list.len() as u32);
            let taints = taints.number(&node.taints);
            let mut target = target(node, taints, &placeable);
            target.ports.extend(expected.ports(node, &snapshot.interner));
            targets.push(target, &placeable);
        }
        targets
    }

    fn push(&mut self, target: Target, placeable: &Amounts) {
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
        self.list.iter()
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
