//! Requirements against the labels of existing nodes (SCH-101), where no label may stay undefined (SCH-102).

use crate::compile::requirements::requirements_overlap;
use crate::dense::bits::Bits;
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
    values: Vec<(Sym, Vec<u32>)>,
    without: Bits,
}

impl LabelIndex {
    /// Indexes the targets `0..len` by their value, which `value` returns.
    pub(crate) fn new(len: usize, value: impl Fn(usize) -> Option<Sym>) -> Self {
        let mut entries: Vec<(Sym, u32)> = Vec::with_capacity(len);
        let mut without = Bits::default();
        for at in 0..len {
            match value(at) {
                Some(value) => entries.push((value, at as u32)),
                None => without.insert(at),
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

    fn with(&self, value: Sym) -> &[u32] {
        let found = self.values.binary_search_by_key(&value, |entry| entry.0);
        found.map_or(&[], |at| &self.values[at].1)
    }

    /// Removes the targets that do not meet a requirement.
    pub(crate) fn keep(&self, mask: &mut Bits, want: &Requirement, interner: &Interner) {
        if want.complement && want.gte.is_none() && want.lte.is_none() {
            for at in want.values.iter().flat_map(|value| self.with(*value)) {
                mask.remove(*at as usize);
            }
            if !want.admits_absence() {
                mask.and_not(&self.without);
            }
            return;
        }
        let mut matching = if want.admits_absence() {
            self.without.clone()
        } else {
            Bits::default()
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

fn insert(set: &mut Bits, targets: &[u32]) {
    for at in targets {
        set.insert(*at as usize);
    }
}
