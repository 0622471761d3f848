//! Existing nodes of a run: why one does not take a pod (16.3), and what changes when one does.

use crate::amounts::fits;
use crate::bits::ones;
use crate::classes::{Class, ClassId};
use crate::nodes::BLOCK;
use crate::requirements::ReqId;
use crate::run::{Ask, Run, ports_conflict};
use crate::topology::{Place, TopologyKey};
use kerf_model::pod::HostPort;
use rustc_hash::FxHashSet;

/// Why an existing node does not take a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TargetNo {
    /// It takes no pod at all.
    Closed,
    /// It takes no pod that moves from a healthy node.
    Settling,
    Taint,
    /// Attach limits.
    Volumes,
    Ports,
    Resources,
    Labels,
    /// Volumes cannot be reached from there.
    Reach,
    Topology,
}

impl Run<'_, '_> {
    /// Of the targets `64 * word ..`: those that may take the pod as far as labels, domains and neighbours go.
    fn target_word(&self, ask: &Ask<'_>, word: usize) -> u64 {
        let world = self.world;
        let mut targets = world.open.word(word) & !self.dead[ask.reading].targets.word(word);
        if targets == 0 {
            return 0;
        }
        targets &= world.satisfying(ask.variant.full).word(word);
        for rule in &ask.allowed.rules {
            targets = world.keys.tables[rule.key as usize].targets_in(&rule.valid, rule.needs_key, word, targets);
        }
        for group in &ask.allowed.beside {
            targets &= self.counts.get(*group).occupied_targets.word(word);
        }
        for group in &ask.allowed.apart {
            targets &= !self.counts.get(*group).occupied_targets.word(word);
        }
        targets
    }

    /// The first existing node that takes the pod, by the order of targets.
    pub(crate) fn first_target(&mut self, ask: &Ask<'_>) -> Option<usize> {
        for word in 0..self.world.targets.len().div_ceil(BLOCK) {
            if !self.world.targets.block_may_fit(word, &ask.class.requests) {
                continue;
            }
            for bit in ones(self.target_word(ask, word)) {
                let at = word * BLOCK + bit;
                self.work += 1;
                if self.target_no(ask, at).is_none() {
                    return Some(at);
                }
                self.dead[ask.reading].targets.insert(at);
            }
        }
        None
    }

    /// Why a target does not take the pod, domains and neighbours included (for `explain`).
    pub(crate) fn target_refusal(&mut self, ask: &Ask<'_>, at: usize) -> Option<TargetNo> {
        let inside = self.target_word(ask, at / BLOCK) >> (at % BLOCK) & 1 == 1;
        let dead = self.dead[ask.reading].targets.get(at);
        self.target_no(ask, at)
            .or_else(|| (!inside && !dead).then_some(TargetNo::Topology))
    }

    /// The host ports held on a target.
    pub(crate) fn ports_of(&self, at: usize) -> &[HostPort] {
        self.touched.ports(self.world.targets, at)
    }

    /// Why a target does not take the pod, domains and neighbours aside; a no is for good. In the order of section 16.3.
    fn target_no(&self, ask: &Ask<'_>, at: usize) -> Option<TargetNo> {
        let target = &self.world.targets[at];
        let spread = &ask.allowed.host_spread;
        if target.closed {
            Some(TargetNo::Closed)
        } else if ask.class.moved && self.world.settling.get(at) {
            Some(TargetNo::Settling)
        } else if !ask.variant.tolerated.get(target.taints as usize) {
            Some(TargetNo::Taint)
        } else if !self.volumes_attach(ask.class, at) {
            Some(TargetNo::Volumes)
        } else if ports_conflict(&ask.class.shape.host_ports, self.ports_of(at)) {
            Some(TargetNo::Ports)
        } else if !fits(&ask.class.requests, self.touched.placeable(self.world.targets, at)) {
            Some(TargetNo::Resources)
        } else if !self.world.satisfying(ask.variant.full).get(at) {
            Some(TargetNo::Labels)
        } else if !self.volumes_reach(ask.class, at) {
            Some(TargetNo::Reach)
        } else if spread
            .iter()
            .any(|rule| self.counts.get(rule.group).by_target[at] > rule.most)
        {
            Some(TargetNo::Topology)
        } else {
            None
        }
    }

    fn volumes_reach(&self, class: &Class, at: usize) -> bool {
        let any = |choices: &Vec<ReqId>| choices.iter().any(|choice| self.world.satisfying(*choice).get(at));
        class.reach.choices.iter().all(any)
    }

    fn volumes_attach(&self, class: &Class, at: usize) -> bool {
        let limits = &self.world.targets[at].node.volume_limits;
        limits.iter().all(|(driver, limit)| {
            let attached = self.touched.attached(self.world.targets, at).get(driver);
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

    /// Books a pod on a target.
    pub(crate) fn place_on_target(&mut self, at: usize, class: ClassId, pod: u32) {
        let world = self.world;
        let (class, target) = (world.class(class), &world.targets[at]);
        self.touched.place(world.targets, at, class, pod);
        for id in class.counted_in.iter().chain(class.repels.iter()) {
            let identity = &world.groups.list[*id as usize].identity;
            if !world.node_passes(identity.filter, &target.node) {
                continue;
            }
            match identity.key {
                TopologyKey::Host => self.counts.add_host(*id, Place::Target(at), 1),
                TopologyKey::Domain(key) => {
                    if let Some(domain) = world.keys.tables[key as usize].domain_of(at) {
                        self.counts.add_domain(*id, domain, 1);
                    }
                }
            }
        }
        self.order.push(pod);
        self.placed += 1;
    }
}
