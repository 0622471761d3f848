//! When pods last came to or left a claim's node (the controller `nodeclaim.podevents`; LIF-137 to LIF-140).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kerf_api::NodeClaim;
use kerf_runtime::client::found;
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::changes::{Change, PodChange};
use crate::claim_facts;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};
use crate::termination::deadline::rfc3339;

const NAME: &str = "nodeclaim.podevents";
/// LIF-139: below the time consolidation waits before it acts, so that churn meanwhile is noticed.
const EVERY: SignedDuration = SignedDuration::from_secs(10);

/// The node on which something happened that counts: a pod that is no daemon was bound, finished or is to go (LIF-137), or is
/// first seen bound (LIF-138). That it is gone counts no more; that it was to go did.
fn affected(change: &PodChange) -> Option<&Arc<str>> {
    let after = change.after.as_ref().filter(|facts| !facts.daemon)?;
    let node = after.node.as_ref()?;
    let before = change.before.as_ref().filter(|before| before.uid == after.uid);
    let counts = before.is_none_or(|before| {
        before.node.is_none() || (after.terminal && !before.terminal) || (after.terminating && !before.terminating)
    });
    counts.then_some(node)
}

/// Keeps `status.lastPodEventTime`.
pub(crate) struct PodEvents {
    context: Context,
    work: WorkLoop<String>,
}

impl PodEvents {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            work: WorkLoop::new(context, NAME, RateLimit::DEFAULT).for_kind::<Pod>(),
        })
    }
}

impl Reconciler for PodEvents {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Pod(pod) => affected(pod).map(ToString::to_string).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Notes an event on a node, by the node's name.
    async fn reconcile(&self, node: &String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        let Some(node) = cluster.node(node).filter(|node| !node.spec.provider_id.is_empty()) else {
            return Ok(Outcome::Done);
        };
        let claims = cluster.claims_by_provider_id(&node.spec.provider_id);
        let [claim] = claims.as_slice() else {
            return Ok(Outcome::Done);
        };
        let now = self.context.now();
        let last = claim
            .status
            .as_ref()
            .and_then(|status| status.last_pod_event_time.as_ref());
        // One in the future was written by a clock that was wrong.
        let is_fresh = |last: Timestamp| last <= now && now.duration_since(last) < EVERY;
        if last.is_some_and(|last| is_fresh(last.0)) {
            return Ok(Outcome::Done);
        }
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        let patch = json!({"status": {"lastPodEventTime": rfc3339(now)}});
        let written = api
            .patch_status(claim_facts::name(claim), &PatchParams::default(), &Patch::Merge(patch))
            .await;
        if let Some(stored) = found(written)? {
            cluster.wrote_claim(stored);
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::PodFacts;

    fn facts(node: Option<&str>) -> PodFacts {
        PodFacts {
            uid: "uid".into(),
            node: node.map(Into::into),
            terminal: false,
            terminating: false,
            daemon: false,
            provisionable: false,
        }
    }

    fn counts(before: Option<PodFacts>, after: Option<PodFacts>) -> bool {
        let change = PodChange {
            namespace: "default".into(),
            name: "web".into(),
            before,
            after,
            listed: false,
        };
        affected(&change).is_some()
    }

    #[test]
    fn coming_finishing_and_going_count() {
        let bound = || facts(Some("n"));
        let terminal = || PodFacts {
            terminal: true,
            ..bound()
        };
        let terminating = || PodFacts {
            terminating: true,
            ..bound()
        };
        // LIF-137
        assert!(counts(Some(facts(None)), Some(bound())));
        assert!(counts(Some(bound()), Some(terminal())));
        assert!(counts(Some(bound()), Some(terminating())));
        assert!(!counts(Some(bound()), Some(bound())));
        assert!(!counts(
            Some(facts(None)),
            Some(PodFacts {
                daemon: true,
                ..bound()
            })
        ));
        // LIF-138
        assert!(counts(None, Some(bound())));
        assert!(!counts(None, Some(facts(None))));
        assert!(!counts(Some(terminating()), None));
    }
}
