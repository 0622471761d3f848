//! The world of one pass: everything that does not change while pods are placed, compiled to dense numbers.

use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::classes::{Class, ClassId, Classes, Interned, mentioned_keys, selects, term_key};
use crate::nodes::{self, Profiles, Target};
use crate::options::{Options, Request};
use crate::requirements::{ReqId, ReqSets};
use crate::states::{StateId, States, labels_satisfy};
use crate::templates::{SharedTypes, Template, Templates};
use crate::topology::{Counts, FilterId, GroupId, GroupKind, Groups, Keys, TopologyKey};
use kerf_model::intern::{Interner, Sym};
use kerf_model::node::Node;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::{Taint, first_untolerated};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The compiled input of a pass.
#[derive(Debug)]
pub(crate) struct World<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) options: &'a Options,
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) resources: ResourceIndex,
    pub(crate) catalogues: Vec<SharedTypes>,
    /// Per catalogue: offers and the keys they need a claim to define.
    pub(crate) demands: Vec<Vec<(usize, Sym)>>,
    pub(crate) templates: Vec<Template>,
    pub(crate) empty_pools: Vec<(Arc<str>, bool)>,
    pub(crate) targets: Vec<Target>,
    pub(crate) profiles: Vec<Vec<(Sym, Sym)>>,
    pub(crate) req_sets: ReqSets,
    pub(crate) keys: Keys,
    pub(crate) groups: Groups,
    pub(crate) classes: Vec<Class>,
    pub(crate) of_pod: Vec<Option<ClassId>>,
    /// Per topology key and domain: the targets in it.
    pub(crate) targets_in: Vec<Vec<Bits>>,
    /// Per topology key: targets without it.
    pub(crate) targets_without: Vec<Bits>,
    /// Where everything starts.
    pub(crate) counts: Counts,
    pub(crate) states: States,
    /// The initial state of each template.
    pub(crate) base: Vec<StateId>,
}

impl<'a> World<'a> {
    pub(crate) fn interner(&self) -> &Interner {
        &self.snapshot.interner
    }

    /// Whether a key may stay undefined on a claim (SCH-102).
    pub(crate) fn is_known(&self, key: Sym) -> bool {
        is_known(self.snapshot, key)
    }

    pub(crate) fn class(&self, id: ClassId) -> &Class {
        &self.classes[id as usize]
    }

    /// Compiles a request.
    pub(crate) fn compile(request: &Request<'a>, options: &'a Options) -> Self {
        let snapshot = request.snapshot;
        let known = |key| is_known(snapshot, key);
        let requests = request.pods.iter().map(|pod| &pod.shape.requests);
        let daemons = snapshot.daemons.iter().map(|daemon| &daemon.shape.requests);
        let resources = ResourceIndex::new(requests.chain(daemons), &snapshot.interner);
        let templates = Templates::compile(snapshot, &resources, options.min_values_policy, known);
        let order = nodes::order(snapshot, request.exclude_nodes);
        let mut taint_sets = TaintSets::default();
        let template_taints: Vec<u32> = templates
            .list
            .iter()
            .map(|template| taint_sets.number(&template.pool.taints))
            .collect();
        let target_taints: Vec<u32> = order
            .iter()
            .map(|at| taint_sets.number(&snapshot.nodes[*at].taints))
            .collect();

        let batch = batch(request.pods);
        let repelling = repelling(snapshot, &batch);
        let (mut req_sets, mut groups, mut keys) = (ReqSets::default(), Groups::default(), Keys::default());
        let repelling_pods: Vec<Arc<Pod>> = repelling.iter().map(|(_, pod)| Arc::clone(pod)).collect();
        let mut classes = Classes::compile(
            request,
            options,
            &repelling_pods,
            &mut Interned {
                resources: &resources,
                req_sets: &mut req_sets,
                groups: &mut groups,
                keys: &mut keys,
                taint_sets: &taint_sets.list,
                soft_taints: templates.soft_taints(),
            },
        );
        for term in repelling_pods.iter().flat_map(|pod| &pod.shape.anti_affinity) {
            let key = keys.intern(term.key);
            groups.intern(term_key(GroupKind::Inverse, term, key), true);
        }
        classes.match_groups(snapshot, &groups);
        let with_ports = classes.list.iter().any(|class| !class.shape.host_ports.is_empty());
        let mut world = World {
            snapshot,
            options,
            pods: request.pods,
            demands: templates.catalogues.iter().map(|types| types.demands(known)).collect(),
            catalogues: templates.catalogues,
            templates: templates.list,
            empty_pools: templates.empty_pools,
            targets: order
                .iter()
                .map(|at| nodes::target(snapshot, &resources, &snapshot.nodes[*at], with_ports))
                .collect(),
            resources,
            profiles: Vec::new(),
            req_sets,
            keys,
            groups,
            classes: classes.list,
            of_pod: classes.of_pod,
            targets_in: Vec::new(),
            targets_without: Vec::new(),
            counts: Counts::default(),
            states: States::default(),
            base: Vec::new(),
        };
        for (template, taints) in world.templates.iter_mut().zip(template_taints) {
            template.taints = taints as usize;
        }
        world.number_targets(&target_taints);
        world.mark_settling(request, &order);
        world.fill_domains();
        world.find_pod_domains();
        world.count(&order, &batch, &repelling);
        let mut states = States::default();
        world.base = (0..world.templates.len())
            .map(|at| states.intern(&world, at, world.templates[at].requirements.clone()))
            .collect();
        world.states = states;
        world
    }

    fn number_targets(&mut self, taints: &[u32]) {
        let mentioned = mentioned_keys(&self.req_sets, &self.keys);
        let mut profiles = Profiles::default();
        for (target, taints) in self.targets.iter_mut().zip(taints) {
            target.taints = *taints;
            target.profile = profiles.number(&target.node, &mentioned);
        }
        self.profiles = profiles.list;
    }

    fn mark_settling(&mut self, request: &Request<'_>, order: &[usize]) {
        for (target, at) in self.targets.iter_mut().zip(order) {
            target.settling = request.settling_nodes.contains(at);
        }
    }

    /// Numbers the domains of every topology key and says which groups know which (SCH-195 to SCH-199).
    fn fill_domains(&mut self) {
        for at in 0..self.keys.tables.len() {
            let key = self.keys.tables[at].key;
            let mut offered: Vec<(Sym, usize)> = Vec::new();
            for (number, template) in self.templates.iter().enumerate() {
                offered.extend(
                    self.pool_domains(template, key)
                        .into_iter()
                        .map(|value| (value, number)),
                );
            }
            let nodes = self.snapshot.nodes.iter().filter_map(|node| node.label(key));
            let values = offered.iter().map(|(value, _)| *value).chain(nodes).collect();
            let interner = Arc::clone(&self.snapshot.interner);
            let table = &mut self.keys.tables[at];
            table.fill(values, &interner);
            for (value, template) in offered {
                if let Some(number) = table.number(value) {
                    table.offered_by[number as usize].insert(template);
                }
            }
            let domain_of = |target: &Target| target.node.label(key).and_then(|value| table.number(value));
            let mut inside = vec![Bits::default(); table.values.len()];
            let mut without = Bits::default();
            for (number, target) in self.targets.iter_mut().enumerate() {
                let domain = domain_of(target);
                target.domains.push(domain);
                match domain {
                    Some(domain) => inside[domain as usize].insert(number),
                    None => without.insert(number),
                }
            }
            self.targets_in.push(inside);
            self.targets_without.push(without);
        }
        for id in 0..self.groups.list.len() {
            self.groups.list[id].known = self.known_domains(id);
        }
    }

    /// The values of a key nodes of a pool can have.
    fn pool_domains(&self, template: &Template, key: Sym) -> Vec<Sym> {
        let types = &self.catalogues[template.catalogue];
        let own = template.requirements.get(key);
        let mut values = Vec::new();
        let mut undeclared = false;
        for row in template.rows.iter() {
            match types.instance_type(row).requirements.get(key) {
                Some(theirs) if !theirs.complement => {
                    let both = own.map_or_else(|| theirs.clone(), |own| own.intersect(theirs, self.interner()));
                    values.extend(both.values);
                }
                _ => undeclared = true,
            }
        }
        if let (true, Some(own)) = (undeclared, own.filter(|own| !own.complement)) {
            values.extend(own.values.iter().copied());
        }
        values
    }

    fn known_domains(&self, group: usize) -> Bits {
        let identity = &self.groups.list[group].identity;
        let TopologyKey::Domain(key) = identity.key else {
            return Bits::default();
        };
        let table = &self.keys.tables[key as usize];
        let filter = identity.filter.map(|filter| &self.groups.filters[filter as usize]);
        let tolerations = filter.and_then(|filter| filter.tolerations.as_ref());
        let tolerated = |template: usize| {
            let taints = &self.templates[template].pool.taints;
            tolerations.is_none_or(|tolerations| first_untolerated(taints, tolerations).is_none())
        };
        let mut known: Bits = (0..table.values.len())
            .filter(|domain| table.offered_by[*domain].iter().any(tolerated))
            .collect();
        for target in self.targets.iter().filter(|target| target.node.node_name.is_some()) {
            if let Some(domain) = target.domains[key as usize]
                && !known.get(domain as usize)
                && self.node_passes(identity.filter, &target.node)
            {
                known.insert(domain as usize);
            }
        }
        known
    }

    /// Whether a spread constraint looks at a node (SCH-205).
    pub(crate) fn node_passes(&self, filter: Option<FilterId>, node: &Node) -> bool {
        let Some(filter) = filter.map(|filter| &self.groups.filters[filter as usize]) else {
            return true;
        };
        let labels = filter.any_of.is_empty() || filter.any_of.iter().any(|set| self.node_satisfies(*set, node));
        labels
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
    fn count(&mut self, order: &[usize], batch: &FxHashSet<&str>, repelling: &[(usize, Arc<Pod>)]) {
        let mut counts = Counts::new(self);
        let mut target_of: Vec<Option<u32>> = vec![None; self.snapshot.nodes.len()];
        for (number, at) in order.iter().enumerate() {
            target_of[*at] = Some(number as u32);
        }
        if self.groups.list.iter().any(|group| group.kind() != GroupKind::Inverse) {
            let mut selected: FxHashMap<(usize, usize), Vec<GroupId>> = FxHashMap::default();
            for (at, node) in self
                .snapshot
                .nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| node.node_name.is_some())
            {
                for pod in node
                    .pods
                    .iter()
                    .filter(|pod| pod.is_active() && !batch.contains(&*pod.uid))
                {
                    let key = (Arc::as_ptr(&pod.labels) as usize, pod.namespace.as_ptr() as usize);
                    let ids = selected.entry(key).or_insert_with(|| {
                        let forward = |id: &GroupId| self.groups.list[*id as usize].kind() != GroupKind::Inverse;
                        let all = (0..self.groups.list.len() as GroupId).filter(forward);
                        all.filter(|id| selects(self.snapshot, &self.groups, *id, pod))
                            .collect()
                    });
                    for id in ids.iter() {
                        if self.node_passes(self.groups.list[*id as usize].identity.filter, node) {
                            counts.record_bound(self, *id, node, target_of[at]);
                        }
                    }
                }
            }
        }
        for (at, pod) in repelling {
            for term in &pod.shape.anti_affinity {
                let Some(key) = self.keys.find(term.key) else { continue };
                if let Some(id) = self.groups.find(&term_key(GroupKind::Inverse, term, key)) {
                    counts.record_bound(self, id, &self.snapshot.nodes[*at], target_of[*at]);
                }
            }
        }
        self.counts = counts;
    }

    /// The request of a class.
    pub(crate) fn requests(&self, class: ClassId) -> &Amounts {
        &self.class(class).requests
    }
}

fn is_known(snapshot: &Snapshot, key: Sym) -> bool {
    snapshot.is_well_known(key) || snapshot.reservation_key == Some(key)
}

/// The pods of the batch that are bound somewhere: they are about to move and do not count where they are (SCH-203).
fn batch(pods: &[Arc<Pod>]) -> FxHashSet<&str> {
    pods.iter()
        .filter(|pod| pod.node_name.is_some())
        .map(|pod| &*pod.uid)
        .collect()
}

/// Bound pods with required anti-affinity, terminating ones included (SCH-070, SCH-483), by index of their node.
fn repelling(snapshot: &Snapshot, batch: &FxHashSet<&str>) -> Vec<(usize, Arc<Pod>)> {
    let mut found = Vec::new();
    for (at, node) in snapshot.nodes.iter().enumerate() {
        let repels = |pod: &&Arc<Pod>| !pod.shape.anti_affinity.is_empty() && !batch.contains(&*pod.uid);
        found.extend(node.pods.iter().filter(repels).map(|pod| (at, Arc::clone(pod))));
    }
    found
}

#[derive(Default)]
struct TaintSets {
    list: Vec<Vec<Taint>>,
    ids: FxHashMap<Vec<Taint>, u32>,
}

impl TaintSets {
    fn number(&mut self, taints: &[Taint]) -> u32 {
        if let Some(id) = self.ids.get(taints) {
            return *id;
        }
        let id = self.list.len() as u32;
        self.list.push(taints.to_vec());
        self.ids.insert(taints.to_vec(), id);
        id
    }
}
