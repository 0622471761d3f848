//! Machines: Nodes and NodeClaims merged by provider id (section 5.1 of `docs/behaviour/scheduling.md`).
//!
//! A machine is computed from the stores of Nodes and claims by its key, so events may arrive in any order.

use super::store::Store;
use crate::convert::{ClaimFacts, Converter, NodeFacts, value};
use crate::in_flight::Promise;
use crate::key::MachineKey;
use crate::lean::LeanNode;
use crate::object::Identity;
use kerf_api::NodeClaim;
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::pod::Pod;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Nodes and claims.
#[derive(Default, Debug)]
pub(super) struct Machines {
    pub(super) nodes: Store<NodeFacts, Arc<LeanNode>>,
    pub(super) claims: Store<ClaimFacts, Arc<NodeClaim>>,
    nodes_by_provider: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    claims_by_provider: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Attach limits by node name.
    pub(super) limits: Store<Vec<(Arc<str>, u32)>>,
}

/// SCH-054, SCH-055: whether a Node object counts, and under which key.
pub(super) fn node_key(node: &NodeFacts) -> Option<MachineKey> {
    let pool = value(&node.labels, sym::NODEPOOL);
    let Some(id) = &node.provider_id else {
        return pool.is_none().then(|| MachineKey::Node(Arc::clone(&node.name)));
    };
    let typed = value(&node.labels, sym::INSTANCE_TYPE).is_some();
    let initialized = value(&node.labels, sym::INITIALIZED) == Some(sym::TRUE);
    (pool.is_none() || typed || initialized).then(|| MachineKey::Provider(Arc::clone(id)))
}

/// The key of a claim's machine.
pub(super) fn claim_key(claim: &ClaimFacts) -> MachineKey {
    match &claim.provider_id {
        Some(id) => MachineKey::Provider(Arc::clone(id)),
        None => MachineKey::Planned(Arc::clone(&claim.name)),
    }
}

impl Machines {
    /// Sets or removes a Node, and returns its former facts; `None` if there was no such Node.
    pub(super) fn set_node(
        &mut self,
        id: &Identity,
        node: Option<(Arc<LeanNode>, NodeFacts)>,
    ) -> Option<Option<NodeFacts>> {
        let before = match node {
            Some((object, facts)) => self.nodes.put(id, object, facts),
            None => Some(self.nodes.take(id)?),
        };
        let before = before.map(|entry| entry.facts);
        let provider_id = |facts: &NodeFacts| Some((facts.provider_id.clone()?, Arc::clone(&facts.name)));
        let after = self.nodes.get(&id.key).and_then(provider_id);
        reindex(
            &mut self.nodes_by_provider,
            before.as_ref().and_then(provider_id),
            after,
        );
        Some(before)
    }

    /// The same for a claim.
    pub(super) fn set_claim(
        &mut self,
        id: &Identity,
        claim: Option<(Arc<NodeClaim>, ClaimFacts)>,
    ) -> Option<Option<ClaimFacts>> {
        let before = match claim {
            Some((object, facts)) => self.claims.put(id, object, facts),
            None => Some(self.claims.take(id)?),
        };
        let before = before.map(|entry| entry.facts);
        let provider_id = |facts: &ClaimFacts| Some((facts.provider_id.clone()?, Arc::clone(&facts.name)));
        let after = self.claims.get(&id.key).and_then(provider_id);
        reindex(
            &mut self.claims_by_provider,
            before.as_ref().and_then(provider_id),
            after,
        );
        Some(before)
    }

    /// The Nodes with a provider id, by name.
    pub(super) fn nodes_with(&self, provider_id: &str) -> Vec<Arc<LeanNode>> {
        let names = self.nodes_by_provider.get(provider_id).into_iter().flatten();
        names.filter_map(|name| self.nodes.object(name)).collect()
    }

    /// The claims with a provider id, by name.
    pub(super) fn claims_with(&self, provider_id: &str) -> Vec<Arc<NodeClaim>> {
        let names = self.claims_by_provider.get(provider_id).into_iter().flatten();
        names.filter_map(|name| self.claims.object(name)).collect()
    }

    /// The Node object of a machine. Of several with one provider id the newest counts, and of those the last by name: that is where the
    /// instance runs now.
    pub(super) fn node_of(&self, key: &MachineKey) -> Option<&NodeFacts> {
        match key {
            MachineKey::Node(name) => self
                .nodes
                .named(name)
                .filter(|node| node_key(node).as_ref() == Some(key)),
            MachineKey::Planned(_) => None,
            MachineKey::Provider(id) => {
                let names = self.nodes_by_provider.get(id).into_iter().flatten();
                let nodes = names.filter_map(|name| self.nodes.named(name));
                nodes
                    .filter(|node| node_key(node).is_some())
                    .max_by_key(|node| (node.created, Arc::clone(&node.name)))
            }
        }
    }

    /// Whether several Nodes, or several claims, have the provider id of a machine.
    pub(super) fn is_doubled(&self, key: &MachineKey) -> bool {
        let MachineKey::Provider(id) = key else { return false };
        let several =
            |index: &BTreeMap<Arc<str>, BTreeSet<Arc<str>>>| index.get(id).is_some_and(|names| names.len() > 1);
        several(&self.nodes_by_provider) || several(&self.claims_by_provider)
    }

    /// The claim of a machine; of several with one provider id the oldest, then the first by name.
    pub(super) fn claim_of(&self, key: &MachineKey) -> Option<&ClaimFacts> {
        match key {
            MachineKey::Node(_) => None,
            MachineKey::Planned(name) => self.claims.named(name).filter(|claim| claim.provider_id.is_none()),
            MachineKey::Provider(id) => {
                let names = self.claims_by_provider.get(id).into_iter().flatten();
                let claims = names.filter_map(|name| self.claims.named(name));
                claims.min_by_key(|claim| (claim.created, Arc::clone(&claim.name)))
            }
        }
    }
}

fn reindex(
    index: &mut BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    before: Option<(Arc<str>, Arc<str>)>,
    after: Option<(Arc<str>, Arc<str>)>,
) {
    if before == after {
        return;
    }
    if let Some((id, name)) = before
        && let Some(names) = index.get_mut(&id)
    {
        names.remove(&name);
        if names.is_empty() {
            index.remove(&id);
        }
    }
    if let Some((id, name)) = after {
        index.entry(id).or_default().insert(name);
    }
}

impl Converter {
    /// A claim that is not launched, as a machine that is full of what was promised to it (see [`Promise`]).
    pub(super) fn planned(&self, claim: &ClaimFacts, promise: &Promise, pods: Vec<Arc<Pod>>) -> Node {
        let mut labels = claim.labels.clone();
        let known = claim.labels.clone();
        labels.extend(
            claim
                .expected_labels
                .iter()
                .filter(|(key, _)| value(&known, *key).is_none()),
        );
        labels.sort_unstable();
        let mut lifecycle = claim.lifecycle.clone();
        lifecycle.do_not_disrupt = claim.do_not_disrupt;
        lifecycle.deleting = claim.deleting;
        let mut requested = claim.requests.clone();
        requested.subtract(&promise.freed);
        // What the claim asks for beyond its pods is for daemons: room that was made for them once is not kept free for them again.
        let mut daemons = requested.clone();
        for pod in &promise.pods {
            daemons.subtract(&pod.requests);
        }
        let daemons = daemons.iter().map(|(name, amount)| (name, amount.max(0)));
        let mut capacity = claim.requests.clone();
        capacity.max_with(&promise.capacity);
        Node {
            name: Arc::clone(&claim.name),
            node_name: None,
            claim_name: Some(Arc::clone(&claim.name)),
            provider_id: None,
            pool: value(&labels, sym::NODEPOOL),
            registered: false,
            initialized: false,
            hostname: self.interner().intern(&claim.name),
            labels,
            taints: self.lasting(claim.taints.clone(), Some(claim)),
            capacity: capacity.with(sym::NODES, 1),
            allocatable: claim.requests.clone(),
            requested,
            daemon_requested: daemons.collect(),
            pods,
            volume_limits: Vec::new(),
            marked_for_deletion: claim.is_going(),
            nominated_until: None,
            created: claim.created,
            price: None,
            managed: true,
            lifecycle,
        }
    }
}
