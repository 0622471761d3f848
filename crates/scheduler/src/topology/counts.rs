//! How many pods each group counts, by domain and by machine; updated in place as pods are placed.

use crate::bits::Bits;
use crate::states::Domains;
use crate::topology::{GroupId, GroupKind, KeyTable};
use kerf_model::node::Node;
use std::sync::Arc;

/// A machine pods are placed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// An existing node, by target number.
    Target(usize),
    /// A claim of this pass.
    Claim(usize),
}

/// The counts of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupCounts {
    pub(crate) by_domain: Vec<u32>,
    /// Shared until a pod is placed on a target it counts.
    pub(crate) by_target: Arc<Vec<u32>>,
    pub(crate) by_claim: Vec<u32>,
    /// Targets and claims with a count above zero.
    pub(crate) occupied_targets: Bits,
    pub(crate) occupied_claims: Bits,
    /// Pods counted anywhere, on machines that are no targets too.
    pub(crate) total: u64,
}

/// The counts of all groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) list: Vec<GroupCounts>,
}

impl GroupCounts {
    /// Nothing counted; `table`: the key's, unless it is the hostname.
    pub(crate) fn none(table: Option<&KeyTable>, targets: usize) -> Self {
        match table {
            Some(table) => Self {
                by_domain: vec![0; table.values.len()],
                ..Self::default()
            },
            None => Self {
                by_target: Arc::new(vec![0; targets]),
                ..Self::default()
            },
        }
    }

    /// Counts `n` pods that run already.
    pub(crate) fn add_bound(&mut self, table: Option<&KeyTable>, node: &Node, target: Option<u32>, n: u32) {
        match (table, target) {
            (Some(table), target) => {
                if let Some(domain) = table.domain_at(node, target) {
                    self.total += u64::from(n);
                    self.by_domain[domain as usize] += n;
                }
            }
            (None, Some(at)) => {
                self.total += u64::from(n);
                Arc::make_mut(&mut self.by_target)[at as usize] += n;
                self.occupied_targets.insert(at as usize);
            }
            (None, None) => self.total += u64::from(n),
        }
    }

    /// Takes back one pod that [`Self::add_bound`] counted.
    pub(crate) fn remove_bound(&mut self, table: Option<&KeyTable>, node: &Node, target: Option<u32>) {
        match (table, target) {
            (Some(table), target) => {
                if let Some(domain) = table.domain_at(node, target) {
                    self.total -= 1;
                    self.by_domain[domain as usize] -= 1;
                }
            }
            (None, Some(at)) => {
                self.total -= 1;
                let count = &mut Arc::make_mut(&mut self.by_target)[at as usize];
                *count -= 1;
                if *count == 0 {
                    self.occupied_targets.remove(at as usize);
                }
            }
            (None, None) => self.total -= 1,
        }
    }
}

impl Counts {
    pub(crate) fn get(&self, group: GroupId) -> &GroupCounts {
        &self.list[group as usize]
    }

    pub(crate) fn add_host(&mut self, group: GroupId, place: Place, n: u32) {
        let counts = &mut self.list[group as usize];
        counts.total += u64::from(n);
        match place {
            Place::Target(at) => {
                Arc::make_mut(&mut counts.by_target)[at] += n;
                counts.occupied_targets.insert(at);
            }
            Place::Claim(at) => {
                if counts.by_claim.len() <= at {
                    counts.by_claim.resize(at + 1, 0);
                }
                counts.by_claim[at] += n;
                counts.occupied_claims.insert(at);
            }
        }
    }

    pub(crate) fn add_domain(&mut self, group: GroupId, domain: u32, n: u32) {
        let counts = &mut self.list[group as usize];
        counts.total += u64::from(n);
        counts.by_domain[domain as usize] += n;
    }

    /// Counts `n` pods on a claim that may land in `domains`: attraction and spread only once that is settled, repulsion everywhere it
    /// may be (SCH-206, SCH-207, SCH-482).
    pub(crate) fn add_claim_domains(&mut self, group: GroupId, kind: GroupKind, domains: &Domains, n: u32) {
        for_counted_domains(kind, domains, |domain| self.add_domain(group, domain, n));
    }

    /// Takes back what [`Self::add_claim_domains`] counted.
    pub(crate) fn remove_claim_domains(&mut self, group: GroupId, kind: GroupKind, domains: &Domains, n: u32) {
        let counts = &mut self.list[group as usize];
        for_counted_domains(kind, domains, |domain| {
            counts.total = counts.total.saturating_sub(u64::from(n));
            counts.by_domain[domain as usize] = counts.by_domain[domain as usize].saturating_sub(n);
        });
    }
}

fn for_counted_domains(kind: GroupKind, domains: &Domains, mut each: impl FnMut(u32)) {
    match (kind, domains.one) {
        (_, Some(one)) => each(one),
        (GroupKind::Spread | GroupKind::Affinity, None) => {}
        (GroupKind::AntiAffinity | GroupKind::Inverse, None) => domains.bits.iter().for_each(|bit| each(bit as u32)),
    }
}
