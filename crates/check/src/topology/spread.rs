//! Running counts of one topology spread constraint, as pods are bound.

use crate::id_vec::{Id, IdVec};
use crate::rules::selector::matches;
use crate::topology::site::{Domain, Site, SiteId, SiteVec};
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

/// The sort of ids that domains of one constraint have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Domains {}

/// A required spread constraint of pods that are equal to `owner`.
#[derive(Clone)]
pub(crate) struct Spread<'a> {
    owner: &'a Pod,
    pub(crate) constraint: &'a SpreadConstraint,
    /// Whether the constraint selects its own pod.
    selects_itself: bool,
    sites: SiteVec<SpreadSite>,
    /// The counted pods by domain. A domain that only machines that are going away are in is none.
    counts: IdVec<Domains, u32>,
    /// The smallest count, and how many domains have it.
    smallest: (u32, usize),
}

#[derive(Clone, Copy)]
struct SpreadSite {
    /// Whether it has the constraint's key.
    labelled: bool,
    /// Its domain, if that is counted.
    domain: Option<Id<Domains>>,
    /// Whether its pods count.
    eligible: bool,
}

impl<'a> Spread<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        sites: &SiteVec<Site<'_>>,
        owner: &'a Pod,
        constraint: &'a SpreadConstraint,
    ) -> Self {
        let interner = &*snapshot.interner;
        let mut counts = IdVec::new();
        let mut ids: BTreeMap<Domain<'_>, Id<Domains>> = BTreeMap::new();
        let labels = sites.map(|site| {
            let domain = site.domain(constraint.key, interner);
            (domain, site.counts_for(owner, constraint, interner))
        });
        for (site, (domain, eligible)) in sites.iter().zip(labels.iter()) {
            if let Some(domain) = domain.filter(|_| *eligible && !site.leaving()) {
                ids.entry(domain).or_insert_with(|| counts.push(0));
            }
        }
        let sites = labels.map(|(domain, eligible)| SpreadSite {
            labelled: domain.is_some(),
            domain: domain.and_then(|domain| ids.get(&domain).copied()),
            eligible: *eligible,
        });
        Self {
            owner,
            constraint,
            selects_itself: matches(&constraint.selector, &owner.labels),
            sites,
            smallest: (0, counts.len()),
            counts,
        }
    }

    /// kube-scheduler counts no pod for an empty selector, though it takes the pod itself for selected.
    pub(crate) fn counts(&self, pod: &Pod) -> bool {
        let empty = matches!(&self.constraint.selector, LabelSelector::All(conditions) if conditions.is_empty());
        !empty && pod.namespace == self.owner.namespace && matches(&self.constraint.selector, &pod.labels)
    }

    pub(crate) fn arrive(&mut self, site: SiteId) {
        let SpreadSite { domain, eligible, .. } = self.sites[site];
        let Some(domain) = domain.filter(|_| eligible) else {
            return;
        };
        let (smallest, having) = &mut self.smallest;
        if self.counts[domain] == *smallest {
            *having -= 1;
        }
        self.counts[domain] += 1;
        if *having == 0 {
            self.smallest = self.count_smallest();
        }
    }

    /// The smallest count and how many domains have it, from all counts.
    fn count_smallest(&self) -> (u32, usize) {
        let smallest = self.counts.iter().copied().min().unwrap_or(0);
        (smallest, self.counts.iter().filter(|count| **count == smallest).count())
    }

    /// Compares what is kept from arrival to arrival with the counts, in builds with assertions.
    pub(crate) fn debug_assert_smallest(&self) {
        debug_assert_eq!(self.smallest, self.count_smallest(), "the smallest count that is kept");
    }

    /// Pods in the site's domain.
    pub(crate) fn load(&self, site: SiteId) -> u32 {
        let domain = self.sites[site].domain;
        domain.map_or(0, |domain| self.counts[domain])
    }

    /// kube-scheduler's rule: the count in the domain, with the pod if it counts itself, exceeds the smallest count by at most `maxSkew`;
    /// with fewer domains than `minDomains` the smallest count is zero.
    pub(crate) fn check(&self, site: SiteId) -> Result<(), SpreadFault> {
        if !self.sites[site].labelled {
            return Err(SpreadFault::MissingLabel);
        }
        let too_few = self
            .constraint
            .min_domains
            .is_some_and(|least| self.counts.len() < least as usize);
        let smallest = if too_few { 0 } else { self.smallest.0 };
        let itself = u32::from(self.selects_itself);
        if (self.load(site) + itself).saturating_sub(smallest) > self.constraint.max_skew {
            return Err(SpreadFault::Skew);
        }
        Ok(())
    }
}
