//! Taint sets, interned: nodes and pools that repel alike share a number.

use kerf_model::taint::{Effect, Taint};
use rustc_hash::FxHashMap;

/// The sets by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaintSets {
    pub(crate) list: Vec<Vec<Taint>>,
    ids: FxHashMap<Vec<Taint>, u32>,
}

impl TaintSets {
    /// Whether some taint of these sets repels softly.
    pub(crate) fn soft(&self, mut sets: impl Iterator<Item = usize>) -> bool {
        let soft = |taint: &Taint| taint.effect == Effect::PreferNoSchedule;
        sets.any(|set| self.list[set].iter().any(soft))
    }

    /// The number of a set.
    pub(crate) fn number(&mut self, taints: &[Taint]) -> u32 {
        if let Some(id) = self.ids.get(taints) {
            return *id;
        }
        let id = self.list.len() as u32;
        self.list.push(taints.to_vec());
        self.ids.insert(taints.to_vec(), id);
        id
    }
}
