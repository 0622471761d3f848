//! The places pods can be at: nodes and planned launches, with the domains they are in.

use crate::existing;
use crate::id_vec::{Id, IdVec};
use crate::launch::NamedLaunch;
use crate::outcome::Outcome;
use crate::rules::expression::selects;
use crate::rules::taint;
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::pod::{Pod, SpreadConstraint};
use kerf_model::taint::Taint;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One value of a topology key. A launch has no hostname yet, but it will be one of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Domain<'a> {
    Value(&'a str),
    Launch(usize),
}

/// The sort of ids that sites have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Sites {}

pub(crate) type SiteId = Id<Sites>;
pub(crate) type SiteVec<T> = IdVec<Sites, T>;

/// The domains of one topology key that a site may end in.
#[derive(Clone, Debug)]
pub(crate) enum PossibleDomains<'a> {
    /// It lacks the label.
    None,
    One(Domain<'a>),
    /// Two or more.
    Several(BTreeSet<Domain<'a>>),
}

impl<'a> PossibleDomains<'a> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Domain<'a>> {
        let (one, several) = match self {
            Self::None => (None, None),
            Self::One(domain) => (Some(domain), None),
            Self::Several(all) => (None, Some(all)),
        };
        one.into_iter().chain(several.into_iter().flatten()).copied()
    }
}

/// The domains of sites, by topology key. Each key is looked at once.
pub(crate) struct DomainsByKey<'s, 'a> {
    sites: &'s SiteVec<Site<'s>>,
    interner: &'a Interner,
    of_site: fn(&Site<'s>, Sym, &'a Interner) -> PossibleDomains<'a>,
    known: BTreeMap<Sym, Arc<SiteVec<PossibleDomains<'a>>>>,
}

impl<'s, 'a> DomainsByKey<'s, 'a> {
    fn new(
        sites: &'s SiteVec<Site<'s>>,
        interner: &'a Interner,
        of_site: fn(&Site<'s>, Sym, &'a Interner) -> PossibleDomains<'a>,
    ) -> Self {
        let known = BTreeMap::new();
        Self {
            sites,
            interner,
            of_site,
            known,
        }
    }

    /// All domains that sites may end in.
    pub(crate) fn of_every_outcome(sites: &'s SiteVec<Site<'s>>, interner: &'a Interner) -> Self {
        Self::new(sites, interner, Site::possible)
    }

    /// The domains of launches that become their cheapest offering.
    pub(crate) fn as_cheapest(sites: &'s SiteVec<Site<'s>>, interner: &'a Interner) -> Self {
        Self::new(sites, interner, |site, key, interner| {
            site.domain(key, interner)
                .map_or(PossibleDomains::None, PossibleDomains::One)
        })
    }

    pub(crate) fn of(&mut self, key: Sym) -> Arc<SiteVec<PossibleDomains<'a>>> {
        let possible = || Arc::new(self.sites.map(|site| (self.of_site)(site, key, self.interner)));
        Arc::clone(self.known.entry(key).or_insert_with(possible))
    }
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
    pub(crate) fn possible<'i>(&self, key: Sym, interner: &'i Interner) -> PossibleDomains<'i> {
        let named = match self {
            Self::Launch { named, .. } if key != sym::HOSTNAME => named,
            Self::Node(_) | Self::Launch { .. } => {
                let domain = self.domain(key, interner);
                return domain.map_or(PossibleDomains::None, PossibleDomains::One);
            }
        };
        let text = interner.text(key);
        let own = named.own_label(text, interner);
        if let Some(value) = own.only() {
            return PossibleDomains::One(Domain::Value(value));
        }
        let outcomes = named.outcomes();
        let listed = outcomes.filter_map(|outcome| outcome.label(text, interner).listed());
        let all: BTreeSet<Domain<'_>> = listed.flatten().map(Domain::Value).collect();
        match all.first() {
            None => PossibleDomains::None,
            Some(only) if all.len() == 1 => PossibleDomains::One(*only),
            Some(_) => PossibleDomains::Several(all),
        }
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
