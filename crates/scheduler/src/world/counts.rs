//! The pods that run already, as groups count them.

use crate::prepared::Counted;
use crate::topology::{Counts, GroupCounts, GroupId, GroupKind, KeyTable, TopologyKey, selects};
use crate::world::{Moved, World};
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::pod::{AffinityTerm, Pod};

impl World<'_> {
    /// Counts the pods that run already (SCH-201 to SCH-204, SCH-237).
    pub(super) fn count(&mut self, moved: &Moved<'_>) {
        let list = (0..self.groups.list.len() as GroupId).map(|id| {
            if self.groups.list[id as usize].kind() == GroupKind::Inverse {
                self.count_repelling(id, moved)
            } else {
                self.count_selected(id, moved)
            }
        });
        self.counts = Counts { list: list.collect() };
    }

    /// A group's table of domains, unless its key is the hostname.
    fn table(&self, id: GroupId) -> Option<&KeyTable> {
        match self.groups.list[id as usize].identity.key {
            TopologyKey::Host => None,
            TopologyKey::Domain(key) => Some(&*self.keys.tables[key as usize]),
        }
    }

    fn count_selected(&self, id: GroupId, moved: &Moved<'_>) -> GroupCounts {
        let identity = &self.groups.list[id as usize].identity;
        let table = self.table(id);
        let what = Counted {
            key: table.map_or(sym::HOSTNAME, |table| table.key),
            selected: identity.selected.clone(),
            filter: self.filter(identity.filter),
        };
        let selected = |pod: &Pod| selects(self.snapshot, &identity.selected, pod);
        let of_node = |node: &Node| {
            let passes = self.node_passes(identity.filter, node);
            let pods = node
                .pods
                .iter()
                .filter(|pod| passes && pod.is_active() && selected(pod));
            pods.count() as u32
        };
        let recount = |counts: &mut GroupCounts, at: usize, before: &Node| {
            let target = self.targets.of_node(at);
            for _ in 0..of_node(before) {
                counts.remove_bound(table, before, target);
            }
            let node = &self.snapshot.nodes[at];
            match of_node(node) {
                0 => {}
                n => counts.add_bound(table, node, target, n),
            }
        };
        let count = || {
            let mut counts = GroupCounts::none(table, self.targets.len());
            for (pod, on) in self.prepared.bound.alike(self.snapshot) {
                if !selected(pod) {
                    continue;
                }
                for (at, n) in on {
                    let node = &self.snapshot.nodes[*at as usize];
                    if self.node_passes(identity.filter, node) {
                        counts.add_bound(table, node, self.targets.of_node(*at as usize), *n);
                    }
                }
            }
            counts
        };
        let counts = self.prepared.counts(what, count, recount);
        let mut counts = GroupCounts::clone(&counts);
        for (at, _) in moved.iter().filter(|(_, pod)| pod.is_active() && selected(pod)) {
            let node = &self.snapshot.nodes[*at];
            if self.node_passes(identity.filter, node) {
                counts.remove_bound(table, node, self.targets.of_node(*at));
            }
        }
        counts
    }

    fn count_repelling(&self, id: GroupId, moved: &Moved<'_>) -> GroupCounts {
        let identity = &self.groups.list[id as usize].identity;
        let table = self.table(id);
        let mut counts = GroupCounts::none(table, self.targets.len());
        let Some(selection) = identity.selected.first() else {
            return counts;
        };
        let term = AffinityTerm {
            key: table.map_or(sym::HOSTNAME, |table| table.key),
            selector: selection.selector.clone(),
            namespaces: selection.scope.clone(),
        };
        for (at, n) in self.prepared.bound.with_term(&term) {
            let node = &self.snapshot.nodes[*at as usize];
            counts.add_bound(table, node, self.targets.of_node(*at as usize), *n);
        }
        for (at, pod) in moved {
            for _ in pod.shape.anti_affinity.iter().filter(|own| **own == term) {
                counts.remove_bound(table, &self.snapshot.nodes[*at], self.targets.of_node(*at));
            }
        }
        counts
    }
}
