//! What moving a pod from node to node may change: per class, the domains its new node must share and the pods it may not share a node with.

use crate::compile::classes::{ClassId, PodClass};
use crate::compile::problem::Problem;
use crate::compile::topology::{GroupId, GroupKind, KeyId, TopologyKey};
use crate::dense::ids::IdVec;
use smallvec::SmallVec;

/// The number of pods of each class on a node.
pub(super) type Members = SmallVec<[(ClassId, u32); 6]>;

/// Adds pods of a class.
pub(super) fn add_member(members: &mut Members, class: ClassId, n: u32) {
    match members.iter_mut().find(|member| member.0 == class) {
        Some(member) => member.1 += n,
        None => members.push((class, n)),
    }
}

/// What moving the pods of a class may change.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassRules {
    /// Whether the pods stay where they are.
    pub(super) fixed: bool,
    /// The topology keys whose domain a move must keep, so that no count of a group changes.
    pub(super) kept_keys: SmallVec<[KeyId; 2]>,
    /// The groups that limit the pods per node, and the largest count before a pod of the class is placed.
    limits: SmallVec<[(GroupId, u32); 2]>,
    /// The groups per node that count the pods.
    counted_by: SmallVec<[GroupId; 2]>,
}

/// The rules of every class.
pub(super) struct MoveRules {
    by_class: IdVec<PodClass, ClassRules>,
}

impl MoveRules {
    pub(super) fn new(problem: &Problem<'_>) -> Self {
        Self {
            by_class: problem.classes.iter().map(|class| rules(problem, class)).collect(),
        }
    }

    /// The rules of a class.
    pub(super) fn of(&self, class: ClassId) -> &ClassRules {
        &self.by_class[class]
    }

    /// Returns whether a node with these pods may take another pod of a class.
    pub(super) fn allow(&self, members: &Members, class: ClassId) -> bool {
        let rules = &self.by_class[class];
        let count = |group: GroupId| -> u32 {
            let counted = members
                .iter()
                .filter(|(other, _)| self.by_class[*other].counted_by.contains(&group));
            counted.map(|(_, n)| n).sum()
        };
        rules.limits.iter().all(|(group, most)| count(*group) <= *most)
            && (rules.counted_by.is_empty()
                || members.iter().all(|(other, _)| {
                    let limits = self.by_class[*other].limits.iter();
                    let mut limits = limits.filter(|(group, _)| rules.counted_by.contains(group));
                    limits.all(|(group, most)| count(*group) <= *most)
                }))
    }

    /// Returns whether pods of a class may share nodes without regard to their number.
    pub(super) fn unlimited(&self, class: ClassId) -> bool {
        let rules = &self.by_class[class];
        rules.limits.is_empty() && rules.counted_by.is_empty()
    }
}

/// The rules of one class at its strictest level.
fn rules(problem: &Problem<'_>, class: &PodClass) -> ClassRules {
    let mut rules = ClassRules {
        fixed: !class.shape.host_ports.is_empty() || !class.volumes.is_empty(),
        kept_keys: class.fixed_keys.iter().copied().collect(),
        ..ClassRules::default()
    };
    let Some(level) = class.levels.first() else {
        rules.fixed = true;
        return rules;
    };
    let group = |id: GroupId| &problem.groups.list[id];
    for own in &level.own_groups {
        let own_group = group(own.group);
        match (own_group.kind(), own_group.identity.key) {
            (GroupKind::Affinity, _) => rules.fixed = true,
            (_, TopologyKey::Domain(key)) => rules.kept_keys.push(key),
            (GroupKind::Spread, TopologyKey::Host) => {
                let most = own_group.identity.max_skew.saturating_sub(u32::from(own.selects_self));
                rules.limits.push((own.group, most));
            }
            (GroupKind::AntiAffinity | GroupKind::Inverse, TopologyKey::Host) => rules.limits.push((own.group, 0)),
        }
    }
    for id in class.counting_groups.iter().chain(class.inverse_groups.iter()) {
        match group(*id).identity.key {
            TopologyKey::Domain(key) => rules.kept_keys.push(key),
            TopologyKey::Host => rules.counted_by.push(*id),
        }
        rules.fixed |= group(*id).kind() == GroupKind::Affinity;
    }
    for id in class.repelling_groups.iter() {
        match group(*id).identity.key {
            TopologyKey::Domain(key) => rules.kept_keys.push(key),
            TopologyKey::Host => rules.limits.push((*id, 0)),
        }
    }
    rules.kept_keys.sort_unstable();
    rules.kept_keys.dedup();
    rules
}
