//! Amounts of resources, by name.

use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, Sym};
use kerf_model::node::Node;
use kerf_model::resources::Resources;
use std::collections::BTreeMap;

/// Amounts by the name of the resource, in the model's units: milli-cores of `cpu`, else bytes or counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Amounts<'a>(pub(crate) BTreeMap<&'a str, i64>);

impl<'a> Amounts<'a> {
    /// Reads amounts of the model.
    pub(crate) fn read(resources: &Resources, interner: &'a Interner) -> Self {
        Self(
            resources
                .iter()
                .map(|(name, amount)| (interner.text(name), amount))
                .collect(),
        )
    }

    /// The sum of several amounts.
    pub(crate) fn sum<'r>(all: impl IntoIterator<Item = &'r Resources>, interner: &'a Interner) -> Self {
        let mut sum = Self::default();
        for resources in all {
            sum.add(&Self::read(resources, interner));
        }
        sum
    }

    /// What there is of a resource; zero of one that is not named.
    pub(crate) fn of(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Adds amounts.
    pub(crate) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.0.insert(name, self.of(name).saturating_add(*amount));
        }
    }

    /// Takes amounts away; what is left may be negative.
    pub(crate) fn take(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.0.insert(name, self.of(name).saturating_sub(*amount));
        }
    }

    /// The resources of which these amounts want more than there is, with both amounts. What is not wanted is never short.
    pub(crate) fn short_of(&self, available: &Self) -> Vec<(&'a str, i64, i64)> {
        let wanted = self.0.iter().filter(|(_, amount)| **amount > 0);
        let compared = wanted.map(|(name, amount)| (*name, *amount, available.of(name)));
        compared.filter(|(_, wanted, available)| wanted > available).collect()
    }
}

/// What a node has left: what it can give to pods, less what its pods request. Negative where they request more.
pub(crate) fn available<'a>(node: &Node, interner: &'a Interner) -> Amounts<'a> {
    let mut left = Amounts::read(&node.allocatable, interner);
    left.take(&Amounts::read(&node.requested, interner));
    left
}

/// What a node has left of one resource, as [`available`] has it of all.
pub(crate) fn left_on(node: &Node, name: Sym) -> i64 {
    let of = |resources: &Resources| {
        resources
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(0, |(_, amount)| amount)
    };
    of(&node.allocatable).saturating_sub(of(&node.requested))
}

/// What a machine of a type, launched with an offering, can give to pods: capacity less overhead, where the offering may replace amounts
/// of either. Huge pages are taken from memory, which does not fall below zero for that.
pub(crate) fn allocatable<'a>(
    instance_type: &InstanceType,
    offering: &Offering,
    interner: &'a Interner,
) -> Amounts<'a> {
    let replaced = |own: &Resources, replacing: &Option<Box<Resources>>| {
        let mut all = Amounts::read(own, interner);
        if let Some(replacing) = replacing {
            all.0.extend(Amounts::read(replacing, interner).0);
        }
        all
    };
    let capacity = replaced(&instance_type.capacity, &offering.capacity_override);
    let overhead = replaced(&instance_type.overhead, &offering.overhead_override);
    let mut left = Amounts::default();
    for (name, amount) in &capacity.0 {
        left.0.insert(name, amount.saturating_sub(overhead.of(name)));
    }
    let pages = capacity.0.iter().filter(|(name, _)| name.starts_with("hugepages-"));
    let pages = pages.fold(0_i64, |sum, (_, amount)| sum.saturating_add(*amount));
    if pages > 0
        && let Some(memory) = left.0.get_mut("memory")
    {
        *memory = memory.saturating_sub(pages).max(0);
    }
    left
}
