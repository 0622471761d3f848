//! The number of pods each group counts, by domain and by node. Updated in place as pods are placed.

use crate::compile::targets::{Target, TargetId};
use crate::compile::topology::claim_domains::ClaimDomains;
use crate::compile::topology::groups::{Group, GroupId, GroupKind};
use crate::compile::topology::keys::{Domain, DomainId, KeyTable};
use crate::dense::id_set::IdSet;
use crate::dense::ids::{Id, IdVec};
use kerf_model::node::Node;
use std::sync::Arc;

/// The kind of the ids of claims: nodes to be launched. Counts know only their ids; `search` has the claims themselves.
pub(crate) enum NewNode {}

/// The id of a claim of an assignment.
pub(crate) type ClaimId = Id<NewNode>;

/// Where a pod is placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destination {
    /// An existing node, by target.
    Target(TargetId),
    /// A claim of this assignment.
    Claim(ClaimId),
}

/// The counts of one group.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct GroupCounts {
    pub(crate) by_domain: IdVec<Domain, u32>,
    /// Shared between clones until a pod is placed on a target.
    pub(crate) by_target: Arc<IdVec<Target, u32>>,
    pub(crate) by_claim: IdVec<NewNode, u32>,
    /// Targets and claims with a count above zero.
    pub(crate) occupied_targets: IdSet<Target>,
    pub(crate) occupied_claims: IdSet<NewNode>,
    /// All counted pods, those on nodes that are no targets included.
    pub(crate) total: u64,
}

/// The counts of all groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) list: IdVec<Group, GroupCounts>,
}

impl GroupCounts {
    /// Zero counts. `table` is the domain table of the key, `None` for the hostname.
    pub(crate) fn none(table: Option<&KeyTable>, targets: usize) -> Self {
        match table {
            Some(table) => Self {
                by_domain: IdVec::filled(0, table.values.len()),
                ..Self::default()
            },
            None => Self {
                by_target: Arc::new(IdVec::filled(0, targets)),
                ..Self::default()
            },
        }
    }

    /// Counts `n` pods that run on a node.
    pub(crate) fn add_running(&mut self, table: Option<&KeyTable>, node: &Node, target: Option<TargetId>, n: u32) {
        match (table, target) {
            (Some(table), target) => {
                if let Some(domain) = table.domain_at(node, target) {
                    self.total += u64::from(n);
                    self.by_domain[domain] += n;
                }
            }
            (None, Some(at)) => {
                self.total += u64::from(n);
                Arc::make_mut(&mut self.by_target)[at] += n;
                self.occupied_targets.insert(at);
            }
            (None, None) => self.total += u64::from(n),
        }
    }

    /// Removes one pod that [`Self::add_running`] counted.
    pub(crate) fn remove_running(&mut self, table: Option<&KeyTable>, node: &Node, target: Option<TargetId>) {
        match (table, target) {
            (Some(table), target) => {
                if let Some(domain) = table.domain_at(node, target) {
                    self.total -= 1;
                    self.by_domain[domain] -= 1;
                }
            }
            (None, Some(at)) => {
                self.total -= 1;
                let count = &mut Arc::make_mut(&mut self.by_target)[at];
                *count -= 1;
                if *count == 0 {
                    self.occupied_targets.remove(at);
                }
            }
            (None, None) => self.total -= 1,
        }
    }
}

impl Counts {
    pub(crate) fn get(&self, group: GroupId) -> &GroupCounts {
        &self.list[group]
    }

    /// Counts `n` pods of a group by hostname, where every target and every claim is its own domain.
    pub(crate) fn add_host(&mut self, group: GroupId, place: Destination, n: u32) {
        let counts = &mut self.list[group];
        counts.total += u64::from(n);
        match place {
            Destination::Target(at) => {
                Arc::make_mut(&mut counts.by_target)[at] += n;
                counts.occupied_targets.insert(at);
            }
            Destination::Claim(at) => {
                *counts.by_claim.get_or_fill(at, 0) += n;
                counts.occupied_claims.insert(at);
            }
        }
    }

    /// Counts `n` pods of a group in a domain.
    pub(crate) fn add_domain(&mut self, group: GroupId, domain: DomainId, n: u32) {
        let counts = &mut self.list[group];
        counts.total += u64::from(n);
        counts.by_domain[domain] += n;
    }

    /// Counts `n` pods on a claim. Spread and affinity count only a decided domain; anti-affinity counts every possible domain (SCH-206,
    /// SCH-207, SCH-482).
    pub(crate) fn add_claim_domains(&mut self, group: GroupId, kind: GroupKind, domains: &ClaimDomains, n: u32) {
        for_counted_domains(kind, domains, |domain| self.add_domain(group, domain, n));
    }

    /// Removes what [`Self::add_claim_domains`] counted.
    pub(crate) fn remove_claim_domains(&mut self, group: GroupId, kind: GroupKind, domains: &ClaimDomains, n: u32) {
        let counts = &mut self.list[group];
        for_counted_domains(kind, domains, |domain| {
            counts.total = counts.total.saturating_sub(u64::from(n));
            counts.by_domain[domain] = counts.by_domain[domain].saturating_sub(n);
        });
    }
}

fn for_counted_domains(kind: GroupKind, domains: &ClaimDomains, mut each: impl FnMut(DomainId)) {
    match (kind, domains.one) {
        (_, Some(one)) => each(one),
        (GroupKind::Spread | GroupKind::Affinity, None) => {}
        (GroupKind::AntiAffinity | GroupKind::Inverse, None) => domains.possible.iter().for_each(each),
    }
}
