//! Groups: one per distinct constraint (SCH-186), with the domains it knows.

use crate::bits::Bits;
use crate::requirements::ReqId;
use crate::topology::TopologyKey;
use kerf_model::pod::{AffinityTerm, NamespaceScope, Pod};
use kerf_model::selector::LabelSelector;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::Toleration;
use rustc_hash::FxHashMap;

/// The number of a group.
pub(crate) type GroupId = u32;
/// The number of a node filter.
pub(crate) type FilterId = u32;

/// What a group demands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum GroupKind {
    /// Topology spread.
    Spread,
    /// Affinity to the pods selected.
    Affinity,
    /// Anti-affinity to the pods selected.
    AntiAffinity,
    /// Anti-affinity of other pods: its owners are counted, the pods selected are repelled (SCH-237).
    Inverse,
}

/// What makes two constraints the same (SCH-186, SCH-187: all of it).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct GroupKey {
    pub(crate) kind: GroupKind,
    pub(crate) key: TopologyKey,
    /// What a pod must meet to be selected: all of them. More than one for the terms of a pod's required affinity only.
    pub(crate) selected: Vec<Selection>,
    pub(crate) max_skew: u32,
    pub(crate) min_domains: Option<u32>,
    pub(crate) filter: Option<FilterId>,
}

/// Pods by label and namespace.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Selection {
    pub(crate) selector: LabelSelector,
    pub(crate) scope: NamespaceScope,
}

impl GroupKey {
    /// The group an affinity term by itself belongs to.
    pub(crate) fn of_term(kind: GroupKind, term: &AffinityTerm, key: TopologyKey) -> Self {
        Self::of_terms(kind, std::slice::from_ref(term), key)
    }

    /// The group of the pods that all of some terms select.
    pub(crate) fn of_terms(kind: GroupKind, terms: &[AffinityTerm], key: TopologyKey) -> Self {
        let mut selected: Vec<Selection> = terms.iter().map(Selection::from).collect();
        selected.sort();
        selected.dedup();
        Self {
            kind,
            key,
            selected,
            max_skew: 0,
            min_domains: None,
            filter: None,
        }
    }
}

impl From<&AffinityTerm> for Selection {
    fn from(term: &AffinityTerm) -> Self {
        Self {
            selector: term.selector.clone(),
            scope: term.namespaces.clone(),
        }
    }
}

/// Whether all of some selections cover a pod.
pub(crate) fn selects(snapshot: &Snapshot, selected: &[Selection], pod: &Pod) -> bool {
    selected
        .iter()
        .all(|one| one.selector.matches(&pod.labels) && snapshot.in_scope(&one.scope, &pod.namespace))
}

/// Which nodes a spread constraint looks at (SCH-205).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Filter {
    /// Any of these sets must hold; empty for every node.
    pub(crate) any_of: Vec<ReqId>,
    /// Tolerations that must cover the node's taints, under policy Honor; soft taints never matter.
    pub(crate) tolerations: Option<Vec<Toleration>>,
    /// Topology keys the node must have besides: those of the pod's other required constraints, as for kube-scheduler.
    pub(crate) keys: Vec<TopologyKey>,
}

/// A group with what is fixed for the whole pass.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) identity: GroupKey,
    /// Whether some pod requires it, not merely prefers it.
    pub(crate) required: bool,
    /// The domains it knows (SCH-195 to SCH-199); of no meaning for hostname.
    pub(crate) known: Bits,
}

impl Group {
    pub(crate) fn kind(&self) -> GroupKind {
        self.identity.kind
    }
}

/// All groups and filters of a pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) list: Vec<Group>,
    ids: FxHashMap<GroupKey, GroupId>,
    pub(crate) filters: Vec<Filter>,
    filter_ids: FxHashMap<Filter, FilterId>,
}

impl Groups {
    pub(crate) fn intern(&mut self, identity: GroupKey, required: bool) -> GroupId {
        if let Some(id) = self.ids.get(&identity) {
            self.list[*id as usize].required |= required;
            return *id;
        }
        let id = self.list.len() as GroupId;
        self.ids.insert(identity.clone(), id);
        self.list.push(Group {
            identity,
            required,
            known: Bits::default(),
        });
        id
    }

    pub(crate) fn intern_filter(&mut self, filter: Filter) -> Option<FilterId> {
        if filter.any_of.is_empty() && filter.tolerations.is_none() && filter.keys.is_empty() {
            return None;
        }
        Some(*self.filter_ids.entry(filter).or_insert_with_key(|filter| {
            self.filters.push(filter.clone());
            (self.filters.len() - 1) as FilterId
        }))
    }
}
