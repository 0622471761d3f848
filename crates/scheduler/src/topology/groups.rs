//! Groups: one per distinct constraint (SCH-186), with the domains it knows.

use crate::bits::Bits;
use crate::requirements::ReqId;
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::pod::NamespaceScope;
use kerf_model::selector::LabelSelector;
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

/// A topology key: hostname is a node's index, any other key has a table of domains.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum TopologyKey {
    Host,
    Domain(u32),
}

/// What makes two constraints the same (SCH-186, SCH-187: all of it).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct GroupKey {
    pub(crate) kind: GroupKind,
    pub(crate) key: TopologyKey,
    pub(crate) selector: LabelSelector,
    pub(crate) scope: NamespaceScope,
    pub(crate) max_skew: u32,
    pub(crate) min_domains: Option<u32>,
    pub(crate) filter: Option<FilterId>,
}

/// Which nodes a spread constraint looks at (SCH-205).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Filter {
    /// Any of these sets must hold; empty for every node.
    pub(crate) any_of: Vec<ReqId>,
    /// Tolerations that must cover the node's taints, under policy Honor.
    pub(crate) tolerations: Option<Vec<Toleration>>,
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

    /// The number of a group that is there.
    pub(crate) fn find(&self, identity: &GroupKey) -> Option<GroupId> {
        self.ids.get(identity).copied()
    }

    pub(crate) fn intern_filter(&mut self, filter: Filter) -> Option<FilterId> {
        if filter.any_of.is_empty() && filter.tolerations.is_none() {
            return None;
        }
        Some(*self.filter_ids.entry(filter).or_insert_with_key(|filter| {
            self.filters.push(filter.clone());
            (self.filters.len() - 1) as FilterId
        }))
    }
}

/// The values of one topology key, numbered in the order of their text.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    pub(crate) key: Sym,
    pub(crate) values: Vec<Sym>,
    numbers: FxHashMap<Sym, u32>,
    /// Per domain: the pools (template numbers) that can make nodes in it.
    pub(crate) offered_by: Vec<Bits>,
}

impl KeyTable {
    pub(crate) fn number(&self, value: Sym) -> Option<u32> {
        self.numbers.get(&value).copied()
    }

    /// Numbers the values of a key.
    pub(crate) fn fill(&mut self, mut values: Vec<Sym>, interner: &Interner) {
        values.sort_by_key(|value| interner.text(*value));
        values.dedup();
        self.numbers = values
            .iter()
            .enumerate()
            .map(|(at, value)| (*value, at as u32))
            .collect();
        self.offered_by = vec![Bits::default(); values.len()];
        self.values = values;
    }
}

/// All topology keys but hostname.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    pub(crate) tables: Vec<KeyTable>,
}

impl Keys {
    /// A key that was interned before.
    pub(crate) fn find(&self, key: Sym) -> Option<TopologyKey> {
        if key == sym::HOSTNAME {
            return Some(TopologyKey::Host);
        }
        self.tables
            .iter()
            .position(|table| table.key == key)
            .map(|at| TopologyKey::Domain(at as u32))
    }

    pub(crate) fn intern(&mut self, key: Sym) -> TopologyKey {
        if key == sym::HOSTNAME {
            return TopologyKey::Host;
        }
        let at = self
            .tables
            .iter()
            .position(|table| table.key == key)
            .unwrap_or_else(|| {
                let (values, numbers, offered_by) = (Vec::new(), FxHashMap::default(), Vec::new());
                self.tables.push(KeyTable {
                    key,
                    values,
                    numbers,
                    offered_by,
                });
                self.tables.len() - 1
            });
        TopologyKey::Domain(at as u32)
    }
}
