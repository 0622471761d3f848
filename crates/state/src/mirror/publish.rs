//! Snapshots: rebuilding what changed and sharing the rest.

use super::Mirror;
use crate::convert::{ClaimFacts, MachineParts, Usage};
use crate::key::MachineKey;
use jiff::Timestamp;
use kerf_model::node::Node;
use kerf_model::nodepool::NodePool;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

impl Mirror {
    /// The cluster as it is known. Applies the events and commands since the last snapshot; nothing expires here, only in [`Mirror::expire`].
    /// `now` decides only whether a machine that changed still settles. Returns the last snapshot if nothing changed.
    pub fn snapshot(&mut self, now: Timestamp) -> Arc<Snapshot> {
        self.update_machines(now);
        if !self.has_changes() {
            return Arc::clone(&self.published);
        }
        let dirty = std::mem::take(&mut self.dirty);
        let machines = dirty.shown;
        let last = &self.published;
        let next = Snapshot {
            interner: Arc::clone(&last.interner),
            well_known: Arc::clone(&last.well_known),
            reservation_key: last.reservation_key,
            nodes: if machines {
                self.shown.values().cloned().collect()
            } else {
                last.nodes.clone()
            },
            pending: if dirty.pending {
                self.capacity_buffers.with_virtual_pods(self.pending.values())
            } else {
                last.pending.clone()
            },
            untried: if dirty.pending {
                self.untried.values().cloned().collect()
            } else {
                last.untried.clone()
            },
            pools: if dirty.pools {
                self.pools.shown()
            } else {
                last.pools.clone()
            },
            daemons: if dirty.daemons {
                let pods = &self.pods;
                let shape = |key: &_| pods.get(key).map(|entry| Arc::clone(&entry.pod.shape));
                self.daemons.shown(&mut self.converter, shape)
            } else {
                last.daemons.clone()
            },
            pdbs: if dirty.pdbs {
                self.pdbs.iter().map(|(_, pdb)| Arc::clone(pdb)).collect()
            } else {
                last.pdbs.clone()
            },
            namespaces: if dirty.namespaces {
                self.namespaces
                    .iter()
                    .map(|(key, labels)| (Arc::clone(&key.1), Arc::clone(labels)))
                    .collect()
            } else {
                last.namespaces.clone()
            },
        };
        self.published = Arc::new(next);
        Arc::clone(&self.published)
    }

    /// The snapshot given last.
    pub const fn last_snapshot(&self) -> &Arc<Snapshot> {
        &self.published
    }

    /// Whether the next snapshot may differ from the one given last.
    pub fn has_changes(&self) -> bool {
        self.dirty.is_any()
    }

    /// A pool with its usage and its limits. Nothing expires here, as in [`Mirror::snapshot`]. The cost depends on what changed since the last
    /// call or snapshot, not on the size of the cluster, so that every launch can check the limits.
    pub fn pool(&mut self, name: &str, now: Timestamp) -> Option<NodePool> {
        self.update_machines(now);
        self.pools.shown_pool(name)
    }

    /// Brings the machines and the usage of the pools up to date.
    fn update_machines(&mut self, now: Timestamp) {
        self.dirty.shown |= self.rebuild_machines(now);
    }

    /// Updates every machine that is marked; true if any is different now.
    fn rebuild_machines(&mut self, now: Timestamp) -> bool {
        let mut changed = false;
        for key in std::mem::take(&mut self.dirty.machines) {
            let after = self.machine(&key, now);
            self.note_restart(&key, after.as_ref(), now);
            let name = self.shown_name.get(&key).cloned();
            let before = name.and_then(|name| self.shown.remove(&(name, key.clone())));
            self.note_consolidation(before.as_deref(), after.as_ref());
            if after.is_none() {
                self.forget_machine(&key);
            }
            self.dirty.pools |= self.pools.account(before.as_deref(), after.as_ref());
            let after = match (before, after) {
                (Some(before), Some(after)) if *before == after => Some(before),
                (None, None) => None,
                (_, after) => {
                    changed = true;
                    after.map(Arc::new)
                }
            };
            match after {
                Some(node) => {
                    self.shown_name.insert(key.clone(), Arc::clone(&node.name));
                    self.shown.insert((Arc::clone(&node.name), key), node);
                }
                None => {
                    self.shown_name.remove(&key);
                }
            }
        }
        changed
    }

    /// Sets or removes the time at which a machine that was initialised no longer counts as starting.
    fn note_restart(&mut self, key: &MachineKey, shown: Option<&Node>, now: Timestamp) {
        let starts = shown.is_some_and(|node| node.managed && !node.initialized);
        let until = self.machines.claim_of(key).and_then(ClaimFacts::settled_at);
        let until = until.filter(|until| starts && now < *until);
        self.in_flight.restarts.set(key, until);
    }

    /// Forgets what is in flight for a machine that is gone.
    fn forget_machine(&mut self, key: &MachineKey) {
        self.in_flight.nominations.forget(key);
        self.in_flight.deletion_marks.forget(key);
    }

    /// Raises the consolidation epoch if a machine appeared, became initialised, began to be deleted, or has room or
    /// conditions for pods that it did not have (LIF-207, LIF-208). Marks of commands do not count.
    fn note_consolidation(&mut self, before: Option<&Node>, after: Option<&Node>) {
        let Some(after) = after else { return };
        let going = |node: &Node| {
            let lifecycle = &node.lifecycle;
            lifecycle.instance_terminating || (lifecycle.deleting && node.marked_for_deletion)
        };
        // Pods leave a node without being deleted when they end. Both lists have one order.
        let freed = |before: &Node| {
            let mut kept = after.pods.iter();
            !before.pods.iter().all(|pod| kept.any(|kept| kept.uid == pod.uid))
        };
        let has_changed = |before: &Node| {
            before.allocatable != after.allocatable || before.taints != after.taints || before.labels != after.labels
        };
        let moved = before.is_none_or(|before| {
            before.initialized != after.initialized
                || going(before) != going(after)
                || before.lifecycle.buffer_pods > after.lifecycle.buffer_pods
                || (before.initialized && (has_changed(before) || freed(before)))
        });
        self.epoch += u64::from(moved);
    }

    fn machine(&mut self, key: &MachineKey, now: Timestamp) -> Option<Node> {
        let claim = self.machines.claim_of(key);
        if let MachineKey::Planned(name) = key {
            let promise = self.in_flight.promises.of_claim(name)?;
            let pods: Vec<Arc<Pod>> = promise
                .pods
                .iter()
                .filter_map(|promised| Some((promised, self.pods.get(&promised.key)?)))
                .filter(|(promised, entry)| entry.pod.uid == promised.uid && !entry.pod.phase.is_terminal())
                .map(|(_, entry)| Arc::clone(&entry.pod))
                .collect();
            return Some(self.converter.planned(claim?, promise, pods));
        }
        let node = self.machines.node_of(key);
        let limits = node.and_then(|node| self.machines.limits.named(&node.name));
        let parts = MachineParts {
            node,
            claim,
            pods: node.map_or_else(Vec::new, |node| self.occupancy.pods(&node.name).to_vec()),
            usage: node.map_or_else(Usage::default, |node| self.occupancy.usage(&node.name)),
            volume_limits: limits.cloned().unwrap_or_default(),
            marked: self.in_flight.deletion_marks.has(key),
            doubled: self.machines.is_doubled(key),
            nominated_until: self.in_flight.nominations.until(key),
            buffer_pods: self.in_flight.buffer_pods.on(key),
            settling: claim.and_then(ClaimFacts::settled_at).is_some_and(|until| now < until),
        };
        self.converter.machine(parts, |labels| self.pools.price(labels))
    }
}
