//! Groups: one per distinct topology constraint (SCH-186), shared by all pods that have it.

use crate::compile::requirements::ReqId;
use crate::compile::topology::keys::{Domain, TopologyKey};
use crate::dense::id_set::IdSet;
use crate::dense::ids::{Id, IdVec};
use kerf_model::pod::{AffinityTerm, NamespaceScope, Pod};
use kerf_model::selector::LabelSelector;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::Toleration;
use rustc_hash::FxHashMap;

/// The id of a group.
pub(crate) type GroupId = Id<Group>;
/// The id of a node filter.
pub(crate) type NodeFilterId = Id<NodeFilter>;

/// The kind of a topology constraint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum GroupKind {
    /// Topology spread.
    Spread,
    /// Affinity to the selected pods.
    Affinity,
    /// Anti-affinity to the selected pods.
    AntiAffinity,
    /// Anti-affinity of other pods: the pods that have the term are counted, the selected pods are repelled (SCH-237).
    Inverse,
}

/// What makes two constraints the same group (SCH-186, SCH-187): all of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct GroupKey {
    pub(crate) kind: GroupKind,
    pub(crate) key: TopologyKey,
    /// A pod is selected if it meets all of these. Only the required affinity terms of one pod are more than one.
    pub(crate) selected: Vec<Selection>,
    pub(crate) max_skew: u32,
    pub(crate) min_domains: Option<u32>,
    pub(crate) filter: Option<NodeFilterId>,
}

/// A selection of pods by labels and namespace.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Selection {
    pub(crate) selector: LabelSelector,
    pub(crate) scope: NamespaceScope,
}

impl GroupKey {
    /// The group of a single affinity term.
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

/// Returns whether all selections select a pod.
pub(crate) fn selects(snapshot: &Snapshot, selected: &[Selection], pod: &Pod) -> bool {
    selected
        .iter()
        .all(|one| one.selector.matches(&pod.labels) && snapshot.in_scope(&one.scope, &pod.namespace))
}

/// Which nodes a spread constraint counts (SCH-205).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeFilter {
    /// One of these sets must hold; empty means every node.
    pub(crate) any_of: Vec<ReqId>,
    /// Tolerations that must cover the node's taints, under policy Honor. `PreferNoSchedule` taints are always covered.
    pub(crate) tolerations: Option<Vec<Toleration>>,
    /// Other topology keys the node must have: those of the pod's other required constraints, as in kube-scheduler.
    pub(crate) keys: Vec<TopologyKey>,
}

/// A group with the facts that do not change while pods are placed.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) identity: GroupKey,
    /// Whether some pod requires it; otherwise pods only prefer it.
    pub(crate) required: bool,
    /// The domains it counts (SCH-195 to SCH-199); not used for the hostname.
    pub(crate) domains: IdSet<Domain>,
}

impl Group {
    pub(crate) fn kind(&self) -> GroupKind {
        self.identity.kind
    }
}

/// All groups and node filters of a question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) list: IdVec<Group, Group>,
    ids: FxHashMap<GroupKey, GroupId>,
    pub(crate) filters: IdVec<NodeFilter, NodeFilter>,
    filter_ids: FxHashMap<NodeFilter, NodeFilterId>,
}

impl Groups {
    /// The group with this key, added if it is new. It is required from the first required constraint on.
    pub(crate) fn intern(&mut self, identity: GroupKey, required: bool) -> GroupId {
        if let Some(id) = self.ids.get(&identity) {
            self.list[*id].required |= required;
            return *id;
        }
        let id = self.list.next_id();
        self.ids.insert(identity.clone(), id);
        self.list.push(Group {
            identity,
            required,
            domains: IdSet::default(),
        });
        id
    }

    /// The id of a node filter, added if it is new. `None` for a filter that every node passes.
    pub(crate) fn intern_filter(&mut self, filter: NodeFilter) -> Option<NodeFilterId> {
        if filter.any_of.is_empty() && filter.tolerations.is_none() && filter.keys.is_empty() {
            return None;
        }
        Some(
            *self
                .filter_ids
                .entry(filter)
                .or_insert_with_key(|filter| self.filters.push(filter.clone())),
        )
    }
}
