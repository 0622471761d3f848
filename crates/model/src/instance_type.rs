//! Instance types, their offerings, and catalogues of them.

use crate::intern::{Sym, sym};
use crate::price::Price;
use crate::requirement::Requirements;
use crate::resources::Resources;
use std::sync::Arc;

/// A kind of machine a provider can launch (SCH-126).
#[derive(Clone, PartialEq, Debug)]
pub struct InstanceType {
    /// The provider's name for it.
    pub name: Sym,
    /// Its labels as requirements, with every well-known label.
    pub requirements: Requirements,
    /// What it has.
    pub capacity: Resources,
    /// What kubelet, system and eviction threshold reserve of the capacity.
    pub overhead: Resources,
    /// Zones, capacity types and prices it is offered with.
    pub offerings: Vec<Offering>,
    /// Whether an overlay set a price of it (SCH-373).
    pub price_overlaid: bool,
    /// Whether an overlay set a capacity of it (SCH-373).
    pub capacity_overlaid: bool,
}

/// One way to launch an instance type.
#[derive(Clone, PartialEq, Debug)]
pub struct Offering {
    /// At least zone and capacity type.
    pub requirements: Requirements,
    /// What an hour costs.
    pub price: Price,
    /// Whether it can be launched now.
    pub available: bool,
    /// The capacity reservation behind it, for reserved ones.
    pub reservation: Option<Reservation>,
    /// Capacity that replaces the type's, per resource (SCH-128). On the heap, because few of many offerings have one.
    pub capacity_override: Option<Box<Resources>>,
    /// Overhead that replaces the type's, per resource (SCH-128).
    pub overhead_override: Option<Box<Resources>>,
}

/// A capacity reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// Its id: offerings with the same id share the capacity.
    pub id: Sym,
    /// Instances left in it.
    pub capacity: u32,
}

impl InstanceType {
    /// The capacity of a machine of this type with one of its offerings (SCH-128).
    pub fn capacity_of(&self, offering: &Offering) -> Resources {
        overridden(&self.capacity, offering.capacity_override.as_deref())
    }

    /// What pods can use of such a machine (SCH-124, SCH-128).
    pub fn allocatable_of(&self, offering: &Offering, is_huge_pages: impl Fn(Sym) -> bool) -> Resources {
        let overhead = overridden(&self.overhead, offering.overhead_override.as_deref());
        allocatable(&self.capacity_of(offering), &overhead, is_huge_pages)
    }
}

/// Amounts of a type with those that replace some of them.
pub fn overridden(own: &Resources, by: Option<&Resources>) -> Resources {
    let mut all = own.clone();
    for (name, amount) in by.into_iter().flat_map(Resources::iter) {
        all.set(name, amount);
    }
    all
}

impl Offering {
    /// The single value of a key, such as its zone.
    pub fn value(&self, key: Sym) -> Option<Sym> {
        self.requirements.get(key)?.single()
    }

    /// The zone.
    pub fn zone(&self) -> Option<Sym> {
        self.value(sym::ZONE)
    }

    /// `on-demand`, `spot` or `reserved`.
    pub fn capacity_type(&self) -> Option<Sym> {
        self.value(sym::CAPACITY_TYPE)
    }
}

/// Capacity less overhead, for the resources of the capacity. Huge pages are taken off memory, which stays at least zero (SCH-124).
pub fn allocatable(capacity: &Resources, overhead: &Resources, is_huge_pages: impl Fn(Sym) -> bool) -> Resources {
    let mut left: Resources = capacity
        .iter()
        .map(|(name, amount)| (name, amount.saturating_sub(overhead.get(name))))
        .collect();
    let huge = capacity
        .iter()
        .filter(|(name, _)| is_huge_pages(*name))
        .fold(0i64, |sum, (_, a)| sum.saturating_add(a));
    if huge > 0 && left.contains(sym::MEMORY) {
        left.set(sym::MEMORY, left.get(sym::MEMORY).saturating_sub(huge).max(0));
    }
    left
}

/// The instance types of one or more pools; pools that share a catalogue share the index built over it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Catalogue {
    /// The types in the provider's order.
    pub types: Vec<InstanceType>,
}

impl Catalogue {
    /// The most a machine may have per resource whose type is one of these rows, as limits count it (SCH-148).
    pub fn capacity_max(&self, rows: impl IntoIterator<Item = u32>) -> Resources {
        let mut most = Resources::new();
        for kind in rows.into_iter().filter_map(|row| self.types.get(row as usize)) {
            most.max_with(&kind.capacity);
        }
        most
    }
}

/// Why a pool has no usable catalogue (SCH-139).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CatalogueFault {
    /// NodeOverlays were not evaluated for the pool yet (SCH-374); skip it quietly.
    #[error("awaiting evaluation of node overlays")]
    AwaitingOverlays,
    /// The provider failed; the text says how.
    #[error("{0}")]
    Provider(Arc<str>),
    /// The provider returned no type at all.
    #[error("no instance types found")]
    Empty,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intern::Interner;

    // SCH-148
    #[test]
    fn a_machine_of_several_types_may_have_the_most_of_each_resource() {
        let interner = Interner::default();
        let kind = |name: &str, cpu, memory| InstanceType {
            name: interner.intern(name),
            requirements: Requirements::default(),
            capacity: Resources::new().with(sym::CPU, cpu).with(sym::MEMORY, memory),
            overhead: Resources::new(),
            offerings: Vec::new(),
            price_overlaid: false,
            capacity_overlaid: false,
        };
        let catalogue = Catalogue {
            types: vec![kind("a", 1, 8), kind("b", 2, 4), kind("c", 9, 9)],
        };
        let most = Resources::new().with(sym::CPU, 2).with(sym::MEMORY, 8);
        assert_eq!(catalogue.capacity_max([0, 1, 7]), most);
        assert_eq!(catalogue.capacity_max([]), Resources::new());
    }
}
