//! Interned taint sets: nodes and pools with equal taints share one id.

use crate::dense::ids::{Id, IdVec};
use kerf_model::taint::{Effect, Taint};
use rustc_hash::FxHashMap;

/// The taints of a node or a pool.
pub(crate) type TaintSet = Vec<Taint>;
/// The id of a taint set.
pub(crate) type TaintSetId = Id<TaintSet>;

/// The interned taint sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaintSets {
    pub(crate) list: IdVec<TaintSet, TaintSet>,
    ids: FxHashMap<TaintSet, TaintSetId>,
}

impl TaintSets {
    /// Returns whether some of these sets has a `PreferNoSchedule` taint.
    pub(crate) fn soft(&self, mut sets: impl Iterator<Item = TaintSetId>) -> bool {
        let soft = |taint: &Taint| taint.effect == Effect::PreferNoSchedule;
        sets.any(|set| self.list[set].iter().any(soft))
    }

    /// The id of a taint set.
    pub(crate) fn intern(&mut self, taints: &[Taint]) -> TaintSetId {
        if let Some(id) = self.ids.get(taints) {
            return *id;
        }
        let id = self.list.push(taints.to_vec());
        self.ids.insert(taints.to_vec(), id);
        id
    }
}
