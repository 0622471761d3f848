//! How many pods each group counts, by domain and by machine; updated in place as pods are placed.

use crate::bits::Bits;
use crate::states::Domains;
use crate::topology::{GroupId, GroupKind, TopologyKey};
use crate::world::World;
use kerf_model::node::Node;

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
    pub(crate) by_target: Vec<u32>,
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

impl Counts {
    pub(crate) fn new(world: &World<'_>) -> Self {
        let list = world.groups.list.iter().map(|group| match group.identity.key {
            TopologyKey::Host => GroupCounts {
                by_target: vec![0; world.targets.len()],
                ..GroupCounts::default()
            },
            TopologyKey::Domain(key) => GroupCounts {
                by_domain: vec![0; world.keys.tables[key as usize].values.len()],
                ..GroupCounts::default()
            },
        });
        Self { list: list.collect() }
    }

    pub(crate) fn get(&self, group: GroupId) -> &GroupCounts {
        &self.list[group as usize]
    }

    /// Counts a pod that runs already.
    pub(crate) fn record_bound(&mut self, world: &World<'_>, group: GroupId, node: &Node, target: Option<u32>) {
        match world.groups.list[group as usize].identity.key {
            TopologyKey::Host => match target {
                Some(target) => self.add_host(group, Place::Target(target as usize), 1),
                None => self.list[group as usize].total += 1,
            },
            TopologyKey::Domain(key) => {
                let table = &world.keys.tables[key as usize];
                if let Some(domain) = node.label(table.key).and_then(|value| table.number(value)) {
                    self.add_domain(group, domain, 1);
                }
            }
        }
    }

    pub(crate) fn add_host(&mut self, group: GroupId, place: Place, n: u32) {
        let counts = &mut self.list[group as usize];
        counts.total += u64::from(n);
        match place {
            Place::Target(at) => {
                counts.by_target[at] += n;
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
        for domain in counted_domains(kind, domains) {
            self.add_domain(group, domain, n);
        }
    }

    /// Takes back what [`Self::add_claim_domains`] counted.
    pub(crate) fn remove_claim_domains(&mut self, group: GroupId, kind: GroupKind, domains: &Domains, n: u32) {
        let counts = &mut self.list[group as usize];
        for domain in counted_domains(kind, domains) {
            counts.total = counts.total.saturating_sub(u64::from(n));
            counts.by_domain[domain as usize] = counts.by_domain[domain as usize].saturating_sub(n);
        }
    }
}

fn counted_domains(kind: GroupKind, domains: &Domains) -> Vec<u32> {
    match (kind, domains.one) {
        (_, Some(one)) => vec![one],
        (GroupKind::Spread | GroupKind::Affinity, None) => Vec::new(),
        (GroupKind::AntiAffinity | GroupKind::Inverse, None) => domains.bits.iter().map(|bit| bit as u32).collect(),
    }
}
