//! Resource amounts with dense indexes: only resources that some pod or DaemonSet requests are part of the arithmetic.

use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::resources::Resources;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Amounts by dense resource index, in the model's units.
pub(crate) type Amounts = SmallVec<[i64; 4]>;

/// The index of each resource: cpu, memory, pods, then the others by name.
#[derive(Clone, Debug)]
pub(crate) struct ResourceIndex {
    pub(crate) names: Vec<Sym>,
    numbers: FxHashMap<Sym, usize>,
}

impl ResourceIndex {
    /// Indexes every resource that is requested with more than zero.
    pub(crate) fn new<'a>(requests: impl Iterator<Item = &'a Resources>, interner: &Interner) -> Self {
        let mut names = vec![sym::CPU, sym::MEMORY, sym::PODS];
        let mut numbers: FxHashMap<Sym, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        for (name, amount) in requests.flat_map(Resources::iter) {
            if amount > 0 && !numbers.contains_key(&name) {
                numbers.insert(name, 0);
                names.push(name);
            }
        }
        names[3..].sort_by_key(|name| interner.text(*name));
        for (at, name) in names.iter().enumerate() {
            numbers.insert(*name, at);
        }
        Self { names, numbers }
    }

    /// Returns whether every requested resource has an index.
    pub(crate) fn covers<'a>(&self, mut requests: impl Iterator<Item = &'a Resources>) -> bool {
        requests.all(|requests| {
            let mut asked = requests.iter();
            asked.all(|(name, amount)| amount <= 0 || self.numbers.contains_key(&name))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The amounts of these resources by index; resources without an index are dropped.
    pub(crate) fn dense(&self, resources: &Resources) -> Amounts {
        let mut amounts = self.zero();
        for (name, amount) in resources.iter() {
            if let Some(at) = self.numbers.get(&name) {
                amounts[*at] = amount;
            }
        }
        amounts
    }

    pub(crate) fn zero(&self) -> Amounts {
        SmallVec::from_elem(0, self.len())
    }
}

/// Adds `other`, saturating.
pub(crate) fn add(amounts: &mut Amounts, other: &[i64]) {
    for (amount, more) in amounts.iter_mut().zip(other) {
        *amount = amount.saturating_add(*more);
    }
}

/// Subtracts `other`, saturating.
pub(crate) fn subtract(amounts: &mut Amounts, other: &[i64]) {
    for (amount, less) in amounts.iter_mut().zip(other) {
        *amount = amount.saturating_sub(*less);
    }
}

/// Returns whether every requested amount is at most the total. A request of zero fits a negative total.
pub(crate) fn fits(request: &[i64], total: &[i64]) -> bool {
    request
        .iter()
        .zip(total)
        .all(|(want, have)| *want <= *have || *want == 0)
}
