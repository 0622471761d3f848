//! Which groups constrain a class, count it, or repel it.

use crate::compile::classes::class::{CompiledLevel, PodClass};
use crate::compile::classes::compile::PodClasses;
use crate::compile::topology::{
    GroupId, GroupKind, Groups, KeyId, KeyTable, NodeFilter, NodeFilterId, TopologyKey, selects,
};
use crate::dense::ids::Id;
use kerf_model::snapshot::Snapshot;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

impl PodClasses {
    /// Matches every group against every distinct label profile, once.
    pub(crate) fn match_groups(&mut self, snapshot: &Snapshot, groups: &Groups) {
        let selected: Vec<Vec<GroupId>> = self
            .profiles
            .iter()
            .map(|pod| {
                let covers = |id: &GroupId| {
                    let identity = &groups.list[*id].identity;
                    selects(snapshot, &identity.selected, pod)
                };
                groups.list.ids().filter(covers).collect()
            })
            .collect();
        let inverse = |id: &GroupId| groups.list[*id].kind() == GroupKind::Inverse;
        let only = |mine: &Vec<GroupId>, wanted: bool| -> Arc<[GroupId]> {
            mine.iter().copied().filter(|id| inverse(id) == wanted).collect()
        };
        let repelling_groups: Vec<_> = selected.iter().map(|mine| only(mine, true)).collect();
        let counting_groups: Vec<_> = selected.iter().map(|mine| only(mine, false)).collect();
        let mut matched: FxHashMap<(u32, u32), GroupMatch> = FxHashMap::default();
        for class in &mut self.list {
            let profile = class.profile as usize;
            class.repelling_groups = Arc::clone(&repelling_groups[profile]);
            class.counting_groups = Arc::clone(&counting_groups[profile]);
            let alike = matched.entry((class.profile, class.constraints));
            (class.levels, class.fixed_keys, class.filters) = alike
                .or_insert_with(|| {
                    let filters = filters(class, groups);
                    let fixed_keys = fixed_keys(class, &filters, groups);
                    (
                        mark_self_selecting(class, &selected[profile]),
                        fixed_keys,
                        (&*filters).into(),
                    )
                })
                .clone();
        }
    }
}

/// A short list of ids.
type Few<T> = SmallVec<[Id<T>; 16]>;

/// The levels of a class, with the groups marked that select the pods themselves.
fn mark_self_selecting(class: &PodClass, selected: &[GroupId]) -> Arc<[CompiledLevel]> {
    let mut own_group = class.levels.iter().flat_map(|level| &level.own_groups);
    if !own_group.any(|own_group| selected.contains(&own_group.group)) {
        return Arc::clone(&class.levels);
    }
    let mut levels = class.levels.to_vec();
    for own_group in levels.iter_mut().flat_map(|level| &mut level.own_groups) {
        own_group.selects_self = selected.contains(&own_group.group);
    }
    levels.into()
}

/// What classes with equal profile and constraints share: levels, keys to fix, filters to decide.
type GroupMatch = (Arc<[CompiledLevel]>, Arc<[KeyId]>, Arc<[NodeFilterId]>);

/// The keys on which a required constraint counts or constrains the class. An undecided domain would block other pods (SCH-233, SCH-238),
/// or a pod could start in a domain that violates a spread planned without it.
fn fixed_keys(class: &PodClass, filters: &[NodeFilterId], groups: &Groups) -> Arc<[KeyId]> {
    let binding = class.counting_groups.iter().chain(class.inverse_groups.iter());
    let binding = binding
        .chain(class.repelling_groups.iter())
        .map(|id| &groups.list[*id])
        .filter(|group| group.required);
    let besides = filters.iter().flat_map(|id| &groups.filters[*id].keys);
    let mut keys: Few<KeyTable> = binding
        .map(|group| group.identity.key)
        .chain(besides.copied())
        .filter_map(TopologyKey::table)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    (&*keys).into()
}

/// The node filters of required constraints that count the class.
fn filters(class: &PodClass, groups: &Groups) -> Few<NodeFilter> {
    let counting = class.counting_groups.iter().map(|id| &groups.list[*id]);
    let mut filters: Few<NodeFilter> = counting
        .filter(|group| group.required)
        .filter_map(|group| group.identity.filter)
        .collect();
    filters.sort_unstable();
    filters.dedup();
    filters
}
