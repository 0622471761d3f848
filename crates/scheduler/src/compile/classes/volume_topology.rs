//! The nodes from which volumes can be reached (section 14.3 of `docs/behaviour/scheduling.md`).

use crate::compile::requirements::{ReqId, ReqSet, ReqSets};
use kerf_model::intern::{Interner, Sym};
use kerf_model::pod::PodVolume;
use rustc_hash::FxHashSet;

/// The nodes from which the volumes of a class can be reached, as requirement sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeTopology {
    /// One set of each list must hold (SCH-180). No key occurs in two lists. Empty where volumes do not constrain.
    pub(crate) alternatives: Vec<Vec<ReqId>>,
    /// The last combination of all lists, which reasons refer to.
    pub(crate) last: Option<ReqId>,
    /// Whether there are too many alternatives to evaluate.
    pub(crate) too_many: bool,
}

impl VolumeTopology {
    /// Compiles the topology of some volumes.
    pub(super) fn of(volumes: &[PodVolume], interner: &Interner, req_sets: &mut ReqSets) -> Self {
        let Some(alternatives) = alternatives(volumes, interner) else {
            return Self {
                too_many: true,
                ..Self::default()
            };
        };
        let lasts = || alternatives.iter().filter_map(|sets| sets.last());
        let mut last = ReqSet::new(lasts().flat_map(ReqSet::parts).cloned(), interner);
        last.contradiction = last.contradiction.or(lasts().find_map(|set| set.contradiction));
        let last = (!alternatives.is_empty()).then(|| req_sets.intern(last));
        let mut numbered = |sets: Vec<ReqSet>| sets.into_iter().map(|set| req_sets.intern(set)).collect();
        Self {
            alternatives: alternatives.into_iter().map(&mut numbered).collect(),
            last,
            too_many: false,
        }
    }
}

/// The largest number of combinations of alternatives over the same keys. Real volumes have a few (one per zone); the bound protects
/// against hostile input.
const CHOICES_MAX: usize = 4096;

/// The alternatives of the volumes. Lists with a common key are multiplied (SCH-180): contradictory combinations are dropped unless all
/// are, and equal ones are kept once, so that the number of zones bounds their number. Returns `None` where there are too many.
fn alternatives(volumes: &[PodVolume], interner: &Interner) -> Option<Vec<Vec<ReqSet>>> {
    let mut lists: Vec<(FxHashSet<Sym>, Vec<ReqSet>)> = Vec::new();
    for volume in volumes.iter().filter(|volume| !volume.topology.is_empty()) {
        let alternatives = volume.topology.iter();
        let mut sets: Vec<ReqSet> = alternatives
            .map(|term| ReqSet::new(term.iter().cloned(), interner))
            .collect();
        let mut keys: FxHashSet<Sym> = volume.topology.iter().flatten().map(|part| part.key).collect();
        let (related, others): (Vec<_>, Vec<_>) = lists.into_iter().partition(|(theirs, _)| !theirs.is_disjoint(&keys));
        lists = others;
        // Earlier volumes decide first.
        for (theirs, before) in related.into_iter().rev() {
            keys.extend(theirs);
            sets = product(&before, &sets, interner)?;
        }
        lists.push((keys, sets));
    }
    Some(lists.into_iter().map(|(_, sets)| sets).collect())
}

/// Every set of `a` combined with every set of `b`. If all combinations contradict themselves, one of them is kept: no node satisfies it.
fn product(a: &[ReqSet], b: &[ReqSet], interner: &Interner) -> Option<Vec<ReqSet>> {
    let mut seen: FxHashSet<ReqSet> = FxHashSet::default();
    let (mut sets, mut impossible) = (Vec::new(), None);
    for (a, b) in a.iter().flat_map(|a| b.iter().map(move |b| (a, b))) {
        let parts = a.parts().chain(b.parts()).cloned();
        let mut both = ReqSet::new(parts, interner);
        both.contradiction = both.contradiction.or(a.contradiction).or(b.contradiction);
        if both.contradiction.is_some() {
            impossible = Some(both);
        } else if seen.insert(both.clone()) {
            sets.push(both);
            if sets.len() > CHOICES_MAX {
                return None;
            }
        }
    }
    if sets.is_empty() {
        sets.extend(impossible);
    }
    Some(sets)
}
