//! The initial counts of groups: the pods that already run.

use crate::compile::prepared::CountKey;
use crate::compile::problem::{BoundPods, Problem};
use crate::compile::topology::{Counts, GroupCounts, GroupId, GroupKind, KeyTable, TopologyKey, selects};
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::pod::{AffinityTerm, Pod};

impl Problem<'_> {
    /// Counts the running pods for every group (SCH-201 to SCH-204, SCH-237).
    pub(crate) fn count_running(&mut self, bound_pods: &BoundPods<'_>) {
        let list = self.groups.list.ids().map(|id| {
            if self.groups.list[id].kind() == GroupKind::Inverse {
                self.count_repelling(id, bound_pods)
            } else {
                self.count_selected(id, bound_pods)
            }
        });
        self.counts = Counts { list: list.collect() };
    }

    /// The domain table of a group's key; `None` for the hostname.
    fn table(&self, id: GroupId) -> Option<&KeyTable> {
        match self.groups.list[id].identity.key {
            TopologyKey::Host => None,
            TopologyKey::Domain(key) => Some(&*self.keys.tables[key]),
        }
    }

    /// The running pods that a spread, affinity or anti-affinity group selects.
    fn count_selected(&self, id: GroupId, bound_pods: &BoundPods<'_>) -> GroupCounts {
        let identity = &self.groups.list[id].identity;
        let table = self.table(id);
        let what = CountKey {
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
                counts.remove_running(table, before, target);
            }
            let node = &self.snapshot.nodes[at];
            match of_node(node) {
                0 => {}
                n => counts.add_running(table, node, target, n),
            }
        };
        let count = || {
            let mut counts = GroupCounts::none(table, self.targets.len());
            for (pod, on) in self.prepared.running_pods.alike(self.snapshot) {
                if !selected(pod) {
                    continue;
                }
                for (at, n) in on {
                    let node = &self.snapshot.nodes[*at as usize];
                    if self.node_passes(identity.filter, node) {
                        counts.add_running(table, node, self.targets.of_node(*at as usize), *n);
                    }
                }
            }
            counts
        };
        let counts = self.prepared.counts(what, count, recount);
        let mut counts = GroupCounts::clone(&counts);
        for (at, _) in bound_pods.iter().filter(|(_, pod)| pod.is_active() && selected(pod)) {
            let node = &self.snapshot.nodes[*at];
            if self.node_passes(identity.filter, node) {
                counts.remove_running(table, node, self.targets.of_node(*at));
            }
        }
        counts
    }

    /// The running pods that have the anti-affinity term of an inverse group.
    fn count_repelling(&self, id: GroupId, bound_pods: &BoundPods<'_>) -> GroupCounts {
        let identity = &self.groups.list[id].identity;
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
        for (at, n) in self.prepared.running_pods.nodes_with_term(&term) {
            let node = &self.snapshot.nodes[*at as usize];
            counts.add_running(table, node, self.targets.of_node(*at as usize), *n);
        }
        for (at, pod) in bound_pods {
            for _ in pod.shape.anti_affinity.iter().filter(|own| **own == term) {
                counts.remove_running(table, &self.snapshot.nodes[*at], self.targets.of_node(*at));
            }
        }
        counts
    }
}
