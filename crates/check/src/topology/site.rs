//! The places pods can be at: nodes and planned launches, with the domains they are in.

use crate::existing;
use crate::launch::Named;
use crate::matching::{repelling, selects};
use crate::outcome::Outcome;
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::pod::{Pod, SpreadConstraint};
use std::collections::BTreeSet;

/// One value of a topology key. A launch has no hostname yet, but it will be one of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Domain {
    Value(Sym),
    Launch(usize),
}

/// A node, or a launch that became its cheapest offering.
#[derive(Clone, Copy)]
pub(crate) enum Site<'a> {
    Node(&'a Node),
    Launch {
        number: usize,
        named: &'a Named<'a>,
        outcome: Option<Outcome<'a>>,
    },
}

impl<'a> Site<'a> {
    fn label(&self, key: Sym, interner: &Interner) -> Option<Sym> {
        match self {
            Self::Node(node) => existing::label(node, key),
            Self::Launch { outcome, .. } => outcome.as_ref()?.label(key, interner)?.single(),
        }
    }

    pub(crate) fn domain(&self, key: Sym, interner: &Interner) -> Option<Domain> {
        match self {
            Self::Launch { number, .. } if key == sym::HOSTNAME => Some(Domain::Launch(*number)),
            _ => self.label(key, interner).map(Domain::Value),
        }
    }

    /// Every domain the site may end in: one for nodes, for launches that of any type and offering still open.
    pub(crate) fn possible(&self, key: Sym, interner: &Interner) -> BTreeSet<Domain> {
        let pinned = match self {
            Self::Node(_) => self.domain(key, interner),
            Self::Launch { .. } if key == sym::HOSTNAME => self.domain(key, interner),
            Self::Launch { named, .. } => {
                let own = named.launch.requirements.get(key);
                match own.and_then(kerf_model::requirement::Requirement::single) {
                    Some(value) => Some(Domain::Value(value)),
                    None => {
                        let open = named.outcomes().filter_map(|outcome| outcome.label(key, interner));
                        let plain = open.filter(|open| !open.complement);
                        return plain.flat_map(|open| open.values).map(Domain::Value).collect();
                    }
                }
            }
        };
        pinned.into_iter().collect()
    }

    fn taints(&self) -> &'a [kerf_model::taint::Taint] {
        match *self {
            Self::Node(node) => &node.taints,
            Self::Launch { named, .. } => &named.pool.taints,
        }
    }

    /// A site that is going away counts the pods it has but opens no domain of its own.
    pub(crate) fn leaving(&self) -> bool {
        matches!(self, Self::Node(node) if node.marked_for_deletion)
    }

    /// Whether a pod's spread constraint counts the pods here: the site has every key the pod spreads over, and the inclusion policies
    /// (SCH-205) let it in.
    pub(crate) fn counts_for(&self, pod: &Pod, constraint: &SpreadConstraint, interner: &Interner) -> bool {
        let mut required = pod.shape.spread.iter().filter(|c| c.required);
        required.all(|c| self.domain(c.key, interner).is_some())
            && (!constraint.honor_node_affinity || selects(&pod.shape, interner, |key| self.label(key, interner)))
            && (!constraint.honor_taints || repelling(self.taints(), &pod.shape.tolerations).is_none())
    }
}
