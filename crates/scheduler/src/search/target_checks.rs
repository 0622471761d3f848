//! Whether an existing node takes a pod (section 16.3 of `docs/behaviour/scheduling.md`), and what changes when it does.

use crate::compile::classes::{ClassId, PodClass};
use crate::compile::queue::PodId;
use crate::compile::requirements::ReqId;
use crate::compile::targets::{BLOCK, Target, TargetId};
use crate::compile::topology::{Destination, TopologyKey};
use crate::dense::amounts::fits;
use crate::dense::id_set::IdSet;
use crate::search::assignment::{Assignment, ports_conflict};
use crate::search::query::Query;
use crate::search::target_cache::CachedValues;
use kerf_model::pod::HostPort;
use rustc_hash::FxHashSet;

/// Why an existing node rejects a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TargetRejection {
    /// It takes no pod at all.
    Closed,
    /// It takes no pod that moves from a healthy node.
    Settling,
    Taint,
    /// The attach limit of a driver would be exceeded.
    Volumes,
    Ports,
    Resources,
    Labels,
    /// A volume cannot be reached from there.
    VolumeTopology,
    Topology,
}

impl Assignment<'_, '_> {
    /// The targets among `64 * word ..` that labels, domains and neighbours do not exclude, as a word of bits.
    fn target_word(&self, query: &Query<'_>, word: usize) -> u64 {
        let problem = self.problem;
        let mut targets = problem.open.word(word) & !self.rejections[query.level_id].targets.word(word);
        if targets == 0 {
            return 0;
        }
        targets &= problem.satisfying(query.level.full).word(word);
        for rule in &query.allowed.rules {
            targets = problem.keys.tables[rule.key].targets_in(&rule.valid, rule.needs_key, word, targets);
        }
        for group in &query.allowed.host_affinity {
            targets &= self.counts.get(*group).occupied_targets.word(word);
        }
        for group in &query.allowed.host_anti_affinity {
            targets &= !self.counts.get(*group).occupied_targets.word(word);
        }
        targets
    }

    /// The first target that takes the pod, in the order of targets. A target that does not is rejected permanently.
    pub(crate) fn first_target(&mut self, query: &Query<'_>) -> Option<TargetId> {
        for word in 0..self.problem.targets.len().div_ceil(BLOCK) {
            if !self.problem.targets.block_may_fit(word, &query.class.requests) {
                continue;
            }
            for target in IdSet::ids_of_word(word, self.target_word(query, word)) {
                self.work += 1;
                if self.reject_target(query, target).is_none() {
                    return Some(target);
                }
                self.rejections[query.level_id].targets.insert(target);
            }
        }
        None
    }

    /// Adds the targets among `ready` that take the pod, in the order of targets. Targets that do not are rejected permanently. `accepted`
    /// has the targets that took a pod like this before.
    pub(crate) fn fitting_targets(
        &mut self,
        query: &Query<'_>,
        ready: &IdSet<Target>,
        accepted: &mut CachedValues<'_, ()>,
        fitting: &mut Vec<TargetId>,
    ) {
        for word in 0..self.problem.targets.len().div_ceil(BLOCK) {
            let ready = ready.word(word);
            if ready == 0 || !self.problem.targets.block_may_fit(word, &query.class.requests) {
                continue;
            }
            for target in IdSet::ids_of_word(word, self.target_word(query, word) & ready) {
                let accepts = || self.reject_target(query, target).is_none().then_some(());
                if accepted.get_or_try(target, accepts).is_some() {
                    fitting.push(target);
                } else {
                    self.rejections[query.level_id].targets.insert(target);
                }
            }
        }
    }

    /// Why a target rejects a pod, domains and neighbours included (for `explain`).
    pub(crate) fn target_rejection(&mut self, query: &Query<'_>, at: TargetId) -> Option<TargetRejection> {
        let (word, bit) = IdSet::bit_of(at);
        let inside = self.target_word(query, word) & bit != 0;
        let rejections = self.rejections[query.level_id].targets.get(at);
        self.reject_target(query, at)
            .or_else(|| (!inside && !rejections).then_some(TargetRejection::Topology))
    }

    /// The host ports used on a target.
    pub(crate) fn ports_of(&self, at: TargetId) -> &[HostPort] {
        self.updated_targets.ports(self.problem.targets, at)
    }

    /// Why a target rejects a pod, apart from domains and neighbours, in the order of section 16.3 of `docs/behaviour/scheduling.md`. Such a
    /// rejection is permanent.
    fn reject_target(&self, query: &Query<'_>, at: TargetId) -> Option<TargetRejection> {
        let target = &self.problem.targets[at];
        let spread = &query.allowed.host_spread;
        if target.closed {
            Some(TargetRejection::Closed)
        } else if query.class.moved && self.problem.settling.get(at) {
            Some(TargetRejection::Settling)
        } else if !query.level.tolerated.get(target.taints) {
            Some(TargetRejection::Taint)
        } else if !self.volumes_attach(query.class, at) {
            Some(TargetRejection::Volumes)
        } else if ports_conflict(&query.class.shape.host_ports, self.ports_of(at)) {
            Some(TargetRejection::Ports)
        } else if !fits(
            &query.class.requests,
            self.updated_targets.placeable(self.problem.targets, at),
        ) {
            Some(TargetRejection::Resources)
        } else if !self.problem.satisfying(query.level.full).get(at) {
            Some(TargetRejection::Labels)
        } else if !self.volumes_reach(query.class, at) {
            Some(TargetRejection::VolumeTopology)
        } else if spread
            .iter()
            .any(|rule| self.counts.get(rule.group).by_target[at] > rule.most)
        {
            Some(TargetRejection::Topology)
        } else {
            None
        }
    }

    /// Returns whether all volumes can be reached from a target.
    fn volumes_reach(&self, class: &PodClass, at: TargetId) -> bool {
        let any = |alternatives: &Vec<ReqId>| {
            alternatives
                .iter()
                .any(|choice| self.problem.satisfying(*choice).get(at))
        };
        class.volume_topology.alternatives.iter().all(any)
    }

    /// Returns whether all volumes can be attached to a target (attach limits per driver).
    fn volumes_attach(&self, class: &PodClass, at: TargetId) -> bool {
        let limits = &self.problem.targets[at].node.volume_limits;
        limits.iter().all(|(driver, limit)| {
            let attached = self.updated_targets.attached(self.problem.targets, at).get(driver);
            let new = class
                .volumes
                .iter()
                .filter(|volume| volume.driver.as_ref() == Some(driver));
            let mut new: Vec<&str> = new.map(|volume| &*volume.claim).collect();
            new.sort_unstable();
            new.dedup();
            new.retain(|claim| !attached.is_some_and(|claims| claims.contains(*claim)));
            (attached.map_or(0, FxHashSet::len) + new.len()) as u64 <= u64::from(*limit)
        })
    }

    /// Places a pod on a target.
    pub(crate) fn place_on_target(&mut self, at: TargetId, class: ClassId, pod: PodId) {
        let problem = self.problem;
        let (class, target) = (problem.class(class), &problem.targets[at]);
        self.updated_targets.place(problem.targets, at, class, pod);
        for id in class.counting_groups.iter().chain(class.inverse_groups.iter()) {
            let identity = &problem.groups.list[*id].identity;
            if !problem.node_passes(identity.filter, &target.node) {
                continue;
            }
            match identity.key {
                TopologyKey::Host => self.counts.add_host(*id, Destination::Target(at), 1),
                TopologyKey::Domain(key) => {
                    if let Some(domain) = problem.keys.tables[key].domain_of(at) {
                        self.counts.add_domain(*id, domain, 1);
                    }
                }
            }
        }
        self.order.push(pod);
        self.placed += 1;
    }
}
