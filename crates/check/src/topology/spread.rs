//! Running counts of one topology spread constraint, as pods are bound.

use crate::rules::selector::matches;
use crate::topology::site::{Domain, Site};
use kerf_model::pod::{Pod, SpreadConstraint};
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
    domains: Vec<Option<Domain<'a>>>,
    /// By site, whether its pods count.
    eligible: Vec<bool>,
    counts: BTreeMap<Domain<'a>, u32>,
}

impl<'a> Spread<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
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
        !empty && pod.namespace == self.owner.namespace && matches(&self.constraint.selector, &pod.labels)
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
        let itself = u32::from(matches(&self.constraint.selector, &self.owner.labels));
        if (self.load(site) + itself).saturating_sub(smallest) > self.constraint.max_skew {
            return Err(SpreadFault::Skew);
        }
        Ok(())
    }
}
