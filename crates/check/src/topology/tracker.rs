//! Running counts of one spread constraint, or of one pod's affinity terms, as pods arrive.

use crate::topology::site::{Domain, Site};
use kerf_model::pod::{AffinityTerm, Pod, SpreadConstraint};
use kerf_model::selector::LabelSelector;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeMap;

/// Why a spread constraint refuses a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpreadFault {
    MissingLabel,
    Skew,
}

/// A required spread constraint of pods that are equal to `owner`.
#[derive(Clone)]
pub(crate) struct Spread<'a> {
    owner: &'a Pod,
    pub(crate) constraint: &'a SpreadConstraint,
    /// By site.
    domains: Vec<Option<Domain>>,
    /// By site, whether its pods count.
    eligible: Vec<bool>,
    counts: BTreeMap<Domain, u32>,
}

impl<'a> Spread<'a> {
    pub(crate) fn new(
        snapshot: &Snapshot,
        sites: &[Site<'_>],
        owner: &'a Pod,
        constraint: &'a SpreadConstraint,
    ) -> Self {
        let interner = &*snapshot.interner;
        let domains: Vec<_> = sites.iter().map(|site| site.domain(constraint.key, interner)).collect();
        let eligible: Vec<_> = sites
            .iter()
            .map(|site| site.counts_for(owner, constraint, interner))
            .collect();
        let mut counts = BTreeMap::new();
        for (at, site) in sites.iter().enumerate() {
            if let Some(domain) = domains[at].filter(|_| eligible[at] && !site.leaving()) {
                counts.insert(domain, 0);
            }
        }
        Self {
            owner,
            constraint,
            domains,
            eligible,
            counts,
        }
    }

    /// kube-scheduler counts no pod for an empty selector, though it takes the pod itself for selected.
    pub(crate) fn counts(&self, pod: &Pod) -> bool {
        let empty = matches!(&self.constraint.selector, LabelSelector::All(conditions) if conditions.is_empty());
        !empty && pod.namespace == self.owner.namespace && self.constraint.selector.matches(&pod.labels)
    }

    pub(crate) fn arrive(&mut self, site: usize) {
        let domain = self.domains[site].filter(|_| self.eligible[site]);
        // A domain only machines that are going away are in is none.
        if let Some(count) = domain.and_then(|domain| self.counts.get_mut(&domain)) {
            *count += 1;
        }
    }

    /// Pods in the site's domain.
    pub(crate) fn load(&self, site: usize) -> u32 {
        self.domains[site]
            .and_then(|domain| self.counts.get(&domain))
            .copied()
            .unwrap_or(0)
    }

    /// kube-scheduler's rule: the count in the domain, with the pod if it counts itself, exceeds the smallest count by at most `maxSkew`;
    /// with fewer domains than `minDomains` the smallest count is zero.
    pub(crate) fn check(&self, site: usize) -> Result<(), SpreadFault> {
        if self.domains[site].is_none() {
            return Err(SpreadFault::MissingLabel);
        }
        let too_few = self
            .constraint
            .min_domains
            .is_some_and(|least| self.counts.len() < least as usize);
        let smallest = if too_few {
            0
        } else {
            self.counts.values().copied().min().unwrap_or(0)
        };
        let itself = u32::from(self.constraint.selector.matches(&self.owner.labels));
        if (self.load(site) + itself).saturating_sub(smallest) > self.constraint.max_skew {
            return Err(SpreadFault::Skew);
        }
        Ok(())
    }
}

/// Whether a term of `owner` selects a pod.
pub(crate) fn term_selects(snapshot: &Snapshot, term: &AffinityTerm, pod: &Pod) -> bool {
    snapshot.in_scope(&term.namespaces, &pod.namespace) && term.selector.matches(&pod.labels)
}

/// Required affinity terms of pods that are equal to `owner`; a pod attracts if all of the terms select it.
#[derive(Clone)]
pub(crate) struct Affinity<'a> {
    snapshot: &'a Snapshot,
    owner: &'a Pod,
    pub(crate) terms: &'a [AffinityTerm],
    /// By term and site.
    domains: Vec<Vec<Option<Domain>>>,
    /// By term.
    counts: Vec<BTreeMap<Domain, u32>>,
}

impl<'a> Affinity<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, sites: &[Site<'_>], owner: &'a Pod, terms: &'a [AffinityTerm]) -> Self {
        let domains = |term: &AffinityTerm| sites.iter().map(|s| s.domain(term.key, &snapshot.interner)).collect();
        Self {
            snapshot,
            owner,
            terms,
            domains: terms.iter().map(domains).collect(),
            counts: vec![BTreeMap::new(); terms.len()],
        }
    }

    pub(crate) fn counts(&self, pod: &Pod) -> bool {
        self.terms.iter().all(|term| term_selects(self.snapshot, term, pod))
    }

    pub(crate) fn arrive(&mut self, site: usize) {
        for (domains, counts) in self.domains.iter().zip(&mut self.counts) {
            if let Some(domain) = domains[site] {
                *counts.entry(domain).or_default() += 1;
            }
        }
    }

    /// Whether pods that attract are in a domain of a term.
    pub(crate) fn attracts(&self, term: usize, domain: Domain) -> bool {
        self.counts.get(term).is_some_and(|counts| counts.contains_key(&domain))
    }

    /// kube-scheduler's rule: an attracting pod is in the site's domain of every term; or there is none anywhere, not even where the pod
    /// cannot go, and the pod attracts itself.
    pub(crate) fn permits(&self, site: usize) -> bool {
        let here: Option<Vec<Domain>> = self.domains.iter().map(|domains| domains[site]).collect();
        let Some(here) = here else { return false };
        if here
            .iter()
            .zip(&self.counts)
            .all(|(domain, counts)| counts.contains_key(domain))
        {
            return true;
        }
        self.counts.iter().all(BTreeMap::is_empty) && self.counts(self.owner)
    }
}
