//! The world of one pass: everything that does not change while pods are placed, compiled to dense numbers.

use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::bound::Repelling;
use crate::classes::{Class, ClassId, Classes, Interned, selects, term_key};
use crate::limits::Limits;
use crate::nodes::Targets;
use crate::options::{Options, WhatIf};
use crate::prepared::{Counted, Filter, Prepared};
use crate::requirements::{ReqId, ReqSets};
use crate::states::{StateId, States, labels_satisfy};
use crate::templates::{SharedTypes, Template};
use crate::topology::{
    Counts, FilterId, GroupCounts, GroupId, GroupKind, Groups, KeyTable, Keys, Selection, TopologyKey,
};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::first_untolerated;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
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

    pub(crate) fn class(&self, id: ClassId) -> &Class {
        &self.classes[id as usize]
    }

    /// Compiles a question.
    pub(crate) fn compile(prepared: &'a Prepared, what_if: &WhatIf<'a>, options: &'a Options) -> Self {
        let mut moved: Moved<'a> = what_if.pods.iter().filter_map(|pod| prepared.bound_pod(pod)).collect();
        moved.sort_unstable_by_key(|(at, pod)| (*at, Arc::as_ptr(pod)));
        moved.dedup_by_key(|(at, pod)| (*at, Arc::as_ptr(pod)));
        let (mut req_sets, mut groups, mut keys) = (ReqSets::default(), Groups::default(), Keys::default());
        let queue = queue(what_if.pods);
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

    fn known_domains(&self, group: usize) -> Bits {
        let identity = &self.groups.list[group].identity;
        let TopologyKey::Domain(key) = identity.key else {
            return Bits::default();
        };
        let table = &self.keys.tables[key as usize];
        let passing_templates: Bits = (0..self.templates.len())
            .filter(|at| {
                identity
                    .filter
                    .is_none_or(|filter| self.template_passes(filter, &self.templates[*at]))
            })
            .collect();
        let passes = |at: usize| self.node_passes(identity.filter, &self.targets[at].node);
        let passing = self
            .prepared
            .passing(table.key, self.filter(identity.filter).unwrap_or_default(), || {
                let mut passing = vec![0; table.values.len()];
                for at in (0..self.targets.len()).filter(|at| passes(*at)) {
                    if let Some(domain) = table.domain_of(at) {
                        passing[domain as usize] += 1;
                    }
                }
                passing
            });
        let mut gone: FxHashMap<u32, u32> = FxHashMap::default();
        for at in self.excluded.iter().filter(|at| passes(*at)) {
            if let Some(domain) = table.domain_of(at) {
                *gone.entry(domain).or_default() += 1;
            }
        }
        let left = |domain: usize| passing[domain] > gone.get(&(domain as u32)).copied().unwrap_or(0);
        (0..table.values.len())
            .filter(|domain| table.offered_by[*domain].intersects(&passing_templates) || left(*domain))
            .collect()
    }

    /// Whether a spread constraint looks at a node (SCH-205).
    pub(crate) fn node_passes(&self, filter: Option<FilterId>, node: &Node) -> bool {
        let Some(filter) = filter.map(|filter| &self.groups.filters[filter as usize]) else {
            return true;
        };
        let labels = filter.any_of.is_empty() || filter.any_of.iter().any(|set| self.node_satisfies(*set, node));
        let has = |key: &TopologyKey| self.key(*key).is_none_or(|key| node.label(key).is_some());
        labels
            && filter.keys.iter().all(has)
            && filter
                .tolerations
                .as_ref()
                .is_none_or(|tolerations| first_untolerated(&node.taints, tolerations).is_none())
    }

    /// Whether a node's labels satisfy a requirement set.
    pub(crate) fn node_satisfies(&self, set: ReqId, node: &Node) -> bool {
        let set = self.req_sets.get(set);
        set.contradiction.is_none()
            && set.allows_host(node.hostname, self.interner())
            && labels_satisfy(&node.labels, &set.labels, self.interner())
    }

    /// The targets whose labels and name satisfy a requirement set.
    pub(crate) fn satisfying(&self, set: ReqId) -> &Bits {
        self.satisfying[set as usize].get_or_init(|| {
            let mut mask = Bits::full(self.targets.len());
            self.prepared.keep_satisfying(&mut mask, self.req_sets.get(set));
            mask
        })
    }

    /// The label a topology key stands for, unless it is the hostname.
    fn key(&self, key: TopologyKey) -> Option<Sym> {
        let table = crate::states::table_of(key)?;
        Some(self.keys.tables[table as usize].key)
    }

    /// Whether some machine of a template may be one a spread constraint looks at.
    fn template_passes(&self, filter: FilterId, template: &Template) -> bool {
        let filter = &self.groups.filters[filter as usize];
        let compatible = |set: &ReqId| {
            let set = self.req_sets.get(*set);
            let known = |key| self.is_known(key);
            set.contradiction.is_none()
                && set.allows_new_host()
                && template
                    .requirements
                    .compatible(&set.labels, known, self.interner())
                    .is_ok()
        };
        let has = |key: &TopologyKey| {
            self.key(*key).is_none_or(|key| {
                let own = template.requirements.get(key);
                own.map_or_else(|| self.is_known(key), |own| !own.is_does_not_exist())
            })
        };
        let tolerated = |tolerations: &Vec<_>| first_untolerated(&template.pool.taints, tolerations).is_none();
        (filter.any_of.is_empty() || filter.any_of.iter().any(compatible))
            && filter.keys.iter().all(has)
            && filter.tolerations.as_ref().is_none_or(tolerated)
    }

    /// A node filter by content.
    fn filter(&self, filter: Option<FilterId>) -> Option<Filter> {
        let filter = &self.groups.filters[filter? as usize];
        let sets = filter.any_of.iter().map(|set| self.req_sets.get(*set).clone());
        let keys = filter.keys.iter().filter_map(|key| self.key(*key));
        Some((sets.collect(), filter.tolerations.clone(), keys.collect()))
    }

    /// The domains hard constraints admit (SCH-209). For spread that is what any required term admits, dropped ones too, or everything
    /// under policy Ignore: kube-scheduler takes the minimum over the pod as written (SCH-212, SCH-225).
    fn find_pod_domains(&mut self) {
        let mut classes = std::mem::take(&mut self.classes);
        for variant in classes.iter_mut().flat_map(|class| &mut class.variants) {
            for owned in &mut variant.owned {
                let identity = &self.groups.list[owned.group as usize].identity;
                let TopologyKey::Domain(key) = identity.key else {
                    continue;
                };
                let own = [variant.strict];
                let any_of: &[ReqId] = match (identity.kind, identity.filter) {
                    (GroupKind::Spread, Some(filter)) => &self.groups.filters[filter as usize].any_of,
                    (GroupKind::Spread, None) => &[],
                    (GroupKind::Affinity | GroupKind::AntiAffinity | GroupKind::Inverse, _) => &own,
                };
                owned.pod_domains = self.admitted_domains(key, any_of);
            }
        }
        self.classes = classes;
    }

    /// The domains of a key that any of some requirement sets admits; `None` for all.
    fn admitted_domains(&self, key: u32, any_of: &[ReqId]) -> Option<Bits> {
        let table = &self.keys.tables[key as usize];
        let mut union: Option<Bits> = None;
        for set in any_of {
            let requirement = self.req_sets.get(*set).get(table.key)?;
            let admitted = (0..table.values.len()).filter(|at| requirement.has(table.values[*at], self.interner()));
            union.get_or_insert_default().or(&admitted.collect());
        }
        union
    }

    /// Counts the pods that run already (SCH-201 to SCH-204, SCH-237).
    fn count(&mut self, moved: &Moved<'_>) {
        let list = (0..self.groups.list.len() as GroupId).map(|id| {
            if self.groups.list[id as usize].kind() == GroupKind::Inverse {
                self.count_repelling(id, moved)
            } else {
                self.count_selected(id, moved)
            }
        });
        self.counts = Counts { list: list.collect() };
    }

    /// A group's table of domains, unless its key is the hostname.
    fn table(&self, id: GroupId) -> Option<&KeyTable> {
        match self.groups.list[id as usize].identity.key {
            TopologyKey::Host => None,
            TopologyKey::Domain(key) => Some(&*self.keys.tables[key as usize]),
        }
    }

    fn count_selected(&self, id: GroupId, moved: &Moved<'_>) -> GroupCounts {
        let identity = &self.groups.list[id as usize].identity;
        let table = self.table(id);
        let what = Counted {
            key: table.map_or(sym::HOSTNAME, |table| table.key),
            selected: identity.selected.clone(),
            filter: self.filter(identity.filter),
        };
        let selected = |pod: &Pod| selects(self.snapshot, &identity.selected, pod);
        let counts = self.prepared.counts(what, || {
            let mut counts = GroupCounts::none(table, self.targets.len());
            for (pod, on) in self.prepared.bound.alike(self.snapshot) {
                if !selected(pod) {
                    continue;
                }
                for (at, n) in on {
                    let node = &self.snapshot.nodes[*at as usize];
                    if self.node_passes(identity.filter, node) {
                        counts.add_bound(table, node, self.targets.of_node(*at as usize), *n);
                    }
                }
            }
            counts
        });
        let mut counts = GroupCounts::clone(&counts);
        for (at, _) in moved.iter().filter(|(_, pod)| pod.is_active() && selected(pod)) {
            let node = &self.snapshot.nodes[*at];
            if self.node_passes(identity.filter, node) {
                counts.remove_bound(table, node, self.targets.of_node(*at));
            }
        }
        counts
    }

    fn count_repelling(&self, id: GroupId, moved: &Moved<'_>) -> GroupCounts {
        let identity = &self.groups.list[id as usize].identity;
        let table = self.table(id);
        let mut counts = GroupCounts::none(table, self.targets.len());
        let Some(selection) = identity.selected.first() else {
            return counts;
        };
        let term = kerf_model::pod::AffinityTerm {
            key: table.map_or(sym::HOSTNAME, |table| table.key),
            selector: selection.selector.clone(),
            namespaces: selection.scope.clone(),
        };
        for (at, n) in self.prepared.bound.with_term(&term) {
            let node = &self.snapshot.nodes[*at as usize];
            counts.add_bound(table, node, self.targets.of_node(*at as usize), *n);
        }
        for (at, pod) in moved {
            for _ in pod.shape.anti_affinity.iter().filter(|own| **own == term) {
                counts.remove_bound(table, &self.snapshot.nodes[*at], self.targets.of_node(*at));
            }
        }
        counts
    }

    /// The request of a class.
    pub(crate) fn requests(&self, class: ClassId) -> &Amounts {
        &self.class(class).requests
    }
}

/// The sound pods in the order of section 16.1, as indices into the request.
fn queue(pods: &[Arc<Pod>]) -> Vec<u32> {
    let sound = pods.iter().enumerate().filter(|(_, pod)| pod.faults.is_empty());
    let mut keyed: Vec<_> = sound
        .map(|(at, pod)| {
            let requests = &pod.shape.requests;
            let size = (Reverse(requests.get(sym::CPU)), Reverse(requests.get(sym::MEMORY)));
            (size, pod.created, at as u32)
        })
        .collect();
    keyed.sort_unstable_by(|a, b| {
        let uid = |at: u32| &pods[at as usize].uid;
        (a.0, a.1)
            .cmp(&(b.0, b.1))
            .then_with(|| uid(a.2).cmp(uid(b.2)))
            .then_with(|| a.2.cmp(&b.2))
    });
    keyed.into_iter().map(|entry| entry.2).collect()
}

/// Interns the terms of bound pods that repel pods of the batch, in an order of their own; others bind nobody here.
fn repelled(prepared: &Prepared, profiles: &[Arc<Pod>], moved: &Moved<'_>, groups: &mut Groups, keys: &mut Keys) {
    let binds = |repelling: &&Repelling| {
        let term = &repelling.term;
        let selected = [Selection {
            selector: term.selector.clone(),
            scope: term.namespaces.clone(),
        }];
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
        groups.intern(term_key(GroupKind::Inverse, &repelling.term, key), true);
    }
}
