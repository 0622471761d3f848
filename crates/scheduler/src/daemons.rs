//! DaemonSet overhead (section 12): which DaemonSets will run where, and what they take.

use crate::amounts::{Amounts, ResourceIndex, add};
use crate::bits::Bits;
use crate::labels::labels_satisfy;
use crate::requirements::ReqSet;
use crate::types::TypeIndex;
use kerf_model::intern::{Interner, Sym};
use kerf_model::node::Node;
use kerf_model::pod::{HostPort, PodShape};
use kerf_model::requirement::Requirements;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::{Taint, Toleration, first_untolerated};

/// The rows of a template on which exactly the same DaemonSets run (SCH-156).
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub(crate) rows: Bits,
    /// The DaemonSets, as indices into the snapshot's.
    pub(crate) daemons: Bits,
    /// What they ask for together.
    pub(crate) overhead: Amounts,
    /// The same with every resource they name.
    pub(crate) requests: Resources,
    /// The host ports they claim.
    pub(crate) ports: Vec<HostPort>,
}

/// The label sets a DaemonSet's pods may run on: one per required term, contradictory ones left out.
fn readings(shape: &PodShape, interner: &Interner) -> Vec<Requirements> {
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
    // The DaemonSet controller does not look at PreferNoSchedule.
    let mut tolerations = shape.tolerations.clone();
    tolerations.push(Toleration::prefer_no_schedule());
    first_untolerated(taints, &tolerations).is_none()
}

/// Splits the rows of a template by the DaemonSets that will run on them (SCH-154 to SCH-156, every term tried for every type: SCH-162).
pub(crate) fn partitions(
    snapshot: &Snapshot,
    resources: &ResourceIndex,
    types: &TypeIndex,
    rows: &Bits,
    template: (&Requirements, &[Taint]),
    known: impl Fn(Sym) -> bool + Copy,
) -> Vec<Partition> {
    let interner = &*snapshot.interner;
    let (requirements, taints) = template;
    let mut running = vec![Bits::default(); types.rows.len()];
    for (at, daemon) in snapshot
        .daemons
        .iter()
        .enumerate()
        .filter(|(_, daemon)| tolerates(&daemon.shape, taints))
    {
        let mut covered = Bits::default();
        for reading in readings(&daemon.shape, interner) {
            if requirements.compatible(&reading, known, interner).is_err() {
                continue;
            }
            let mut meets = rows.clone();
            for requirement in &reading {
                meets.and(&types.rows_meeting(requirement, interner));
            }
            covered.or(&meets);
        }
        for row in covered.iter() {
            running[row].insert(at);
        }
    }
    let mut partitions: Vec<Partition> = Vec::new();
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

fn partition(snapshot: &Snapshot, resources: &ResourceIndex, row: usize, daemons: Bits) -> Partition {
    let mut requests = Resources::new();
    let mut ports = Vec::new();
    for daemon in daemons.iter() {
        let shape = &snapshot.daemons[daemon].shape;
        requests.add(&shape.requests);
        ports.extend(shape.host_ports.iter().cloned());
    }
    Partition {
        rows: std::iter::once(row).collect(),
        daemons,
        overhead: resources.dense(&requests),
        requests,
        ports,
    }
}

/// Of each resource two have in common, the lesser amount.
pub(crate) fn least(a: &Resources, b: &Resources) -> Resources {
    let both = a.iter().filter(|(name, _)| b.contains(*name));
    both.map(|(name, amount)| (name, amount.min(b.get(name)))).collect()
}

/// What DaemonSets will ask of existing nodes.
#[derive(Debug)]
pub(crate) struct Expected<'a> {
    daemons: Vec<(&'a PodShape, Vec<Requirements>, Amounts)>,
}

impl<'a> Expected<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, resources: &ResourceIndex) -> Self {
        let daemons = snapshot.daemons.iter().map(|daemon| {
            let shape = &*daemon.shape;
            (
                shape,
                readings(shape, &snapshot.interner),
                resources.dense(&shape.requests),
            )
        });
        Self {
            daemons: daemons.collect(),
        }
    }

    /// Those that belong on an existing node.
    fn on<'x>(&'x self, node: &'x Node, interner: &'x Interner) -> impl Iterator<Item = (&'a PodShape, &'x Amounts)> {
        let meets = move |reading: &Requirements| labels_satisfy(node, reading, interner);
        let belong = self
            .daemons
            .iter()
            .filter(move |(shape, readings, _)| readings.iter().any(meets) && tolerates(shape, &node.taints));
        belong.map(|(shape, _, requests)| (*shape, requests))
    }

    /// The host ports of all of them, whether their pods are there yet or not: otherwise a pod and a DaemonSet race for one.
    pub(crate) fn ports(&self, node: &Node, interner: &Interner) -> Vec<HostPort> {
        if self.daemons.iter().all(|(shape, ..)| shape.host_ports.is_empty()) {
            return Vec::new();
        }
        let shapes = self.on(node, interner).map(|(shape, _)| shape);
        shapes.flat_map(|shape| shape.host_ports.iter().cloned()).collect()
    }

    /// What DaemonSet pods that are still to come will take of an existing node (SCH-158, SCH-159).
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
