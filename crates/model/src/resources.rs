//! Amounts of resources, exact: `cpu` in milli-cores, everything else in its base unit (bytes, counts).

use crate::intern::{Interner, Sym, sym};
use smallvec::SmallVec;

/// A small map from resource name to amount, sorted by id and without duplicates. An absent resource counts as zero.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Resources(SmallVec<[(Sym, i64); 4]>);

impl Resources {
    /// No resources.
    pub fn new() -> Self {
        Self::default()
    }

    /// The amount of one resource, zero when absent.
    pub fn get(&self, name: Sym) -> i64 {
        self.find(name).and_then(|at| self.0.get(at)).map_or(0, |entry| entry.1)
    }

    /// Whether the resource is named at all, be it with zero.
    pub fn contains(&self, name: Sym) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: Sym) -> Option<usize> {
        self.0.binary_search_by_key(&name, |entry| entry.0).ok()
    }

    /// Sets one resource.
    pub fn set(&mut self, name: Sym, amount: i64) {
        match self.0.binary_search_by_key(&name, |entry| entry.0) {
            Ok(at) => {
                if let Some(entry) = self.0.get_mut(at) {
                    entry.1 = amount;
                }
            }
            Err(at) => self.0.insert(at, (name, amount)),
        }
    }

    /// The same with one resource set.
    #[must_use]
    pub fn with(mut self, name: Sym, amount: i64) -> Self {
        self.set(name, amount);
        self
    }

    /// Forgets one resource.
    pub fn remove(&mut self, name: Sym) {
        if let Some(at) = self.find(name) {
            self.0.remove(at);
        }
    }

    /// The entries by id.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Sym, i64)> + '_ {
        self.0.iter().copied()
    }

    /// Whether no resource is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds every entry of `other`, saturating.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            self.set(name, self.get(name).saturating_add(amount));
        }
    }

    /// Subtracts every entry of `other`, saturating; results may be negative (an overcommitted node).
    pub fn subtract(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            self.set(name, self.get(name).saturating_sub(amount));
        }
    }

    /// Raises every entry to at least that of `other`.
    pub fn max_with(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            let raised = if self.contains(name) {
                self.get(name).max(amount)
            } else {
                amount
            };
            self.set(name, raised);
        }
    }

    /// Whether every amount is at most that of `total`; false if any amount of `total` is negative (SCH-122).
    pub fn fits(&self, total: &Self) -> bool {
        total.iter().all(|(_, amount)| amount >= 0) && self.iter().all(|(name, amount)| amount <= total.get(name))
    }

    /// The entries ordered by resource name, as people and reports want them.
    pub fn sorted_by_name<'a>(&'a self, interner: &'a Interner) -> Vec<(&'a str, i64)> {
        let mut entries: Vec<_> = self
            .iter()
            .map(|(name, amount)| (interner.text(name), amount))
            .collect();
        entries.sort_unstable();
        entries
    }

    /// The amount of one resource as Kubernetes prints it: `cpu` in cores or milli-cores, `memory` in Mi where it divides, else plain.
    pub fn print(name: Sym, amount: i64) -> String {
        if name == sym::CPU {
            return if amount % 1000 == 0 {
                (amount / 1000).to_string()
            } else {
                format!("{amount}m")
            };
        }
        let binary = [
            (1i64 << 60, "Ei"),
            (1 << 50, "Pi"),
            (1 << 40, "Ti"),
            (1 << 30, "Gi"),
            (1 << 20, "Mi"),
            (1 << 10, "Ki"),
        ];
        if name == sym::MEMORY || name == sym::EPHEMERAL_STORAGE {
            for (unit, suffix) in binary {
                if amount != 0 && amount % unit == 0 {
                    return format!("{}{suffix}", amount / unit);
                }
            }
        }
        amount.to_string()
    }
}

impl FromIterator<(Sym, i64)> for Resources {
    fn from_iter<T: IntoIterator<Item = (Sym, i64)>>(iter: T) -> Self {
        let mut all = Self::new();
        for (name, amount) in iter {
            all.set(name, amount);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SCH-122, SCH-480
    #[test]
    fn a_negative_total_fits_nothing_and_zero_of_the_unknown_fits() {
        let gpu = Interner::default().intern("nvidia.com/gpu");
        let total = Resources::new().with(sym::CPU, 1000).with(sym::PODS, 5);
        assert!(Resources::new().with(sym::CPU, 1000).fits(&total));
        assert!(!Resources::new().with(sym::CPU, 1001).fits(&total));
        assert!(Resources::new().with(gpu, 0).fits(&total));
        assert!(!Resources::new().with(gpu, 1).fits(&total));
        let overcommitted = total.with(sym::MEMORY, -1);
        assert!(!Resources::new().with(sym::CPU, 1).fits(&overcommitted));
    }

    #[test]
    fn printing_keeps_the_customary_suffix() {
        assert_eq!(Resources::print(sym::CPU, 1500), "1500m");
        assert_eq!(Resources::print(sym::CPU, 2000), "2");
        assert_eq!(Resources::print(sym::MEMORY, 2 << 30), "2Gi");
        assert_eq!(Resources::print(sym::MEMORY, 1_000_001), "1000001");
    }
}
