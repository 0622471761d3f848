//! Pods that wait for a node, and where they are to run.

use super::Mirror;
use crate::convert::NodeNomination;
use crate::key::Key;
use kerf_model::pod::Pod;
use std::sync::Arc;

/// A pod that waits for a node.
#[derive(Clone, Debug)]
pub struct WaitingPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The version of the object it was read from.
    pub version: u64,
    /// The NodeClaim onto which the last provisioning pass planned it.
    pub claim: Option<Arc<str>>,
    /// Whether that pass nominates it to the claim's node.
    pub nominated: bool,
    /// Which nodes it was nominated to.
    pub nomination: NodeNomination,
}

impl Mirror {
    /// The pods without a node that are planned onto a NodeClaim, and those that Kerf has nominated to a node.
    pub fn waiting_pods(&self) -> Vec<WaitingPod> {
        let waiting = self.pending.keys().chain(self.untried.keys());
        let keys = waiting.chain(self.in_flight.promises.pods());
        keys.filter_map(|key| self.waiting_pod(key)).collect()
    }

    fn waiting_pod(&self, key: &Key) -> Option<WaitingPod> {
        let entry = self.pods.entry(key)?;
        let waits = entry.facts.provisionable || entry.facts.untried;
        let claim = self.in_flight.pod_times.claim(key).cloned();
        let nomination = entry.facts.nomination.as_deref().cloned().unwrap_or_default();
        (waits && (claim.is_some() || nomination.is_by_kerf())).then(|| WaitingPod {
            pod: Arc::clone(&entry.facts.pod),
            version: entry.version,
            claim,
            nominated: self.in_flight.pod_times.is_nominated(key),
            nomination,
        })
    }
}
