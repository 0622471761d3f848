//! Where the pods are that one pod's affinity terms select, as pods are bound.

use crate::rules::selector::term_selects;
use crate::topology::site::{Domain, PossibleDomains, SiteId, SiteVec};
use kerf_model::intern::Sym;
use kerf_model::pod::{AffinityTerm, Pod};
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Required affinity terms of pods that are equal to `owner`; a pod attracts if all of the terms select it.
#[derive(Clone)]
pub(crate) struct Affinity<'a> {
    snapshot: &'a Snapshot,
    owner: &'a Pod,
    pub(crate) terms: &'a [AffinityTerm],
    /// By term.
    attracting: Vec<AttractingDomains<'a>>,
    /// Launches with attracting pods that may still end in several domains of a term.
    open: BTreeSet<SiteId>,
}

/// Where the attracting pods are, for one term.
#[derive(Clone)]
struct AttractingDomains<'a> {
    /// The domains each site may end in.
    possible: Arc<SiteVec<PossibleDomains<'a>>>,
    /// The domains with attracting pods, whatever launches become.
    domains: BTreeSet<Domain<'a>>,
}

impl<'a> Affinity<'a> {
    /// `possible` returns the domains of a topology key that each site may end in.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        owner: &'a Pod,
        terms: &'a [AffinityTerm],
        mut possible: impl FnMut(Sym) -> Arc<SiteVec<PossibleDomains<'a>>>,
    ) -> Self {
        let of_term = |term: &AffinityTerm| AttractingDomains {
            possible: possible(term.key),
            domains: BTreeSet::new(),
        };
        Self {
            snapshot,
            owner,
            terms,
            attracting: terms.iter().map(of_term).collect(),
            open: BTreeSet::new(),
        }
    }

    pub(crate) fn counts(&self, pod: &Pod) -> bool {
        self.terms.iter().all(|term| term_selects(self.snapshot, term, pod))
    }

    /// Whether a site may still end in several domains of a term.
    pub(crate) fn depends_on_outcomes(&self) -> bool {
        let mut all = self.attracting.iter().flat_map(|one| one.possible.iter());
        all.any(|possible| matches!(possible, PossibleDomains::Several(_)))
    }

    pub(crate) fn arrive(&mut self, site: SiteId) {
        for AttractingDomains { possible, domains } in &mut self.attracting {
            match &possible[site] {
                PossibleDomains::None => {}
                PossibleDomains::One(domain) => {
                    domains.insert(*domain);
                }
                PossibleDomains::Several(_) => {
                    self.open.insert(site);
                }
            }
        }
    }

    /// kube-scheduler's rule, for everything launches may become: an attracting pod is in the site's domain of every term; or there is none
    /// anywhere, not even where the pod cannot go, and the pod attracts itself. Pods on one launch end in one domain; other pods on launches
    /// that may end in several domains attract to none for sure (SCH-206, SCH-233).
    pub(crate) fn permits(&self, site: SiteId) -> bool {
        let possible = || self.attracting.iter().map(|one| (&one.possible[site], &one.domains));
        if possible().any(|(possible, _)| matches!(possible, PossibleDomains::None)) {
            return false;
        }
        let attracted = possible().all(|(possible, domains)| match possible {
            PossibleDomains::None => false,
            PossibleDomains::One(domain) => domains.contains(domain),
            PossibleDomains::Several(all) => self.open.contains(&site) || all.is_subset(domains),
        });
        let nobody = self.open.is_empty() && self.attracting.iter().all(|one| one.domains.is_empty());
        attracted || (nobody && self.counts(self.owner))
    }
}
