//! Which groups a class is bound by, counted in or repelled by.

use crate::classes::{Class, Classes, Variant};
use crate::topology::{FilterId, GroupId, GroupKind, Groups, TopologyKey, selects};
use kerf_model::snapshot::Snapshot;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

impl Classes {
    /// Matches every group against every distinct label profile, once.
    pub(crate) fn match_groups(&mut self, snapshot: &Snapshot, groups: &Groups) {
        let selected: Vec<Vec<GroupId>> = self
            .profiles
            .iter()
            .map(|pod| {
                let covers = |id: &GroupId| {
                    let identity = &groups.list[*id as usize].identity;
                    selects(snapshot, &identity.selected, pod)
                };
                (0..groups.list.len() as GroupId).filter(covers).collect()
            })
            .collect();
        let inverse = |id: &GroupId| groups.list[*id as usize].kind() == GroupKind::Inverse;
        let only = |mine: &Vec<GroupId>, wanted: bool| -> Arc<[GroupId]> {
            mine.iter().copied().filter(|id| inverse(id) == wanted).collect()
        };
        let repelled_by: Vec<_> = selected.iter().map(|mine| only(mine, true)).collect();
        let counted_in: Vec<_> = selected.iter().map(|mine| only(mine, false)).collect();
        let mut settled: FxHashMap<(u32, u32), Settled> = FxHashMap::default();
        for class in &mut self.list {
            let profile = class.profile as usize;
            class.repelled_by = Arc::clone(&repelled_by[profile]);
            class.counted_in = Arc::clone(&counted_in[profile]);
            let alike = settled.entry((class.profile, class.demands));
            (class.variants, class.settles, class.filters) = alike
                .or_insert_with(|| {
                    let filters = filters(class, groups);
                    let settles = settles(class, &filters, groups);
                    (own_selected(class, &selected[profile]), settles, (&*filters).into())
                })
                .clone();
        }
    }
}

/// Numbers of which there are few.
type Few = SmallVec<[u32; 16]>;

/// The readings of a class that these groups select.
fn own_selected(class: &Class, selected: &[GroupId]) -> Arc<[Variant]> {
    let mut owned = class.variants.iter().flat_map(|variant| &variant.owned);
    if !owned.any(|owned| selected.contains(&owned.group)) {
        return Arc::clone(&class.variants);
    }
    let mut variants = class.variants.to_vec();
    for owned in variants.iter_mut().flat_map(|variant| &mut variant.owned) {
        owned.selects_self = selected.contains(&owned.group);
    }
    variants.into()
}

/// What classes of one profile and equal demands share: readings, and the keys and filters they settle.
type Settled = (Arc<[Variant]>, Arc<[u32]>, Arc<[FilterId]>);

/// The keys on which a constraint that somebody requires counts or binds the class. An unsettled domain there would block others (SCH-233,
/// SCH-238), or let the pods come up where they upset a spread that was planned without them.
fn settles(class: &Class, filters: &[FilterId], groups: &Groups) -> Arc<[u32]> {
    let binding = class.counted_in.iter().chain(class.repels.iter());
    let binding = binding
        .chain(class.repelled_by.iter())
        .map(|id| &groups.list[*id as usize])
        .filter(|group| group.required);
    let besides = filters.iter().flat_map(|id| &groups.filters[*id as usize].keys);
    let mut keys: Few = binding
        .map(|group| group.identity.key)
        .chain(besides.copied())
        .filter_map(TopologyKey::table)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    (&*keys).into()
}

/// The node filters by which required constraints count the class.
fn filters(class: &Class, groups: &Groups) -> Few {
    let counting = class.counted_in.iter().map(|id| &groups.list[*id as usize]);
    let mut filters: Few = counting
        .filter(|group| group.required)
        .filter_map(|group| group.identity.filter)
        .collect();
    filters.sort_unstable();
    filters.dedup();
    filters
}
