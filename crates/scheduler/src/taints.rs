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
    /// Whether some taint repels softly.
    pub(crate) fn soft(&self) -> bool {
        let mut taints = self.list.iter().flatten();
        taints.any(|taint| taint.effect == Effect::PreferNoSchedule)
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
