//! The places pods can be at: nodes and planned launches, with the domains they are in.

use crate::existing;
use crate::launch::NamedLaunch;
use crate::outcome::Outcome;
use crate::rules::expression::selects;
use crate::rules::taint;
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::pod::{Pod, SpreadConstraint};
use kerf_model::taint::Taint;
use std::collections::BTreeSet;

/// One value of a topology key. A launch has no hostname yet, but it will be one of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Domain<'a> {
    Value(&'a str),
    Launch(usize),
}

/// A node, or a launch that became its cheapest offering.
#[derive(Clone, Copy)]
pub(crate) enum Site<'a> {
    Node(&'a Node),
    Launch {
        number: usize,
        named: &'a NamedLaunch<'a>,
        outcome: Option<Outcome<'a>>,
    },
}

impl<'a> Site<'a> {
    fn label<'i>(&self, key: &str, interner: &'i Interner) -> Option<&'i str> {
        match self {
            Self::Node(node) => existing::label(node, key, interner),
            Self::Launch { outcome, .. } => outcome.as_ref()?.label(key, interner).only(),
        }
    }

    /// The domain the site is in; `None` where it lacks the label.
    pub(crate) fn domain<'i>(&self, key: Sym, interner: &'i Interner) -> Option<Domain<'i>> {
        match self {
            Self::Launch { number, .. } if key == sym::HOSTNAME => Some(Domain::Launch(*number)),
            Self::Node(_) | Self::Launch { .. } => self.label(interner.text(key), interner).map(Domain::Value),
        }
    }

    /// Every domain the site may end in: one for nodes, for launches that of any type and offering still open.
    pub(crate) fn possible<'i>(&self, key: Sym, interner: &'i Interner) -> BTreeSet<Domain<'i>> {
        let named = match self {
            Self::Launch { named, .. } if key != sym::HOSTNAME => named,
            Self::Node(_) | Self::Launch { .. } => return self.domain(key, interner).into_iter().collect(),
        };
        let text = interner.text(key);
        let own = named.own_label(text, interner);
        if let Some(value) = own.only() {
            return BTreeSet::from([Domain::Value(value)]);
        }
        let outcomes = named.outcomes();
        let listed = outcomes.filter_map(|outcome| outcome.label(text, interner).listed());
        listed.flatten().map(Domain::Value).collect()
    }

    fn taints(&self) -> &'a [Taint] {
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
            && (!constraint.honor_taints || taint::first_refusing(self.taints(), &pod.shape.tolerations).is_none())
    }
}
