//! From objects and settings to the inputs of decisions, as a running controller would have them.

use super::snapshot::snapshot;
use super::{Cluster, Settings};
use crate::manifests::{InputError, Unread};
use jiff::Timestamp;
use kerf_api::conditions::node_claim::DISRUPTION_REASON;
use kerf_api::labels::NODE_POOL;
use kerf_api::status::Conditioned;
use kerf_api::{NodeClaim, NodePool, taints};
use kerf_decide::{Inputs, UnreadNodes};
use kerf_disruption::Obstacle;
use kerf_model::in_flight::{InFlight, StaticPool};
use kerf_model::intern::Interner;
use kerf_model::node::Node;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::Effect;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What decisions about a cluster are made from.
#[derive(Debug)]
pub(crate) struct DecisionInputs {
    pub(crate) snapshot: Arc<Snapshot>,
    in_flight: InFlight,
    pub(crate) settings: kerf_decide::Settings,
    pub(crate) now: Timestamp,
    /// Objects that could not be read and may protect nodes.
    unread: Vec<Unread>,
}

impl DecisionInputs {
    /// Takes the inputs from a cluster. Overlays that are wrong are added to `errors`.
    pub(crate) fn new(
        mut cluster: Cluster,
        settings: &Settings,
        interner: &Arc<Interner>,
        errors: &mut Vec<InputError>,
    ) -> Self {
        let unread = std::mem::take(&mut cluster.unread);
        let (pools, claims) = (cluster.world.pools.clone(), cluster.world.claims.clone());
        let mut snapshot = snapshot(cluster, settings, interner, errors);
        let held = hold(&mut snapshot, &claims);
        let now = settings.now;
        let names = |is_one: &dyn Fn(&Unread, &Node) -> bool| {
            let nodes = snapshot.nodes.iter();
            let found = nodes.filter(|node| unread.iter().any(|unread| is_one(unread, node)));
            found.map(|node| Arc::clone(&node.name)).collect()
        };
        let unread_nodes = UnreadNodes {
            protected: names(&|unread, node| unread.may_protect(node, now)),
            full: names(&|unread, node| unread.is_on(node)),
        };
        Self {
            in_flight: InFlight {
                static_pools: static_pools(&pools, &claims, &held),
                held: Arc::new(held),
                ..InFlight::default()
            },
            settings: kerf_decide::Settings {
                unread: unread_nodes,
                ..settings.decide.clone()
            },
            snapshot,
            now,
            unread,
        }
    }

    /// The same with other actions under way.
    pub(crate) fn knowing(self, in_flight: InFlight) -> Self {
        Self { in_flight, ..self }
    }

    /// The inputs as decisions take them.
    pub(crate) fn view(&self) -> Inputs<'_> {
        Inputs {
            snapshot: &self.snapshot,
            in_flight: &self.in_flight,
            settings: &self.settings,
            now: self.now,
        }
    }

    /// What may protect a node and cannot be read.
    pub(crate) fn unread_obstacles(&self, node: &Node) -> impl Iterator<Item = Obstacle> {
        let unread = self.unread.iter().filter(|unread| unread.may_protect(node, self.now));
        unread.map(Unread::obstacle)
    }
}

/// Finds the machines that disruption commands hold, and marks them as going, so that budgets count them and their pods need places. Gives
/// their provider ids.
fn hold(snapshot: &mut Arc<Snapshot>, claims: &[NodeClaim]) -> BTreeSet<Arc<str>> {
    let reasoned = claims.iter().filter(|claim| claim.condition_is_true(DISRUPTION_REASON));
    let reasoned: BTreeSet<&str> = reasoned.filter_map(|claim| claim.metadata.name.as_deref()).collect();
    let is_held = |node: &Node| has_marks(node, &reasoned);
    if !snapshot.nodes.iter().any(|node| is_held(node)) {
        return BTreeSet::new();
    }
    let nodes = Arc::make_mut(snapshot).nodes.iter_mut();
    let held = nodes.filter(|node| is_held(node)).filter_map(|node| {
        Arc::make_mut(node).marked_for_deletion = true;
        node.provider_id.clone()
    });
    held.collect()
}

/// Whether a command holds a node: its marks are on the Node or the claim, and it is not being deleted yet (DIS-257, DIS-258).
fn has_marks(node: &Node, reasoned: &BTreeSet<&str>) -> bool {
    let mut taints = node.taints.iter();
    let tainted = taints.any(|taint| *taint.key == *taints::DISRUPTED && taint.effect == Effect::NoSchedule);
    let has_reason = || node.claim_name.as_deref().is_some_and(|claim| reasoned.contains(claim));
    node.managed && !node.lifecycle.deleting && (tainted || has_reason())
}

/// The claims of pools with a fixed number of nodes.
fn static_pools(pools: &[NodePool], claims: &[NodeClaim], held: &BTreeSet<Arc<str>>) -> BTreeMap<Arc<str>, StaticPool> {
    let of_pool = |pool: &NodePool| {
        let (name, replicas) = (pool.metadata.name.as_deref()?, pool.spec.replicas?);
        let is_of = |claim: &&NodeClaim| {
            let labels = claim.metadata.labels.as_ref();
            labels
                .and_then(|labels| labels.get(NODE_POOL))
                .is_some_and(|pool| pool == name)
        };
        let goes = |claim: &&NodeClaim| {
            let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
            claim.metadata.deletion_timestamp.is_some() || id.is_some_and(|id| held.contains(id))
        };
        let total = claims.iter().filter(is_of).count() as u64;
        let staying = claims.iter().filter(is_of).filter(|claim| !goes(claim)).count() as u64;
        let limit = pool
            .spec
            .limits
            .get("nodes")
            .map(|limit| u64::try_from(limit.units_floor()).unwrap_or(0));
        let counts = StaticPool {
            replicas: u64::try_from(replicas).unwrap_or(0),
            staying,
            room: limit.map_or(u64::MAX, |limit| limit.saturating_sub(total)),
        };
        Some((Arc::from(name), counts))
    };
    pools.iter().filter_map(of_pool).collect()
}
