//! The nodes that the spread constraints of a shape look at.

use crate::classes::Interned;
use crate::requirements::{ReqId, ReqSet};
use crate::topology::{Filter, FilterId, Groups, TopologyKey};
use kerf_model::intern::Interner;
use kerf_model::pod::{PodShape, SpreadConstraint};
use kerf_model::taint::Toleration;

/// The node filters of a shape's spread constraints, by policy.
pub(super) struct Filters {
    any_of: Vec<ReqId>,
    tolerations: Vec<Toleration>,
    /// Of required constraints.
    keys: Vec<TopologyKey>,
}

impl Filters {
    pub(super) fn new(shape: &PodShape, interned: &mut Interned<'_>, interner: &Interner) -> Self {
        let mut any_of = Vec::new();
        let unbound = shape.node_selector.is_empty() && shape.required_terms.is_empty();
        if !(shape.spread.is_empty() || unbound) {
            let none = [Vec::new()];
            let terms = if shape.required_terms.is_empty() {
                &none[..]
            } else {
                &shape.required_terms
            };
            for term in terms {
                let set = ReqSet::new(
                    shape.node_selector.iter().cloned().chain(term.iter().cloned()),
                    interner,
                );
                any_of.push(interned.req_sets.intern(set));
            }
        }
        let required = shape.spread.iter().filter(|constraint| constraint.required);
        let mut keys: Vec<TopologyKey> = required
            .map(|constraint| interned.keys.intern(constraint.key))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| *key != TopologyKey::Host);
        let soft = std::iter::once(Toleration::prefer_no_schedule());
        Self {
            any_of,
            tolerations: shape.tolerations.iter().cloned().chain(soft).collect(),
            keys,
        }
    }

    pub(super) fn of(&self, constraint: &SpreadConstraint, key: TopologyKey, groups: &mut Groups) -> Option<FilterId> {
        let besides = self.keys.iter().filter(|other| constraint.required && **other != key);
        groups.intern_filter(Filter {
            keys: besides.copied().collect(),
            any_of: if constraint.honor_node_affinity {
                self.any_of.clone()
            } else {
                Vec::new()
            },
            tolerations: constraint.honor_taints.then(|| self.tolerations.clone()),
        })
    }
}
