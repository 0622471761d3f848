//! Requirements against the labels of existing nodes (SCH-101), where no label may stay undefined (SCH-102).

use crate::compile::requirements::requirements_overlap;
use crate::compile::targets::{Target, TargetId};
use crate::dense::id_set::IdSet;
use kerf_model::intern::{Interner, Sym};
use kerf_model::node::Node;
use kerf_model::requirement::{Requirement, Requirements};

/// Returns whether the labels of a node meet all requirements.
pub(crate) fn labels_satisfy(node: &Node, wanted: &Requirements, interner: &Interner) -> bool {
    wanted.iter().all(|want| match node.label(want.key) {
        Some(value) => requirements_overlap(&Requirement::is(want.key, value), want, interner),
        None => want.admits_absence(),
    })
}

/// The targets by their value of one label key.
#[derive(Debug)]
pub(crate) struct LabelIndex {
    /// Values in the order of their ids, each with its targets ascending.
    values: Vec<(Sym, Vec<TargetId>)>,
    without: IdSet<Target>,
}

impl LabelIndex {
    /// Indexes targets by their value.
    pub(crate) fn new(targets: impl Iterator<Item = (TargetId, Option<Sym>)>) -> Self {
        let mut entries: Vec<(Sym, TargetId)> = Vec::with_capacity(targets.size_hint().0);
        let mut without = IdSet::default();
        for (target, value) in targets {
            match value {
                Some(value) => entries.push((value, target)),
                None => without.insert(target),
            }
        }
        entries.sort_unstable();
        let values = entries.chunk_by(|a, b| a.0 == b.0);
        let values = values.map(|chunk| (chunk[0].0, chunk.iter().map(|entry| entry.1).collect()));
        Self {
            values: values.collect(),
            without,
        }
    }

    fn with(&self, value: Sym) -> &[TargetId] {
        let found = self.values.binary_search_by_key(&value, |entry| entry.0);
        found.map_or(&[], |at| &self.values[at].1)
    }

    /// Removes the targets that do not meet a requirement.
    pub(crate) fn keep(&self, mask: &mut IdSet<Target>, want: &Requirement, interner: &Interner) {
        if want.complement && want.gte.is_none() && want.lte.is_none() {
            for target in want.values.iter().flat_map(|value| self.with(*value)) {
                mask.remove(*target);
            }
            if !want.admits_absence() {
                mask.and_not(&self.without);
            }
            return;
        }
        let mut matching = if want.admits_absence() {
            self.without.clone()
        } else {
            IdSet::default()
        };
        if want.complement {
            let meets = |value: Sym| requirements_overlap(&Requirement::is(want.key, value), want, interner);
            let values = self.values.iter().filter(|(value, _)| meets(*value));
            values.for_each(|(_, targets)| insert(&mut matching, targets));
        } else {
            want.values
                .iter()
                .for_each(|value| insert(&mut matching, self.with(*value)));
        }
        mask.and(&matching);
    }
}

fn insert(set: &mut IdSet<Target>, targets: &[TargetId]) {
    for target in targets {
        set.insert(*target);
    }
}
