//! What all groups together allow one reading of a pod, given the counts: valid domains per key, and rules for machines.

use crate::bits::Bits;
use crate::classes::{Class, Owned, Variant};
use crate::topology::counts::{Counts, GroupCounts};
use crate::topology::{Group, GroupId, GroupKind, TopologyKey};
use crate::world::World;
use smallvec::SmallVec;

/// The rule on one topology key.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) key: u32,
    /// Domains no group objects to.
    pub(crate) valid: Bits,
    /// Whether a machine without the key is out: spread and affinity need a domain, repulsion does not.
    pub(crate) needs_key: bool,
    /// The spread group whose emptiest domain is taken first.
    pub(crate) balance: Option<GroupId>,
    /// The spread group that only counts the pod; its emptiest domain is taken among equally cheap ones.
    pub(crate) level: Option<GroupId>,
}

/// A limit on pods per machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostSpread {
    pub(crate) group: GroupId,
    /// The largest count a machine may have before the pod is placed.
    pub(crate) most: u32,
}

/// What is allowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed {
    pub(crate) rules: SmallVec<[Rule; 2]>,
    pub(crate) host_spread: SmallVec<[HostSpread; 2]>,
    /// Groups that must have a pod on the machine.
    pub(crate) beside: SmallVec<[GroupId; 2]>,
    /// Groups that must have none there.
    pub(crate) apart: SmallVec<[GroupId; 4]>,
    /// Whether some group rules out every new machine.
    pub(crate) no_new_host: bool,
}

/// The first group that leaves nothing at all.
pub(crate) type Placeable = Result<Allowed, GroupId>;

impl Allowed {
    /// Evaluates every group that binds a reading (SCH-208), together: what one group rules out another does not choose.
    pub(crate) fn compute(world: &World<'_>, counts: &Counts, class: &Class, variant: &Variant) -> Placeable {
        let mut allowed = Self::default();
        for owned in &variant.owned {
            let group = &world.groups.list[owned.group as usize];
            let have = counts.get(owned.group);
            let first = group.kind() == GroupKind::Affinity && is_first(world, counts, variant, owned);
            match group.identity.key {
                TopologyKey::Host => allowed.bind_host(group, have, owned, first)?,
                TopologyKey::Domain(key) => {
                    let valid = valid_domains(group, have, owned, first).ok_or(owned.group)?;
                    let attracts = group.kind() != GroupKind::AntiAffinity;
                    let rule = allowed.rule(world, key);
                    rule.needs_key |= attracts;
                    if group.kind() == GroupKind::Spread {
                        rule.balance.get_or_insert(owned.group);
                    }
                    rule.valid.and(&valid);
                }
            }
        }
        for id in class.repelled_by.iter() {
            match world.groups.list[*id as usize].identity.key {
                TopologyKey::Host => allowed.apart.push(*id),
                TopologyKey::Domain(key) => allowed.rule(world, key).valid.and(&empty_domains(counts.get(*id))),
            }
        }
        for key in class.settles.iter() {
            let counts = |id: &&GroupId| {
                let group = &world.groups.list[**id as usize];
                group.kind() == GroupKind::Spread && group.identity.key == TopologyKey::Domain(*key)
            };
            allowed.rule(world, *key).level = class.counted_in.iter().find(counts).copied();
        }
        Ok(allowed)
    }

    fn rule(&mut self, world: &World<'_>, key: u32) -> &mut Rule {
        let at = self.rules.iter().position(|rule| rule.key == key).unwrap_or_else(|| {
            let valid = Bits::full(world.keys.tables[key as usize].values.len());
            self.rules.push(Rule {
                key,
                valid,
                needs_key: false,
                balance: None,
                level: None,
            });
            self.rules.len() - 1
        });
        &mut self.rules[at]
    }

    fn bind_host(&mut self, group: &Group, have: &GroupCounts, owned: &Owned, first: bool) -> Result<(), GroupId> {
        let own = u32::from(owned.selects_self);
        match group.kind() {
            // SCH-215: the minimum is always zero.
            GroupKind::Spread => {
                let most = group.identity.max_skew.checked_sub(own).ok_or(owned.group)?;
                self.host_spread.push(HostSpread {
                    group: owned.group,
                    most,
                });
            }
            // SCH-231: beside a counted pod, or the first of its kind anywhere.
            GroupKind::Affinity if first => {}
            GroupKind::Affinity if have.total == 0 => return Err(owned.group),
            GroupKind::Affinity => {
                self.beside.push(owned.group);
                self.no_new_host = true;
            }
            GroupKind::AntiAffinity | GroupKind::Inverse => self.apart.push(owned.group),
        }
        Ok(())
    }
}

fn empty_domains(have: &GroupCounts) -> Bits {
    (0..have.by_domain.len())
        .filter(|domain| have.by_domain[*domain] == 0)
        .collect()
}

/// Whether the pod may start what its affinity looks for: it is what the terms select, and no other such pod is anywhere, be it where the pod
/// cannot go (kube-scheduler's rule, stricter than SCH-229 and SCH-232).
fn is_first(world: &World<'_>, counts: &Counts, variant: &Variant, owned: &Owned) -> bool {
    let selected = |id: GroupId| &world.groups.list[id as usize].identity;
    let mine = selected(owned.group);
    let joint = variant.owned.iter().filter(|other| {
        let other = selected(other.group);
        other.kind == GroupKind::Affinity && other.selected == mine.selected
    });
    owned.selects_self && joint.into_iter().all(|other| counts.get(other.group).total == 0)
}

/// The domains one of the groups that bind a reading permits by itself; `None` where no machine could help.
pub(crate) fn permitted(world: &World<'_>, counts: &Counts, variant: &Variant, owned: &Owned) -> Option<Bits> {
    let group = &world.groups.list[owned.group as usize];
    let first = group.kind() == GroupKind::Affinity && is_first(world, counts, variant, owned);
    valid_domains(group, counts.get(owned.group), owned, first)
}

/// The domains a group the pod owns permits, wherever the machine; `None` where no machine could help. `first`: the pod may start an
/// affinity.
fn valid_domains(group: &Group, have: &GroupCounts, owned: &Owned, first: bool) -> Option<Bits> {
    let admitted = |domain: usize| owned.pod_domains.as_ref().is_none_or(|domains| domains.get(domain));
    let valid: Bits = match group.kind() {
        GroupKind::Spread => {
            // SCH-212, SCH-213
            let mut known = group.known.clone();
            if let Some(domains) = &owned.pod_domains {
                known.and(domains);
            }
            let count = |domain: usize| i64::from(have.by_domain[domain]);
            let mut least = known.iter().map(count).min()?;
            if group.identity.min_domains.is_some_and(|min| known.len() < min as usize) {
                least = 0;
            }
            let own = i64::from(owned.selects_self);
            let most = i64::from(group.identity.max_skew);
            group
                .known
                .iter()
                .filter(|domain| count(*domain) + own - least <= most)
                .collect()
        }
        // SCH-228, SCH-229
        GroupKind::Affinity => (0..have.by_domain.len())
            .filter(|domain| (first || have.by_domain[*domain] > 0) && admitted(*domain))
            .collect(),
        GroupKind::AntiAffinity | GroupKind::Inverse => empty_domains(have),
    };
    // A machine without the key is out of reach for spread and affinity only.
    (!valid.is_empty() || matches!(group.kind(), GroupKind::AntiAffinity | GroupKind::Inverse)).then_some(valid)
}
