//! The compiled question: everything that does not change while pods are placed, as dense numbers.

use crate::compile::catalogue::{OfferId, RowId, TypeIndex};
use crate::compile::classes::{ClassId, CompileContext, PodClass, PodClasses};
use crate::compile::limits::{LimitAmounts, Limits};
use crate::compile::prepared::Prepared;
use crate::compile::queue::{PodId, queue};
use crate::compile::requirements::{ReqId, ReqSet, ReqSets};
use crate::compile::running_pods::RunningAntiAffinity;
use crate::compile::targets::{Target, Targets};
use crate::compile::templates::{LimitedResource, SharedTypeIndex, Template, TemplateId};
use crate::compile::topology::{Counts, GroupKey, GroupKind, Groups, Selection, TopologyKeys, selects};
use crate::dense::amounts::{Amounts, ResourceIndex};
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use crate::options::{Options, WhatIf};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use std::sync::{Arc, OnceLock};

/// A compiled question.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) options: &'a Options,
    pub(crate) pods: &'a [Arc<Pod>],
    /// The valid pods in the order they are tried (SCH-241), as indices into `pods`.
    pub(crate) queue: Vec<PodId>,
    pub(crate) resources: &'a ResourceIndex,
    pub(crate) catalogues: &'a IdVec<TypeIndex, SharedTypeIndex>,
    /// Offers, and the keys they need a claim to define.
    pub(crate) required_keys: &'a IdVec<TypeIndex, Vec<(OfferId, Sym)>>,
    pub(crate) templates: &'a IdVec<Template, Template>,
    pub(crate) empty_pools: &'a [(Arc<str>, bool)],
    pub(crate) targets: &'a Targets,
    /// Targets that may take pods.
    pub(crate) open: IdSet<Target>,
    /// Targets that the question excludes.
    pub(crate) excluded: IdSet<Target>,
    /// Targets that take no pod that moves from a healthy node (SCH-251).
    pub(crate) settling: IdSet<Target>,
    pub(crate) req_sets: ReqSets,
    /// Per requirement set: the targets whose labels and name satisfy it, computed on first use.
    satisfying: IdVec<ReqSet, OnceLock<IdSet<Target>>>,
    pub(crate) keys: TopologyKeys,
    pub(crate) groups: Groups,
    pub(crate) classes: IdVec<PodClass, PodClass>,
    pub(crate) of_pod: IdVec<Pod, Option<ClassId>>,
    /// The counts before a pod is placed.
    pub(crate) counts: Counts,
    pub(crate) limits: Limits,
}

/// Pods of the question that are bound to a node, with that node's position. They are about to move and do not count there (SCH-203).
pub(super) type BoundPods<'a> = Vec<(usize, &'a Arc<Pod>)>;

impl<'a> Problem<'a> {
    pub(crate) fn interner(&self) -> &'a Interner {
        self.prepared.interner()
    }

    /// Returns whether a label key may stay undefined on a claim (SCH-102).
    pub(crate) fn may_be_undefined(&self, key: Sym) -> bool {
        self.prepared.may_be_undefined(key)
    }

    /// The instance types of a template.
    pub(crate) fn types(&self, template: TemplateId) -> &'a SharedTypeIndex {
        &self.catalogues[self.templates[template].catalogue]
    }

    /// What pods may use of a node of a row, by resource: allocatable minus the overhead of DaemonSets.
    pub(crate) fn usable(&self, template: TemplateId, row: RowId) -> impl Iterator<Item = i64> + use<'a> {
        let partition = self.templates[template].partition_of(row);
        let amounts = self.types(template).amounts.iter().enumerate();
        amounts
            .map(move |(at, amounts)| amounts[row].saturating_sub(partition.map_or(0, |daemons| daemons.overhead[at])))
    }

    /// What a node of a row uses of the limits of its pool.
    pub(crate) fn limit_amounts(&self, template: TemplateId, row: RowId) -> LimitAmounts {
        let capacity = &self.types(template).instance_type(row).capacity;
        let limited = self.templates[template].limited.iter();
        let amount = |limit: &LimitedResource| {
            if limit.name == sym::NODES {
                1
            } else {
                capacity.get(limit.name)
            }
        };
        limited.map(amount).collect()
    }

    /// A pod of the question.
    pub(crate) fn pod(&self, id: PodId) -> &'a Arc<Pod> {
        &self.pods[id.index()]
    }

    /// A class of the question.
    pub(crate) fn class(&self, id: ClassId) -> &PodClass {
        &self.classes[id]
    }

    /// The resource requests of a class.
    pub(crate) fn requests(&self, class: ClassId) -> &Amounts {
        &self.class(class).requests
    }

    /// Compiles a question.
    pub(crate) fn compile(prepared: &'a Prepared, what_if: &WhatIf<'a>, options: &'a Options) -> Self {
        let mut bound_pods: BoundPods<'a> = what_if.pods.iter().filter_map(|pod| prepared.bound_pod(pod)).collect();
        bound_pods.sort_unstable_by(|a, b| (a.0, &a.1.uid).cmp(&(b.0, &b.1.uid)));
        bound_pods.dedup_by(|a, b| (a.0, &a.1.uid) == (b.0, &b.1.uid));
        let (mut req_sets, mut groups, mut keys) = (ReqSets::default(), Groups::default(), TopologyKeys::default());
        let queue = queue(what_if.pods);
        let mut classes = PodClasses::compile(
            prepared,
            what_if,
            &queue,
            options,
            &mut CompileContext {
                resources: &prepared.resources,
                req_sets: &mut req_sets,
                groups: &mut groups,
                keys: &mut keys,
                taint_sets: &prepared.taint_sets.list,
                soft_taints: prepared.soft_taints,
            },
        );
        intern_running_anti_affinity(prepared, &classes.profiles, &bound_pods, &mut groups, &mut keys);
        classes.match_groups(&prepared.snapshot, &groups);
        keys.fill(|key| prepared.table(key));
        let targets_among = |nodes: &[usize]| -> IdSet<Target> {
            let targets = nodes.iter().filter_map(|at| prepared.targets.of_node(*at));
            targets.collect()
        };
        let excluded = targets_among(what_if.exclude_nodes);
        let mut open = prepared.targets.open.clone();
        open.and_not(&excluded);
        let satisfying = req_sets.sets.iter().map(|_| OnceLock::new()).collect();
        let mut problem = Problem {
            prepared,
            snapshot: &prepared.snapshot,
            options,
            pods: what_if.pods,
            queue,
            resources: &prepared.resources,
            catalogues: &prepared.templates.catalogues,
            required_keys: &prepared.required_keys,
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
        };
        for id in problem.groups.list.ids() {
            problem.groups.list[id].domains = problem.counted_domains(id);
        }
        problem.compute_pod_domains();
        problem.count_running(&bound_pods);
        problem
    }

    /// The targets whose labels and name satisfy a requirement set.
    pub(crate) fn satisfying(&self, set: ReqId) -> &IdSet<Target> {
        self.satisfying[set].get_or_init(|| {
            let mut mask = IdSet::full(self.targets.len());
            self.prepared.keep_satisfying(&mut mask, self.req_sets.get(set));
            mask
        })
    }
}

/// Interns the anti-affinity terms of running pods that select a pod of the question, in an order independent of the nodes. Other terms
/// bind no pod here.
fn intern_running_anti_affinity(
    prepared: &Prepared,
    profiles: &[Arc<Pod>],
    bound_pods: &BoundPods<'_>,
    groups: &mut Groups,
    keys: &mut TopologyKeys,
) {
    let binds = |anti_affinity: &&RunningAntiAffinity| {
        let term = &anti_affinity.term;
        let selected = [Selection::from(term)];
        let covers = |pod: &Arc<Pod>| selects(&prepared.snapshot, &selected, pod);
        let all: u32 = anti_affinity.on.iter().map(|(_, n)| n).sum();
        let terms = bound_pods.iter().flat_map(|(_, pod)| &pod.shape.anti_affinity);
        all as usize > terms.filter(|own| *own == term).count() && profiles.iter().any(covers)
    };
    let mut binding: Vec<&RunningAntiAffinity> = prepared.running_pods.anti_affinity.iter().filter(binds).collect();
    let order = |anti_affinity: &RunningAntiAffinity| prepared.interner().text(anti_affinity.term.key);
    binding.sort_by(|a, b| order(a).cmp(order(b)).then_with(|| a.term.cmp(&b.term)));
    for anti_affinity in binding {
        let key = keys.intern(anti_affinity.term.key);
        groups.intern(GroupKey::of_term(GroupKind::Inverse, &anti_affinity.term, key), true);
    }
}
