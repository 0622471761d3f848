//! Interned taint sets: nodes and pools with equal taints share one id.

use kerf_model::taint::{Effect, Taint};
use rustc_hash::FxHashMap;

/// The interned taint sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaintSets {
    pub(crate) list: Vec<Vec<Taint>>,
    ids: FxHashMap<Vec<Taint>, u32>,
}

impl TaintSets {
    /// Returns whether some of these sets has a `PreferNoSchedule` taint.
    pub(crate) fn soft(&self, mut sets: impl Iterator<Item = usize>) -> bool {
        let soft = |taint: &Taint| taint.effect == Effect::PreferNoSchedule;
        sets.any(|set| self.list[set].iter().any(soft))
    }

    /// The id of a taint set.
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
