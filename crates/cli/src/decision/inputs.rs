//! From objects and settings to the inputs of decisions, as a running controller would have them.

use super::mirror::mirror;
use super::{Cluster, Settings};
use crate::manifests::InputError;
use jiff::Timestamp;
use kerf_api::conditions::node_claim::DISRUPTION_REASON;
use kerf_api::status::Conditioned;
use kerf_api::{NodeClaim, taints};
use kerf_decide::{Inputs, UnreadNodes};
use kerf_model::in_flight::InFlight;
use kerf_model::intern::Interner;
use kerf_model::node::Node;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::Effect;
use kerf_state::Mirror;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What decisions about a cluster are made from.
#[derive(Debug)]
pub(crate) struct DecisionInputs {
    pub(crate) snapshot: Arc<Snapshot>,
    in_flight: InFlight,
    pub(crate) settings: kerf_decide::Settings,
    pub(crate) now: Timestamp,
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
        let claims = cluster.objects.claims.clone();
        let now = settings.now;
        let mut mirror = mirror(cluster, settings, interner, errors);
        let held = hold(&mut mirror, &claims, now);
        let (snapshot, in_flight) = mirror.decision_state(now);
        Self {
            in_flight: InFlight {
                command_machines: Arc::new(held),
                ..in_flight
            },
            settings: kerf_decide::Settings {
                unread: UnreadNodes::new(unread, &snapshot, now),
                ..settings.decide.clone()
            },
            snapshot,
            now,
        }
    }

    /// The same with other actions in flight, and with the nominations of another snapshot of the cluster.
    pub(crate) fn knowing(self, in_flight: InFlight, nominations: &Snapshot) -> Self {
        let mut snapshot = Snapshot::clone(&self.snapshot);
        for node in &mut snapshot.nodes {
            let nominated = nominations.node(&node.name).and_then(|other| other.nominated_until);
            if node.nominated_until != nominated {
                Arc::make_mut(node).nominated_until = nominated;
            }
        }
        Self {
            in_flight,
            snapshot: Arc::new(snapshot),
            ..self
        }
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
}

/// Finds the machines that disruption commands hold, and marks them as going, so that budgets count them and their pods need places. Gives
/// their provider ids.
fn hold(mirror: &mut Mirror, claims: &[NodeClaim], now: Timestamp) -> BTreeSet<Arc<str>> {
    let reasoned = claims.iter().filter(|claim| claim.condition_is_true(DISRUPTION_REASON));
    let reasoned: BTreeSet<&str> = reasoned.filter_map(|claim| claim.metadata.name.as_deref()).collect();
    let snapshot = mirror.snapshot(now);
    let nodes = snapshot.nodes.iter().filter(|node| has_marks(node, &reasoned));
    let held: BTreeSet<Arc<str>> = nodes.filter_map(|node| node.provider_id.clone()).collect();
    for id in &held {
        mirror.mark_for_deletion(id);
    }
    held
}

/// Whether a command holds a node: its marks are on the Node or the claim, and it is not being deleted yet (DIS-257, DIS-258).
fn has_marks(node: &Node, reasoned: &BTreeSet<&str>) -> bool {
    let mut taints = node.taints.iter();
    let tainted = taints.any(|taint| *taint.key == *taints::DISRUPTED && taint.effect == Effect::NoSchedule);
    let has_reason = || node.claim_name.as_deref().is_some_and(|claim| reasoned.contains(claim));
    node.managed && !node.lifecycle.deleting && (tainted || has_reason())
}
