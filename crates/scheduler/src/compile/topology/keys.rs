//! Topology keys: their domains, and the existing nodes in each.

use crate::compile::targets::{Target, TargetId};
use crate::compile::templates::{Template, TemplateId};
use crate::dense::id_set::IdSet;
use crate::dense::ids::{Id, IdVec};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The id of a topology key other than the hostname.
pub(crate) type KeyId = Id<KeyTable>;

/// The kind of the ids of domains: the values of one topology key.
pub(crate) enum Domain {}

/// The id of a domain among those of its topology key.
pub(crate) type DomainId = Id<Domain>;

/// A topology key. Every node is its own domain of the hostname; other keys have a table of domains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum TopologyKey {
    Host,
    Domain(KeyId),
}

impl TopologyKey {
    /// The index of its domain table; `None` for the hostname.
    pub(crate) fn table(self) -> Option<KeyId> {
        match self {
            Self::Host => None,
            Self::Domain(table) => Some(table),
        }
    }
}

/// Up to this many domains, each has a set of its targets; with more, the domain of every target is looked up. 64 sets of 64 targets are as
/// many words as one lookup per target reads.
const TARGET_SETS_MAX: usize = 64;
/// Marks a target without a domain.
const NO_DOMAIN: u32 = u32::MAX;

/// The domains of one topology key, numbered in the order of their text, and the existing nodes in each.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    pub(crate) key: Sym,
    pub(crate) values: IdVec<Domain, Sym>,
    ids: FxHashMap<Sym, DomainId>,
    /// The templates that can make nodes in each domain.
    pub(crate) offered_by: IdVec<Domain, IdSet<Template>>,
    /// The position of the domain of each target, or [`NO_DOMAIN`].
    domain_of: IdVec<Target, u32>,
    /// The targets in each domain; empty where there are too many domains.
    targets_in: IdVec<Domain, IdSet<Target>>,
    /// Targets without the label.
    targets_without: IdSet<Target>,
}

impl KeyTable {
    /// A key without domains.
    fn named(key: Sym) -> Self {
        Self {
            key,
            values: IdVec::new(),
            ids: FxHashMap::default(),
            offered_by: IdVec::new(),
            domain_of: IdVec::new(),
            targets_in: IdVec::new(),
            targets_without: IdSet::default(),
        }
    }

    /// A key with the values pools offer (value, template), those of all nodes, and those of the targets.
    pub(crate) fn new(
        key: Sym,
        offered: &[(Sym, TemplateId)],
        nodes: impl Iterator<Item = Sym>,
        targets: impl Iterator<Item = Option<Sym>>,
        interner: &Interner,
    ) -> Self {
        let mut table = Self::named(key);
        let mut values: Vec<Sym> = offered.iter().map(|(value, _)| *value).chain(nodes).collect();
        values.sort_unstable();
        values.dedup();
        values.sort_by_key(|value| interner.text(*value));
        let values: IdVec<Domain, Sym> = values.into_iter().collect();
        table.ids = values.entries().map(|(domain, value)| (*value, domain)).collect();
        table.offered_by = IdVec::filled(IdSet::default(), values.len());
        for (value, template) in offered {
            if let Some(domain) = table.domain(*value) {
                table.offered_by[domain].insert(*template);
            }
        }
        if values.len() <= TARGET_SETS_MAX {
            table.targets_in = IdVec::filled(IdSet::default(), values.len());
        }
        for value in targets {
            let domain = value.and_then(|value| table.domain(value));
            let target = table
                .domain_of
                .push(domain.map_or(NO_DOMAIN, |domain| domain.index() as u32));
            match domain {
                Some(domain) if values.len() <= TARGET_SETS_MAX => table.targets_in[domain].insert(target),
                Some(_) => {}
                None => table.targets_without.insert(target),
            }
        }
        table.values = values;
        table
    }

    /// The domain of a value.
    pub(crate) fn domain(&self, value: Sym) -> Option<DomainId> {
        self.ids.get(&value).copied()
    }

    /// The domain of a node, looked up by target where it is one.
    pub(crate) fn domain_at(&self, node: &Node, target: Option<TargetId>) -> Option<DomainId> {
        match target {
            Some(target) => self.domain_of(target),
            None => node.label(self.key).and_then(|value| self.domain(value)),
        }
    }

    /// The domain of a target.
    pub(crate) fn domain_of(&self, target: TargetId) -> Option<DomainId> {
        let at = self.domain_of.get(target).copied();
        at.filter(|at| *at != NO_DOMAIN).map(|at| DomainId::new(at as usize))
    }

    /// Of the targets `64 * word ..` in `wanted`: those in a valid domain, and those without the label unless it is needed.
    pub(crate) fn targets_in(&self, valid: &IdSet<Domain>, needs_key: bool, word: usize, wanted: u64) -> u64 {
        let mut inside = if needs_key { 0 } else { self.targets_without.word(word) };
        if self.values.len() <= TARGET_SETS_MAX {
            for domain in valid.iter() {
                inside |= self.targets_in[domain].word(word);
            }
        } else {
            for target in IdSet::ids_of_word(word, wanted) {
                if self.domain_of(target).is_some_and(|domain| valid.get(domain)) {
                    inside |= IdSet::bit_of(target).1;
                }
            }
        }
        inside & wanted
    }
}

/// All topology keys except the hostname.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopologyKeys {
    pub(crate) tables: IdVec<KeyTable, Arc<KeyTable>>,
}

impl TopologyKeys {
    /// A key that was interned before.
    pub(crate) fn find(&self, key: Sym) -> Option<TopologyKey> {
        if key == sym::HOSTNAME {
            return Some(TopologyKey::Host);
        }
        self.tables
            .iter()
            .position(|table| table.key == key)
            .map(|at| TopologyKey::Domain(KeyId::new(at)))
    }

    pub(crate) fn intern(&mut self, key: Sym) -> TopologyKey {
        self.find(key)
            .unwrap_or_else(|| TopologyKey::Domain(self.tables.push(Arc::new(KeyTable::named(key)))))
    }

    /// Replaces every empty table by the table of its key.
    pub(crate) fn fill(&mut self, table: impl Fn(Sym) -> Arc<KeyTable>) {
        for entry in &mut self.tables {
            *entry = table(entry.key);
        }
    }
}
