//! The node filters of spread constraints.

use crate::compile::classes::context::CompileContext;
use crate::compile::requirements::{ReqId, ReqSet};
use crate::compile::topology::{Groups, NodeFilter, NodeFilterId, TopologyKey};
use kerf_model::intern::Interner;
use kerf_model::pod::{PodShape, SpreadConstraint};
use kerf_model::taint::Toleration;

/// The node filters of a shape's spread constraints, by the policies of a constraint.
pub(super) struct SpreadNodeFilters {
    any_of: Vec<ReqId>,
    tolerations: Vec<Toleration>,
    /// The keys of required constraints, without the hostname.
    keys: Vec<TopologyKey>,
}

impl SpreadNodeFilters {
    pub(super) fn new(shape: &PodShape, context: &mut CompileContext<'_>, interner: &Interner) -> Self {
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
                any_of.push(context.req_sets.intern(set));
            }
        }
        let required = shape.spread.iter().filter(|constraint| constraint.required);
        let mut keys: Vec<TopologyKey> = required.map(|constraint| context.keys.intern(constraint.key)).collect();
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

    /// The filter of a constraint, or `None` where it counts every node.
    pub(super) fn of(
        &self,
        constraint: &SpreadConstraint,
        key: TopologyKey,
        groups: &mut Groups,
    ) -> Option<NodeFilterId> {
        let besides = self.keys.iter().filter(|other| constraint.required && **other != key);
        groups.intern_filter(NodeFilter {
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
