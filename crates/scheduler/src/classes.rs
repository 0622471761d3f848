//! Pod classes: pods that no rule can tell apart, with the chain of readings relaxation goes through.

use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::options::{Options, WhatIf};
use crate::prepared::Prepared;
use crate::relax::{Reading, readings};
use crate::requirements::{ReqId, ReqSet, ReqSets};
use crate::topology::{Filter, FilterId, GroupId, GroupKey, GroupKind, Groups, Keys, Selection, TopologyKey};
use kerf_model::intern::{Interner, Sym};
use kerf_model::pod::{AffinityTerm, NamespaceScope, Phase, Pod, PodShape, PodVolume, SpreadConstraint};
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::{Taint, Toleration, first_untolerated};
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The number of a class.
pub(crate) type ClassId = u32;

/// A group a reading is bound by.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) group: GroupId,
    /// Whether the group selects the pod itself.
    pub(crate) selects_self: bool,
    /// The domains the pod's hard constraints on the key admit; `None` for all.
    pub(crate) pod_domains: Option<Bits>,
}

/// One reading of a class, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// Hard constraints plus the preference in force.
    pub(crate) full: ReqId,
    /// Hard constraints only.
    pub(crate) strict: ReqId,
    /// By number of taint set: whether it is tolerated.
    pub(crate) tolerated: Arc<Bits>,
    pub(crate) tolerations: Arc<[Toleration]>,
    pub(crate) owned: Vec<Owned>,
    /// See [`Reading::beyond`].
    pub(crate) beyond: bool,
}

impl Class {
    /// The weakest reading upstream knows, which is the one reasons speak of, and its level.
    pub(crate) fn reported(&self) -> Option<(usize, &Variant)> {
        self.variants.iter().enumerate().rfind(|(_, variant)| !variant.beyond)
    }
}

/// A class of pods.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) shape: Arc<PodShape>,
    pub(crate) requests: Amounts,
    /// The readings, strictest first.
    pub(crate) variants: Vec<Variant>,
    /// Spread, affinity and anti-affinity groups that select the pods.
    pub(crate) counted_in: Arc<[GroupId]>,
    /// Inverse groups the pods own.
    pub(crate) repels: Vec<GroupId>,
    /// Inverse groups that select the pods.
    pub(crate) repelled_by: Arc<[GroupId]>,
    /// Topology keys that must be settled when a pod is placed, so that others can rely on it.
    pub(crate) settles: Arc<[u32]>,
    /// Node filters that must be decided when a pod is placed: required spread constraints that select it count it by them.
    pub(crate) filters: Arc<[FilterId]>,
    pub(crate) volumes: Vec<PodVolume>,
    /// Requirement sets of the volumes: of each list any suffices (SCH-180), and lists have no key in common. Empty where volumes do not
    /// constrain.
    pub(crate) volume_choices: Vec<Vec<ReqId>>,
    /// The last combination of all lists, which is the one reasons speak of.
    pub(crate) last_volume_choice: Option<ReqId>,
    /// The alternatives of the volumes are too many to look at.
    pub(crate) volumes_unclear: bool,
    /// Whether the pods move from a healthy node (SCH-251).
    pub(crate) moved: bool,
    profile: u32,
    /// Number of what its shape demands besides resources.
    demands: u32,
}

/// The classes of a pass and what was interned to describe them.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    pub(crate) list: Vec<Class>,
    /// By pod, in the order of the request; `None` for ignored pods.
    pub(crate) of_pod: Vec<Option<ClassId>>,
    /// One pod of each label profile.
    pub(crate) profiles: Vec<Arc<Pod>>,
}

/// What class compilation interns into.
pub(crate) struct Interned<'a> {
    pub(crate) resources: &'a ResourceIndex,
    pub(crate) req_sets: &'a mut ReqSets,
    pub(crate) groups: &'a mut Groups,
    pub(crate) keys: &'a mut Keys,
    pub(crate) taint_sets: &'a [Vec<Taint>],
    pub(crate) soft_taints: bool,
}

/// The label keys that selectors look at: two pods that agree on them look alike to every group.
pub(crate) fn selector_keys<'a>(pods: impl Iterator<Item = &'a PodShape>) -> FxHashSet<&'a str> {
    let mut keys = FxHashSet::default();
    let mut add = |selector: &'a LabelSelector| {
        if let LabelSelector::All(conditions) = selector {
            keys.extend(conditions.iter().map(|condition| match condition {
                Match::In(key, _) | Match::NotIn(key, _) | Match::Exists(key) | Match::DoesNotExist(key) => &**key,
            }));
        }
    };
    for shape in pods {
        shape.spread.iter().for_each(|constraint| add(&constraint.selector));
        let preferred = shape
            .preferred_affinity
            .iter()
            .chain(&shape.preferred_anti_affinity)
            .map(|term| &term.1);
        for term in shape.affinity.iter().chain(&shape.anti_affinity).chain(preferred) {
            add(&term.selector);
        }
    }
    keys
}

/// Numbers equal values; equal pointers are recognised without looking at the value.
struct Numbering<'a, T> {
    by_pointer: FxHashMap<*const T, u32>,
    by_value: FxHashMap<&'a T, u32>,
}

impl<'a, T: std::hash::Hash + Eq> Numbering<'a, T> {
    fn new() -> Self {
        Self {
            by_pointer: FxHashMap::default(),
            by_value: FxHashMap::default(),
        }
    }

    fn number(&mut self, value: &'a Arc<T>) -> u32 {
        let next = self.by_value.len() as u32;
        let by_value = &mut self.by_value;
        *self
            .by_pointer
            .entry(Arc::as_ptr(value))
            .or_insert_with(|| *by_value.entry(&**value).or_insert(next))
    }
}

impl Classes {
    /// Sorts pods into classes.
    pub(crate) fn compile(
        prepared: &Prepared,
        request: &WhatIf<'_>,
        queue: &[u32],
        options: &Options,
        interned: &mut Interned<'_>,
    ) -> Self {
        let mut classes = Self {
            of_pod: vec![None; request.pods.len()],
            ..Self::default()
        };
        let mut shapes = Numbering::new();
        let numbers: Vec<u32> = request.pods.iter().map(|pod| shapes.number(&pod.shape)).collect();
        let distinct: Vec<&PodShape> = {
            let mut distinct: Vec<_> = shapes
                .by_value
                .iter()
                .map(|(shape, number)| (*number, *shape))
                .collect();
            distinct.sort_unstable_by_key(|entry| entry.0);
            distinct.into_iter().map(|entry| entry.1).collect()
        };
        let mut keys = selector_keys(distinct.into_iter());
        keys.extend(prepared.bound.keys.iter().map(|key| &**key));
        let mut keys: Vec<&str> = keys.into_iter().collect();
        keys.sort_unstable();
        let mut profiles = Profiles::new(keys);
        let mut compiled: FxHashMap<Demands<'_>, Compiled> = FxHashMap::default();
        let mut ids: FxHashMap<(u32, u32, bool, &[PodVolume]), ClassId> = FxHashMap::default();
        let deleting = |name: &str| {
            let node = prepared.node_named(name);
            node.is_some_and(|at| prepared.snapshot.nodes[at].marked_for_deletion)
        };
        let none: Arc<[u32]> = Arc::new([]);
        // In the order of the queue, so that no number depends on that of the request.
        for at in queue {
            let at = *at as usize;
            let (pod, shape) = (&request.pods[at], numbers[at]);
            let profile = profiles.number(pod, &mut classes.profiles);
            let moved = !request.settling_nodes.is_empty()
                && pod.phase != Phase::Pending
                && !pod.node_name.as_deref().is_some_and(deleting);
            let key = (shape, profile, moved, pod.volumes.as_slice());
            let next = classes.list.len() as ClassId;
            let id = *ids.entry(key).or_insert(next);
            if id == next {
                let number = compiled.len() as u32;
                let demands = Demands(&pod.shape, &pod.namespace);
                let known = compiled.entry(demands);
                let shared = known.or_insert_with(|| Compiled::new(&prepared.snapshot, options, pod, number, interned));
                let choices = volume_choices(&pod.volumes, &prepared.snapshot.interner);
                let volumes_unclear = choices.is_none();
                let choices = choices.unwrap_or_default();
                let lasts = || choices.iter().filter_map(|sets| sets.last());
                let mut last = ReqSet::new(lasts().flat_map(ReqSet::parts).cloned(), &prepared.snapshot.interner);
                last.contradiction = last.contradiction.or(lasts().find_map(|set| set.contradiction));
                let last = (!choices.is_empty()).then(|| interned.req_sets.intern(last));
                let mut numbered =
                    |sets: Vec<ReqSet>| sets.into_iter().map(|set| interned.req_sets.intern(set)).collect();
                let volume_choices = choices.into_iter().map(&mut numbered).collect();
                classes.list.push(Class {
                    shape: Arc::clone(&pod.shape),
                    requests: interned.resources.dense(&pod.shape.requests),
                    variants: shared.variants.clone(),
                    counted_in: Arc::clone(&none),
                    repels: shared.repels.clone(),
                    repelled_by: Arc::clone(&none),
                    settles: Arc::clone(&none),
                    filters: Arc::clone(&none),
                    volumes: pod.volumes.clone(),
                    volume_choices,
                    last_volume_choice: last,
                    volumes_unclear,
                    moved,
                    profile,
                    demands: shared.number,
                });
            }
            classes.of_pod[at] = Some(id);
        }
        classes
    }

    /// Matches every group against every distinct label profile, once.
    pub(crate) fn match_groups(&mut self, snapshot: &Snapshot, groups: &Groups) {
        let selected: Vec<Vec<GroupId>> = self
            .profiles
            .iter()
            .map(|pod| {
                let covers = |id: &GroupId| {
                    let identity = &groups.list[*id as usize].identity;
                    selects(snapshot, &identity.selected, pod)
                };
                (0..groups.list.len() as GroupId).filter(covers).collect()
            })
            .collect();
        let inverse = |id: &GroupId| groups.list[*id as usize].kind() == GroupKind::Inverse;
        let only = |mine: &Vec<GroupId>, wanted: bool| -> Arc<[GroupId]> {
            mine.iter().copied().filter(|id| inverse(id) == wanted).collect()
        };
        let repelled_by: Vec<_> = selected.iter().map(|mine| only(mine, true)).collect();
        let counted_in: Vec<_> = selected.iter().map(|mine| only(mine, false)).collect();
        let mut settled: FxHashMap<(u32, u32), Settled> = FxHashMap::default();
        for class in &mut self.list {
            let profile = class.profile as usize;
            class.repelled_by = Arc::clone(&repelled_by[profile]);
            class.counted_in = Arc::clone(&counted_in[profile]);
            for variant in &mut class.variants {
                for owned in &mut variant.owned {
                    owned.selects_self = selected[profile].contains(&owned.group);
                }
            }
            let keys = settled.entry((class.profile, class.demands));
            (class.settles, class.filters) = keys
                .or_insert_with(|| (settles(class, groups), filters(class, groups).into()))
                .clone();
        }
    }
}

/// What classes of one profile and equal demands settle: keys and filters.
type Settled = (Arc<[u32]>, Arc<[FilterId]>);

/// Whether all of some selections cover a pod.
pub(crate) fn selects(snapshot: &Snapshot, selected: &[Selection], pod: &Pod) -> bool {
    selected
        .iter()
        .all(|one| one.selector.matches(&pod.labels) && snapshot.in_scope(&one.scope, &pod.namespace))
}

/// The keys on which a constraint that somebody requires counts or binds the class. An unsettled domain there would block others (SCH-233,
/// SCH-238), or let the pods come up where they upset a spread that was planned without them.
fn settles(class: &Class, groups: &Groups) -> Arc<[u32]> {
    let binding = class.counted_in.iter().chain(&class.repels);
    let binding = binding
        .chain(class.repelled_by.iter())
        .map(|id| &groups.list[*id as usize])
        .filter(|group| group.required);
    let filtered = filters(class, groups);
    let besides = filtered.iter().flat_map(|id| &groups.filters[*id as usize].keys);
    let mut keys: Vec<u32> = binding
        .map(|group| group.identity.key)
        .chain(besides.copied())
        .filter_map(crate::states::table_of)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into()
}

/// The node filters by which required constraints count the class.
fn filters(class: &Class, groups: &Groups) -> Vec<FilterId> {
    let counting = class.counted_in.iter().map(|id| &groups.list[*id as usize]);
    let mut filters: Vec<FilterId> = counting
        .filter(|group| group.required)
        .filter_map(|group| group.identity.filter)
        .collect();
    filters.sort_unstable();
    filters.dedup();
    filters
}

/// Namespace and the labels selectors look at.
struct Profiles<'a> {
    keys: Vec<&'a str>,
    by_pointer: FxHashMap<(*const LabelSet, &'a str), u32>,
    by_value: FxHashMap<&'a str, FxHashMap<Vec<Option<&'a str>>, u32>>,
    labels: Vec<Option<&'a str>>,
}

impl<'a> Profiles<'a> {
    fn new(keys: Vec<&'a str>) -> Self {
        Self {
            keys,
            by_pointer: FxHashMap::default(),
            by_value: FxHashMap::default(),
            labels: Vec::new(),
        }
    }

    fn number(&mut self, pod: &'a Arc<Pod>, profiles: &mut Vec<Arc<Pod>>) -> u32 {
        let key = (Arc::as_ptr(&pod.labels), &*pod.namespace);
        if let Some(known) = self.by_pointer.get(&key) {
            return *known;
        }
        self.labels.clear();
        let values = self.keys.iter().map(|key| pod.labels.get(key).map(|value| &**value));
        self.labels.extend(values);
        let by_value = self.by_value.entry(key.1).or_default();
        let number = by_value.get(self.labels.as_slice()).copied().unwrap_or_else(|| {
            let number = profiles.len() as u32;
            profiles.push(Arc::clone(pod));
            by_value.insert(self.labels.clone(), number);
            number
        });
        self.by_pointer.insert(key, number);
        number
    }
}

/// What a shape demands besides resources, in a namespace: classes that differ in their requests alone share what is compiled of it.
struct Demands<'a>(&'a PodShape, &'a str);

impl Demands<'_> {
    fn parts(&self) -> impl PartialEq + Hash + '_ {
        let Self(shape, namespace) = self;
        let node = (
            &shape.node_selector,
            &shape.required_terms,
            &shape.preferred_terms,
            &shape.tolerations,
        );
        let pods = (
            &shape.spread,
            &shape.affinity,
            &shape.anti_affinity,
            &shape.preferred_affinity,
            &shape.preferred_anti_affinity,
        );
        (node, pods, namespace)
    }
}

impl PartialEq for Demands<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Demands<'_> {}

impl Hash for Demands<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// What demands are compiled to.
struct Compiled {
    number: u32,
    variants: Vec<Variant>,
    repels: Vec<GroupId>,
}

impl Compiled {
    fn new(snapshot: &Snapshot, options: &Options, pod: &Arc<Pod>, number: u32, interned: &mut Interned<'_>) -> Self {
        let shape = &pod.shape;
        let interner = &*snapshot.interner;
        let filters = Filters::new(shape, interned, interner);
        let readings = readings(shape, options.preference_policy, interned.soft_taints);
        let variants = readings
            .iter()
            .map(|reading| compile_variant(pod, reading, &filters, interned, interner))
            .collect();
        let repels = shape
            .anti_affinity
            .iter()
            .map(|term| {
                interned
                    .groups
                    .intern(term_key(GroupKind::Inverse, term, interned.keys.intern(term.key)), true)
            })
            .collect();
        Self {
            number,
            variants,
            repels,
        }
    }
}

/// The node filters of a shape's spread constraints, by policy.
struct Filters {
    any_of: Vec<ReqId>,
    tolerations: Vec<Toleration>,
    /// Of required constraints.
    keys: Vec<TopologyKey>,
}

impl Filters {
    fn new(shape: &PodShape, interned: &mut Interned<'_>, interner: &Interner) -> Self {
        let mut any_of = Vec::new();
        let unbound = shape.node_selector.is_empty() && shape.required_terms.is_empty();
        if !(shape.spread.is_empty() || unbound) {
            let none = [Vec::new()];
            let terms = if shape.required_terms.is_empty() {
                &none[..]
            } else {
                &shape.required_terms
            };
            for term in terms {
                let set = ReqSet::new(
                    shape.node_selector.iter().cloned().chain(term.iter().cloned()),
                    interner,
                );
                any_of.push(interned.req_sets.intern(set));
            }
        }
        let required = shape.spread.iter().filter(|constraint| constraint.required);
        let mut keys: Vec<TopologyKey> = required
            .map(|constraint| interned.keys.intern(constraint.key))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| *key != TopologyKey::Host);
        let soft = std::iter::once(Toleration::prefer_no_schedule());
        Self {
            any_of,
            tolerations: shape.tolerations.iter().cloned().chain(soft).collect(),
            keys,
        }
    }

    fn of(&self, constraint: &SpreadConstraint, key: TopologyKey, groups: &mut Groups) -> Option<FilterId> {
        let besides = self.keys.iter().filter(|other| constraint.required && **other != key);
        groups.intern_filter(Filter {
            keys: besides.copied().collect(),
            any_of: if constraint.honor_node_affinity {
                self.any_of.clone()
            } else {
                Vec::new()
            },
            tolerations: constraint.honor_taints.then(|| self.tolerations.clone()),
        })
    }
}

/// The group an affinity term by itself belongs to.
pub(crate) fn term_key(kind: GroupKind, term: &AffinityTerm, key: TopologyKey) -> GroupKey {
    joint_key(kind, std::slice::from_ref(term), key)
}

/// The group of the pods that all of some terms select.
fn joint_key(kind: GroupKind, terms: &[AffinityTerm], key: TopologyKey) -> GroupKey {
    let mut selected: Vec<Selection> = terms
        .iter()
        .map(|term| Selection {
            selector: term.selector.clone(),
            scope: term.namespaces.clone(),
        })
        .collect();
    selected.sort();
    selected.dedup();
    GroupKey {
        kind,
        key,
        selected,
        max_skew: 0,
        min_domains: None,
        filter: None,
    }
}

fn compile_variant(
    pod: &Pod,
    reading: &Reading<'_>,
    filters: &Filters,
    interned: &mut Interned<'_>,
    interner: &Interner,
) -> Variant {
    let shape = &pod.shape;
    let hard = shape
        .node_selector
        .iter()
        .chain(reading.term.into_iter().flatten())
        .cloned();
    let strict = ReqSet::new(hard.clone(), interner);
    let full = match reading.preferred {
        Some(preferred) => ReqSet::new(hard.chain(preferred.iter().cloned()), interner),
        None => strict.clone(),
    };
    let mut owned = Vec::new();
    let mut own = |group: GroupId| {
        owned.push(Owned {
            group,
            selects_self: false,
            pod_domains: None,
        });
    };
    for constraint in &reading.spread {
        let key = interned.keys.intern(constraint.key);
        let filter = filters.of(constraint, key, interned.groups);
        own(interned.groups.intern(
            GroupKey {
                kind: GroupKind::Spread,
                key,
                selected: vec![Selection {
                    selector: constraint.selector.clone(),
                    scope: NamespaceScope {
                        names: vec![Arc::clone(&pod.namespace)],
                        selector: None,
                    },
                }],
                max_skew: constraint.max_skew,
                min_domains: constraint.min_domains,
                filter,
            },
            constraint.required,
        ));
    }
    // kube-scheduler asks for pods that all required terms select; preferred terms stand for themselves.
    for (at, term) in reading.affinity.iter().enumerate() {
        let key = interned.keys.intern(term.key);
        let required = at < shape.affinity.len();
        let identity = if required {
            joint_key(GroupKind::Affinity, &shape.affinity, key)
        } else {
            term_key(GroupKind::Affinity, term, key)
        };
        own(interned.groups.intern(identity, required));
    }
    for (at, term) in reading.anti_affinity.iter().enumerate() {
        let key = interned.keys.intern(term.key);
        let identity = term_key(GroupKind::AntiAffinity, term, key);
        own(interned.groups.intern(identity, at < shape.anti_affinity.len()));
    }
    let mut tolerations = shape.tolerations.clone();
    if reading.tolerates_soft_taints {
        tolerations.push(Toleration::prefer_no_schedule());
    }
    let tolerated = interned.taint_sets.iter().enumerate();
    let tolerated = tolerated
        .filter(|(_, taints)| first_untolerated(taints, &tolerations).is_none())
        .map(|(at, _)| at);
    Variant {
        full: interned.req_sets.intern(full),
        strict: interned.req_sets.intern(strict),
        tolerated: Arc::new(tolerated.collect()),
        tolerations: tolerations.into(),
        owned,
        beyond: reading.beyond,
    }
}

/// More distinct combinations of alternatives over the same keys than this are not looked at: nobody writes them.
const VOLUME_CHOICES_MAX: usize = 4096;

/// The alternatives of the volumes, those over common keys multiplied (SCH-180): compatible combinations only where there are any, equal ones
/// once, so that their number is bounded by that of the places they name. Nothing where they are too many.
fn volume_choices(volumes: &[PodVolume], interner: &Interner) -> Option<Vec<Vec<ReqSet>>> {
    let mut lists: Vec<(FxHashSet<Sym>, Vec<ReqSet>)> = Vec::new();
    for volume in volumes.iter().filter(|volume| !volume.topology.is_empty()) {
        let alternatives = volume.topology.iter();
        let mut sets: Vec<ReqSet> = alternatives
            .map(|term| ReqSet::new(term.iter().cloned(), interner))
            .collect();
        let mut keys: FxHashSet<Sym> = volume.topology.iter().flatten().map(|part| part.key).collect();
        let (related, others): (Vec<_>, Vec<_>) = lists.into_iter().partition(|(theirs, _)| !theirs.is_disjoint(&keys));
        lists = others;
        // Earlier volumes decide first.
        for (theirs, before) in related.into_iter().rev() {
            keys.extend(theirs);
            sets = product(&before, &sets, interner)?;
        }
        lists.push((keys, sets));
    }
    Some(lists.into_iter().map(|(_, sets)| sets).collect())
}

/// Every set of `a` with every one of `b`. If all contradict each other, one of them stands for all: nothing satisfies it.
fn product(a: &[ReqSet], b: &[ReqSet], interner: &Interner) -> Option<Vec<ReqSet>> {
    let mut seen: FxHashSet<ReqSet> = FxHashSet::default();
    let (mut sets, mut impossible) = (Vec::new(), None);
    for (a, b) in a.iter().flat_map(|a| b.iter().map(move |b| (a, b))) {
        let parts = a.parts().chain(b.parts()).cloned();
        let mut both = ReqSet::new(parts, interner);
        both.contradiction = both.contradiction.or(a.contradiction).or(b.contradiction);
        if both.contradiction.is_some() {
            impossible = Some(both);
        } else if seen.insert(both.clone()) {
            sets.push(both);
            if sets.len() > VOLUME_CHOICES_MAX {
                return None;
            }
        }
    }
    if sets.is_empty() {
        sets.extend(impossible);
    }
    Some(sets)
}
