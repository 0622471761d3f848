//! What all topology groups together allow a class at one level, given the counts: valid domains per key, and rules per node.

use crate::compile::classes::{CompiledLevel, OwnGroup, PodClass};
use crate::compile::problem::Problem;
use crate::compile::topology::{Counts, Domain, DomainId, Group, GroupCounts, GroupId, GroupKind, KeyId, TopologyKey};
use crate::dense::id_set::IdSet;
use smallvec::SmallVec;

/// The rule for one topology key.
#[derive(Clone, Debug)]
pub(crate) struct DomainRule {
    pub(crate) key: KeyId,
    /// The domains that every group permits.
    pub(crate) valid: IdSet<Domain>,
    /// Whether a node without the label is excluded. Spread and affinity need a domain, anti-affinity does not.
    pub(crate) needs_key: bool,
    /// The spread group whose emptiest domain is chosen first.
    pub(crate) spread: Option<GroupId>,
    /// A spread group that counts the pod but does not constrain it. Its emptiest domain is chosen among equally cheap ones.
    pub(crate) tie_break: Option<GroupId>,
}

/// A limit on the pods of a group per node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostSpread {
    pub(crate) group: GroupId,
    /// The largest count a node may have before the pod is placed.
    pub(crate) most: u32,
}

/// What the topology groups allow.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllowedPlacement {
    pub(crate) rules: SmallVec<[DomainRule; 2]>,
    pub(crate) host_spread: SmallVec<[HostSpread; 2]>,
    /// Groups that need a counted pod on the node.
    pub(crate) host_affinity: SmallVec<[GroupId; 2]>,
    /// Groups that need a node without a counted pod.
    pub(crate) host_anti_affinity: SmallVec<[GroupId; 4]>,
    /// Whether some group excludes every new node.
    pub(crate) no_new_host: bool,
}

/// What is allowed, or the first group that allows nothing.
pub(crate) type TopologyResult = Result<AllowedPlacement, GroupId>;

impl AllowedPlacement {
    /// Evaluates all groups that constrain a level (SCH-208). A domain is valid if every group permits it.
    pub(crate) fn compute(
        problem: &Problem<'_>,
        counts: &Counts,
        class: &PodClass,
        level: &CompiledLevel,
    ) -> TopologyResult {
        let mut allowed = Self::default();
        for own_group in &level.own_groups {
            let group = &problem.groups.list[own_group.group];
            let have = counts.get(own_group.group);
            let first = group.kind() == GroupKind::Affinity && is_first(problem, counts, level, own_group);
            match group.identity.key {
                TopologyKey::Host => allowed.bind_host(group, have, own_group, first)?,
                TopologyKey::Domain(key) => {
                    let valid = valid_domains(group, have, own_group, first).ok_or(own_group.group)?;
                    let attracts = group.kind() != GroupKind::AntiAffinity;
                    let rule = allowed.rule(problem, key);
                    rule.needs_key |= attracts;
                    if group.kind() == GroupKind::Spread {
                        rule.spread.get_or_insert(own_group.group);
                    }
                    rule.valid.and(&valid);
                }
            }
        }
        for id in class.repelling_groups.iter() {
            match problem.groups.list[*id].identity.key {
                TopologyKey::Host => allowed.host_anti_affinity.push(*id),
                TopologyKey::Domain(key) => allowed.rule(problem, key).valid.and(&empty_domains(counts.get(*id))),
            }
        }
        for key in class.fixed_keys.iter() {
            let counts = |id: &&GroupId| {
                let group = &problem.groups.list[**id];
                group.kind() == GroupKind::Spread && group.identity.key == TopologyKey::Domain(*key)
            };
            allowed.rule(problem, *key).tie_break = class.counting_groups.iter().find(counts).copied();
        }
        Ok(allowed)
    }

    /// The rule for a key, created with all domains valid where there is none yet.
    fn rule(&mut self, problem: &Problem<'_>, key: KeyId) -> &mut DomainRule {
        let at = self.rules.iter().position(|rule| rule.key == key).unwrap_or_else(|| {
            let valid = IdSet::full(problem.keys.tables[key].values.len());
            self.rules.push(DomainRule {
                key,
                valid,
                needs_key: false,
                spread: None,
                tie_break: None,
            });
            self.rules.len() - 1
        });
        &mut self.rules[at]
    }

    /// Adds the rule of a group whose key is the hostname. Fails with the group where it allows no node.
    fn bind_host(
        &mut self,
        group: &Group,
        have: &GroupCounts,
        own_group: &OwnGroup,
        first: bool,
    ) -> Result<(), GroupId> {
        let own = u32::from(own_group.selects_self);
        match group.kind() {
            // The minimum count of a hostname spread is always zero (SCH-215).
            GroupKind::Spread => {
                let most = group.identity.max_skew.checked_sub(own).ok_or(own_group.group)?;
                self.host_spread.push(HostSpread {
                    group: own_group.group,
                    most,
                });
            }
            // With a counted pod, or as the first of its kind anywhere (SCH-231).
            GroupKind::Affinity if first => {}
            GroupKind::Affinity if have.total == 0 => return Err(own_group.group),
            GroupKind::Affinity => {
                self.host_affinity.push(own_group.group);
                self.no_new_host = true;
            }
            GroupKind::AntiAffinity | GroupKind::Inverse => self.host_anti_affinity.push(own_group.group),
        }
        Ok(())
    }
}

/// The domains without a counted pod.
fn empty_domains(have: &GroupCounts) -> IdSet<Domain> {
    have.by_domain
        .ids()
        .filter(|domain| have.by_domain[*domain] == 0)
        .collect()
}

/// Returns whether the pod may be the first of its affinity: the terms select it, and no other selected pod exists, even where the pod
/// cannot go (kube-scheduler's rule, stricter than SCH-229 and SCH-232).
fn is_first(problem: &Problem<'_>, counts: &Counts, level: &CompiledLevel, own_group: &OwnGroup) -> bool {
    let selected = |id: GroupId| &problem.groups.list[id].identity;
    let mine = selected(own_group.group);
    let joint = level.own_groups.iter().filter(|other| {
        let other = selected(other.group);
        other.kind == GroupKind::Affinity && other.selected == mine.selected
    });
    own_group.selects_self && joint.into_iter().all(|other| counts.get(other.group).total == 0)
}

/// The domains that one group of a level permits by itself; `None` where it excludes every node.
pub(crate) fn permitted_domains(
    problem: &Problem<'_>,
    counts: &Counts,
    level: &CompiledLevel,
    own_group: &OwnGroup,
) -> Option<IdSet<Domain>> {
    let group = &problem.groups.list[own_group.group];
    let first = group.kind() == GroupKind::Affinity && is_first(problem, counts, level, own_group);
    valid_domains(group, counts.get(own_group.group), own_group, first)
}

/// The domains that a pod's own group permits; `None` where it excludes every node. `first`: the pod may be the first of its affinity.
fn valid_domains(group: &Group, have: &GroupCounts, own_group: &OwnGroup, first: bool) -> Option<IdSet<Domain>> {
    let admitted = |domain: DomainId| own_group.pod_domains.as_ref().is_none_or(|domains| domains.get(domain));
    let valid: IdSet<Domain> = match group.kind() {
        GroupKind::Spread => {
            // The minimum covers the domains the pod may use (SCH-212, SCH-213).
            let mut possible = group.domains.clone();
            if let Some(domains) = &own_group.pod_domains {
                possible.and(domains);
            }
            let count = |domain: DomainId| i64::from(have.by_domain[domain]);
            let mut least = possible.iter().map(count).min()?;
            if group
                .identity
                .min_domains
                .is_some_and(|min| possible.len() < min as usize)
            {
                least = 0;
            }
            let own = i64::from(own_group.selects_self);
            let most = i64::from(group.identity.max_skew);
            group
                .domains
                .iter()
                .filter(|domain| count(*domain) + own - least <= most)
                .collect()
        }
        // Domains with a counted pod, or all for the first pod (SCH-228, SCH-229).
        GroupKind::Affinity => have
            .by_domain
            .ids()
            .filter(|domain| (first || have.by_domain[*domain] > 0) && admitted(*domain))
            .collect(),
        GroupKind::AntiAffinity | GroupKind::Inverse => empty_domains(have),
    };
    // Only spread and affinity exclude nodes without the label.
    (!valid.is_empty() || matches!(group.kind(), GroupKind::AntiAffinity | GroupKind::Inverse)).then_some(valid)
}
