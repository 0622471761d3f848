//! DaemonSet overhead (section 12 of `docs/behaviour/scheduling.md`): which DaemonSets run where, and what they take.

use crate::compile::catalogue::{RowId, TypeIndex, TypeRow};
use crate::compile::labels::labels_satisfy;
use crate::compile::requirements::ReqSet;
use crate::dense::amounts::{Amounts, ResourceIndex, add};
use crate::dense::bits::Bits;
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use kerf_model::intern::{Interner, Sym};
use kerf_model::node::Node;
use kerf_model::pod::{HostPort, PodShape};
use kerf_model::requirement::Requirements;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::{Taint, Toleration, first_untolerated};

/// The rows of a template on which exactly the same DaemonSets run (SCH-156).
#[derive(Clone, Debug)]
pub(crate) struct DaemonPartition {
    pub(crate) rows: IdSet<TypeRow>,
    /// The DaemonSets, as indices into those of the snapshot.
    pub(crate) daemons: Bits,
    /// The sum of their requests.
    pub(crate) overhead: Amounts,
    /// The same sum with every resource they name.
    pub(crate) requests: Resources,
    /// The host ports they use.
    pub(crate) ports: Vec<HostPort>,
}

/// The requirements a DaemonSet's pods may run under: one set per required term, without contradictory ones.
fn label_sets(shape: &PodShape, interner: &Interner) -> Vec<Requirements> {
    let selector = shape.node_selector.iter().cloned();
    if shape.required_terms.is_empty() {
        let set = ReqSet::new(selector, interner);
        return if set.contradiction.is_none() {
            vec![set.labels]
        } else {
            Vec::new()
        };
    }
    let sets = shape
        .required_terms
        .iter()
        .map(|term| ReqSet::new(selector.clone().chain(term.iter().cloned()), interner));
    sets.filter(|set| set.contradiction.is_none())
        .map(|set| set.labels)
        .collect()
}

fn tolerates(shape: &PodShape, taints: &[Taint]) -> bool {
    // The DaemonSet controller ignores PreferNoSchedule.
    let mut tolerations = shape.tolerations.clone();
    tolerations.push(Toleration::prefer_no_schedule());
    first_untolerated(taints, &tolerations).is_none()
}

/// Splits the rows of a template by the DaemonSets that run on them (SCH-154 to SCH-156). Every term is tried for every type (SCH-162).
pub(crate) fn partitions(
    snapshot: &Snapshot,
    resources: &ResourceIndex,
    types: &TypeIndex,
    rows: &IdSet<TypeRow>,
    template: (&Requirements, &[Taint]),
    may_be_undefined: impl Fn(Sym) -> bool + Copy,
) -> Vec<DaemonPartition> {
    let interner = &*snapshot.interner;
    let (requirements, taints) = template;
    let mut running: IdVec<TypeRow, Bits> = IdVec::filled(Bits::default(), types.rows.len());
    for (at, daemon) in snapshot
        .daemons
        .iter()
        .enumerate()
        .filter(|(_, daemon)| tolerates(&daemon.shape, taints))
    {
        let mut covered = IdSet::default();
        for label_set in label_sets(&daemon.shape, interner) {
            if requirements.compatible(&label_set, may_be_undefined, interner).is_err() {
                continue;
            }
            let mut meets = rows.clone();
            for requirement in &label_set {
                meets.and(&types.rows_meeting(requirement, interner));
            }
            covered.or(&meets);
        }
        for row in covered.iter() {
            running[row].insert(at);
        }
    }
    let mut partitions: Vec<DaemonPartition> = Vec::new();
    for row in rows.iter() {
        match partitions
            .iter_mut()
            .find(|partition| partition.daemons == running[row])
        {
            Some(partition) => partition.rows.insert(row),
            None => partitions.push(partition(snapshot, resources, row, running[row].clone())),
        }
    }
    partitions
}

fn partition(snapshot: &Snapshot, resources: &ResourceIndex, row: RowId, daemons: Bits) -> DaemonPartition {
    let mut requests = Resources::new();
    let mut ports = Vec::new();
    for daemon in daemons.iter() {
        let shape = &snapshot.daemons[daemon].shape;
        requests.add(&shape.requests);
        ports.extend(shape.host_ports.iter().cloned());
    }
    DaemonPartition {
        rows: std::iter::once(row).collect(),
        daemons,
        overhead: resources.dense(&requests),
        requests,
        ports,
    }
}

/// The lesser amount of each resource that both have.
pub(crate) fn least(a: &Resources, b: &Resources) -> Resources {
    let both = a.iter().filter(|(name, _)| b.contains(*name));
    both.map(|(name, amount)| (name, amount.min(b.get(name)))).collect()
}

/// The DaemonSets of a snapshot, compiled to compute what they reserve on existing nodes.
#[derive(Debug)]
pub(crate) struct DaemonOverhead<'a> {
    daemons: Vec<(&'a PodShape, Vec<Requirements>, Amounts)>,
}

impl<'a> DaemonOverhead<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, resources: &ResourceIndex) -> Self {
        let daemons = snapshot.daemons.iter().map(|daemon| {
            let shape = &*daemon.shape;
            (
                shape,
                label_sets(shape, &snapshot.interner),
                resources.dense(&shape.requests),
            )
        });
        Self {
            daemons: daemons.collect(),
        }
    }

    /// The DaemonSets that run on a node, with their requests.
    fn on<'x>(&'x self, node: &'x Node, interner: &'x Interner) -> impl Iterator<Item = (&'a PodShape, &'x Amounts)> {
        let meets = move |label_set: &Requirements| labels_satisfy(node, label_set, interner);
        let belong = self
            .daemons
            .iter()
            .filter(move |(shape, label_sets, _)| label_sets.iter().any(meets) && tolerates(shape, &node.taints));
        belong.map(|(shape, _, requests)| (*shape, requests))
    }

    /// The host ports of all DaemonSets of a node, whether their pods exist yet or not. Otherwise a pod and a DaemonSet would race for a
    /// port.
    pub(crate) fn ports(&self, node: &Node, interner: &Interner) -> Vec<HostPort> {
        if self.daemons.iter().all(|(shape, ..)| shape.host_ports.is_empty()) {
            return Vec::new();
        }
        let shapes = self.on(node, interner).map(|(shape, _)| shape);
        shapes.flat_map(|shape| shape.host_ports.iter().cloned()).collect()
    }

    /// The amounts that future DaemonSet pods will take of an existing node (SCH-158, SCH-159).
    pub(crate) fn reserve(&self, node: &Node, resources: &ResourceIndex, interner: &Interner) -> Amounts {
        let mut expected = resources.zero();
        for (_, requests) in self.on(node, interner) {
            add(&mut expected, requests);
        }
        for ((amount, bound), name) in expected
            .iter_mut()
            .zip(resources.dense(&node.daemon_requested))
            .zip(&resources.names)
        {
            *amount = if node.allocatable.contains(*name) {
                amount.saturating_sub(bound).max(0)
            } else {
                0
            };
        }
        expected
    }
}
