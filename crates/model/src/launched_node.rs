//! The node that a launch becomes if the provider gives its cheapest offering.

use crate::intern::{Interner, Sym, sym};
use crate::node::Node;
use crate::nodepool::NodePool;
use crate::plan::Launch;
use crate::requirement::Requirements;
use std::sync::Arc;

impl Launch {
    /// The initialized node without pods and without lifecycle that the cheapest offering gives. `None` where that offering is not known.
    /// `pool` is the launch's.
    pub fn cheapest_node(&self, pool: &NodePool, name: Arc<str>, interner: &Interner) -> Option<Node> {
        let (instance_type, offering) = self.cheapest?;
        let instance_type = self.catalogue.types.get(instance_type as usize)?;
        let offering = instance_type.offerings.get(offering as usize)?;
        let hostname = interner.intern(&name);
        let given = [&offering.requirements, &instance_type.requirements, &self.requirements];
        let mut labels = vec![
            (sym::HOSTNAME, hostname),
            (sym::NODEPOOL, pool.label),
            (sym::INSTANCE_TYPE, instance_type.name),
        ];
        labels.extend(single_values(given));
        labels.extend(pool.labels.iter().copied());
        // The sort is stable: of several values of a key the first counts.
        labels.sort_by_key(|(key, _)| *key);
        labels.dedup_by_key(|(key, _)| *key);
        let huge_pages = |name: Sym| interner.text(name).starts_with("hugepages-");
        Some(Node {
            node_name: Some(Arc::clone(&name)),
            claim_name: Some(Arc::clone(&name)),
            provider_id: Some(Arc::clone(&name)),
            pool: Some(pool.label),
            registered: true,
            initialized: true,
            labels,
            taints: pool.taints.clone(),
            allocatable: instance_type.allocatable_of(offering, huge_pages),
            capacity: instance_type.capacity_of(offering).with(sym::NODES, 1),
            price: Some(offering.price),
            managed: true,
            ..Node::empty(name, hostname)
        })
    }
}

/// The labels whose value requirements leave no choice of.
fn single_values<'x>(requirements: [&'x Requirements; 3]) -> impl Iterator<Item = (Sym, Sym)> + 'x {
    let all = requirements.into_iter().flat_map(Requirements::iter);
    all.filter_map(|requirement| Some((requirement.key, requirement.single()?)))
}
