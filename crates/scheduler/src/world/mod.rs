//! The world of one pass: everything that does not change while pods are placed, compiled to dense numbers.

mod counts;
mod domains;
mod filters;
mod queue;

use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::bound::Repelling;
use crate::classes::{Class, ClassId, Classes, Interned};
use crate::limits::Limits;
use crate::nodes::Targets;
use crate::options::{Options, WhatIf};
use crate::prepared::Prepared;
use crate::requirements::{ReqId, ReqSets};
use crate::states::{StateId, States};
use crate::templates::{SharedTypes, Template};
use crate::topology::{Counts, GroupKey, GroupKind, Groups, Keys, Selection, selects};
use kerf_model::intern::{Interner, Sym};
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use std::sync::{Arc, OnceLock};

/// The compiled input of a pass.
#[derive(Debug)]
pub(crate) struct World<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) options: &'a Options,
    pub(crate) pods: &'a [Arc<Pod>],
    /// The sound ones in the order they are tried (SCH-241).
    pub(crate) queue: Vec<u32>,
    pub(crate) resources: &'a ResourceIndex,
    pub(crate) catalogues: &'a [SharedTypes],
    /// Per catalogue: offers and the keys they need a claim to define.
    pub(crate) demands: &'a [Vec<(usize, Sym)>],
    pub(crate) templates: &'a [Template],
    pub(crate) empty_pools: &'a [(Arc<str>, bool)],
    pub(crate) targets: &'a Targets,
    /// Targets that may take pods of this pass.
    pub(crate) open: Bits,
    /// Nodes that are no targets this time.
    pub(crate) excluded: Bits,
    /// Targets that take no pod moved from a healthy node (SCH-251).
    pub(crate) settling: Bits,
    pub(crate) req_sets: ReqSets,
    /// Per requirement set: the targets whose labels and name satisfy it, once that was asked.
    satisfying: Vec<OnceLock<Bits>>,
    pub(crate) keys: Keys,
    pub(crate) groups: Groups,
    pub(crate) classes: Vec<Class>,
    pub(crate) of_pod: Vec<Option<ClassId>>,
    /// Where everything starts.
    pub(crate) counts: Counts,
    pub(crate) limits: Limits,
    pub(crate) states: States,
    /// The initial state of each template.
    pub(crate) base: Vec<StateId>,
}

/// Pods of the batch that are bound somewhere, as they stand on their nodes: they are about to move and do not count there (SCH-203).
type Moved<'a> = Vec<(usize, &'a Arc<Pod>)>;

impl<'a> World<'a> {
    pub(crate) fn interner(&self) -> &'a Interner {
        self.prepared.interner()
    }

    /// Whether a key may stay undefined on a claim (SCH-102).
    pub(crate) fn is_known(&self, key: Sym) -> bool {
        self.prepared.is_known(key)
    }

    /// The instance types of a template.
    pub(crate) fn types(&self, template: usize) -> &'a SharedTypes {
        &self.catalogues[self.templates[template].catalogue]
    }

    /// What pods may use of a machine of a row, by resource: allocatable less what the DaemonSets take there.
    pub(crate) fn usable(&self, template: usize, row: usize) -> impl Iterator<Item = i64> + use<'a> {
        let partition = self.templates[template].partition_of(row);
        let amounts = self.types(template).amounts.iter().enumerate();
        amounts
            .map(move |(at, amounts)| amounts[row].saturating_sub(partition.map_or(0, |daemons| daemons.overhead[at])))
    }

    pub(crate) fn class(&self, id: ClassId) -> &Class {
        &self.classes[id as usize]
    }

    /// The request of a class.
    pub(crate) fn requests(&self, class: ClassId) -> &Amounts {
        &self.class(class).requests
    }

    /// Compiles a question.
    pub(crate) fn compile(prepared: &'a Prepared, what_if: &WhatIf<'a>, options: &'a Options) -> Self {
        let mut moved: Moved<'a> = what_if.pods.iter().filter_map(|pod| prepared.bound_pod(pod)).collect();
        moved.sort_unstable_by_key(|(at, pod)| (*at, Arc::as_ptr(pod)));
        moved.dedup_by_key(|(at, pod)| (*at, Arc::as_ptr(pod)));
        let (mut req_sets, mut groups, mut keys) = (ReqSets::default(), Groups::default(), Keys::default());
        let queue = queue::queue(what_if.pods);
        let mut classes = Classes::compile(
            prepared,
            what_if,
            &queue,
            options,
            &mut Interned {
                resources: &prepared.resources,
                req_sets: &mut req_sets,
                groups: &mut groups,
                keys: &mut keys,
                taint_sets: &prepared.taint_sets.list,
                soft_taints: prepared.soft_taints,
            },
        );
        repelled(prepared, &classes.profiles, &moved, &mut groups, &mut keys);
        classes.match_groups(&prepared.snapshot, &groups);
        keys.fill(|key| prepared.table(key));
        let targets_among = |nodes: &[usize]| -> Bits {
            let targets = nodes.iter().filter_map(|at| prepared.targets.of_node(*at));
            targets.map(|at| at as usize).collect()
        };
        let excluded = targets_among(what_if.exclude_nodes);
        let mut open = prepared.targets.open.clone();
        open.and_not(&excluded);
        let satisfying = req_sets.sets.iter().map(|_| OnceLock::new()).collect();
        let mut world = World {
            prepared,
            snapshot: &prepared.snapshot,
            options,
            pods: what_if.pods,
            queue,
            resources: &prepared.resources,
            catalogues: &prepared.templates.catalogues,
            demands: &prepared.demands,
            templates: &prepared.templates.list,
            empty_pools: &prepared.templates.empty_pools,
            targets: &prepared.targets,
            open,
            excluded,
            settling: targets_among(what_if.settling_nodes),
            req_sets,
            satisfying,
            keys,
            groups,
            classes: classes.list,
            of_pod: classes.of_pod,
            counts: Counts::default(),
            limits: Limits::new(&prepared.templates.list, what_if.freed),
            states: States::default(),
            base: Vec::new(),
        };
        for id in 0..world.groups.list.len() {
            world.groups.list[id].known = world.known_domains(id);
        }
        world.find_pod_domains();
        world.count(&moved);
        let mut states = States::default();
        world.base = (0..world.templates.len())
            .map(|at| states.intern(&world, at, world.templates[at].requirements.clone()))
            .collect();
        world.states = states;
        world
    }

    /// The targets whose labels and name satisfy a requirement set.
    pub(crate) fn satisfying(&self, set: ReqId) -> &Bits {
        self.satisfying[set as usize].get_or_init(|| {
            let mut mask = Bits::full(self.targets.len());
            self.prepared.keep_satisfying(&mut mask, self.req_sets.get(set));
            mask
        })
    }
}

/// Interns the terms of bound pods that repel pods of the batch, in an order of their own; others bind nobody here.
fn repelled(prepared: &Prepared, profiles: &[Arc<Pod>], moved: &Moved<'_>, groups: &mut Groups, keys: &mut Keys) {
    let binds = |repelling: &&Repelling| {
        let term = &repelling.term;
        let selected = [Selection::from(term)];
        let covers = |pod: &Arc<Pod>| selects(&prepared.snapshot, &selected, pod);
        let all: u32 = repelling.on.iter().map(|(_, n)| n).sum();
        let terms = moved.iter().flat_map(|(_, pod)| &pod.shape.anti_affinity);
        all as usize > terms.filter(|own| *own == term).count() && profiles.iter().any(covers)
    };
    let mut binding: Vec<&Repelling> = prepared.bound.repelling.iter().filter(binds).collect();
    let order = |repelling: &Repelling| prepared.interner().text(repelling.term.key);
    binding.sort_by(|a, b| order(a).cmp(order(b)).then_with(|| a.term.cmp(&b.term)));
    for repelling in binding {
        let key = keys.intern(repelling.term.key);
        groups.intern(GroupKey::of_term(GroupKind::Inverse, &repelling.term, key), true);
    }
}
