//! Running counts of the pods that one pod's affinity terms select, as pods are bound.

use crate::rules::selector::term_selects;
use crate::topology::site::{Domain, Site};
use kerf_model::pod::{AffinityTerm, Pod};
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeMap;

/// Required affinity terms of pods that are equal to `owner`; a pod attracts if all of the terms select it.
#[derive(Clone)]
pub(crate) struct Affinity<'a> {
    snapshot: &'a Snapshot,
    owner: &'a Pod,
    pub(crate) terms: &'a [AffinityTerm],
    /// By term and site.
    domains: Vec<Vec<Option<Domain<'a>>>>,
    /// By term.
    counts: Vec<BTreeMap<Domain<'a>, u32>>,
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
    pub(crate) fn attracts(&self, term: usize, domain: Domain<'_>) -> bool {
        self.counts.get(term).is_some_and(|counts| counts.contains_key(&domain))
    }

    /// kube-scheduler's rule: an attracting pod is in the site's domain of every term; or there is none anywhere, not even where the pod
    /// cannot go, and the pod attracts itself.
    pub(crate) fn permits(&self, site: usize) -> bool {
        let here: Option<Vec<Domain<'_>>> = self.domains.iter().map(|domains| domains[site]).collect();
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
