//! Where volumes can be reached from (14.3).

use crate::requirements::{ReqId, ReqSet, ReqSets};
use kerf_model::intern::{Interner, Sym};
use kerf_model::pod::PodVolume;
use rustc_hash::FxHashSet;

/// The places the volumes of a class can be reached from, as requirement sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// Of each list any suffices (SCH-180), and lists have no key in common. Empty where volumes do not constrain.
    pub(crate) choices: Vec<Vec<ReqId>>,
    /// The last combination of all lists, which is the one reasons speak of.
    pub(crate) last: Option<ReqId>,
    /// The alternatives are too many to look at.
    pub(crate) unclear: bool,
}

impl Reach {
    pub(super) fn of(volumes: &[PodVolume], interner: &Interner, req_sets: &mut ReqSets) -> Self {
        let Some(choices) = alternatives(volumes, interner) else {
            return Self {
                unclear: true,
                ..Self::default()
            };
        };
        let lasts = || choices.iter().filter_map(|sets| sets.last());
        let mut last = ReqSet::new(lasts().flat_map(ReqSet::parts).cloned(), interner);
        last.contradiction = last.contradiction.or(lasts().find_map(|set| set.contradiction));
        let last = (!choices.is_empty()).then(|| req_sets.intern(last));
        let mut numbered = |sets: Vec<ReqSet>| sets.into_iter().map(|set| req_sets.intern(set)).collect();
        Self {
            choices: choices.into_iter().map(&mut numbered).collect(),
            last,
            unclear: false,
        }
    }
}

/// More distinct combinations of alternatives over the same keys than this are not looked at: nobody writes them.
const CHOICES_MAX: usize = 4096;

/// The alternatives of the volumes, those over common keys multiplied (SCH-180): compatible combinations only where there are any, equal ones
/// once, so that their number is bounded by that of the places they name. Nothing where they are too many.
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

/// Every set of `a` with every one of `b`. If all contradict each other, one of them stands for all: nothing satisfies it.
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
