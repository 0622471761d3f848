//! Existing nodes as targets, compiled (sections 5 and 16.3).

use crate::amounts::{Amounts, ResourceIndex, subtract};
use crate::daemons::reserve;
use kerf_model::intern::Sym;
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
    /// What pods may still take; DaemonSet pods to come are already off.
    pub(crate) placeable: Amounts,
    /// Number of its label profile: nodes that agree on every label anybody asks for share one.
    pub(crate) profile: u32,
    /// Number of its taint set.
    pub(crate) taints: u32,
    /// By topology key: its domain.
    pub(crate) domains: Vec<Option<u32>>,
    /// Overcommitted or over an attach limit: it takes no pod at all (SCH-480, SCH-481).
    pub(crate) closed: bool,
    /// It takes no pod that moves from a healthy node (SCH-251).
    pub(crate) settling: bool,
    /// Ports held by bound pods; filled only where some pod asks for one.
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: Attached,
}

/// Targets in the order they are tried: initialised first, then by name (SCH-247). Indices into the snapshot's nodes.
pub(crate) fn order(snapshot: &Snapshot, excluded: &[usize]) -> Vec<usize> {
    let mut out = vec![false; snapshot.nodes.len()];
    for at in excluded {
        if let Some(out) = out.get_mut(*at) {
            *out = true;
        }
    }
    let mut order: Vec<usize> = (0..snapshot.nodes.len())
        .filter(|at| !out[*at] && !snapshot.nodes[*at].marked_for_deletion)
        .collect();
    order.sort_by(|a, b| {
        let (a, b) = (&snapshot.nodes[*a], &snapshot.nodes[*b]);
        b.initialized.cmp(&a.initialized).then_with(|| a.name.cmp(&b.name))
    });
    order
}

/// Number by value, in order of appearance.
#[derive(Default)]
pub(crate) struct Profiles {
    pub(crate) list: Vec<Vec<(Sym, Sym)>>,
    ids: FxHashMap<Vec<(Sym, Sym)>, u32>,
}

impl Profiles {
    /// The number of the node's labels under the keys somebody asks for.
    pub(crate) fn number(&mut self, node: &Node, mentioned: &FxHashSet<Sym>) -> u32 {
        let labels: Vec<_> = node
            .labels
            .iter()
            .filter(|label| mentioned.contains(&label.0))
            .copied()
            .collect();
        let next = self.list.len() as u32;
        *self.ids.entry(labels).or_insert_with_key(|labels| {
            self.list.push(labels.clone());
            next
        })
    }
}

/// What of a node placement looks at, without its numbers.
pub(crate) fn target(snapshot: &Snapshot, resources: &ResourceIndex, node: &Arc<Node>, with_ports: bool) -> Target {
    let available = node.available();
    let mut placeable = resources.dense(&available);
    subtract(&mut placeable, &reserve(snapshot, resources, node));
    let attached = attached(node);
    let over = node.volume_limits.iter().any(|(driver, limit)| {
        attached
            .get(driver)
            .is_some_and(|claims| claims.len() as u64 > u64::from(*limit))
    });
    let closed = over || available.iter().any(|(_, amount)| amount < 0) || placeable.iter().any(|amount| *amount < 0);
    let ports = if with_ports {
        node.host_ports().map(|(_, port)| port.clone()).collect()
    } else {
        Vec::new()
    };
    Target {
        node: Arc::clone(node),
        placeable,
        profile: 0,
        taints: 0,
        domains: Vec::new(),
        closed,
        settling: false,
        ports,
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
