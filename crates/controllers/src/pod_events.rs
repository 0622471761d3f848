//! Records when pods were last bound to or left a claim's node (the controller `nodeclaim.podevents`; LIF-137 to LIF-140).
//!
//! The initialization of a claim counts as such an event, and the lifecycle controller records it. Events before it are not recorded:
//! consolidation counts from the initialization at the earliest. Nor are events of a claim that is being deleted: consolidation does not choose it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kerf_api::NodeClaim;
use kerf_api::conditions::node_claim::{CONSOLIDATABLE, INITIALIZED};
use kerf_api::status::Conditioned;
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use serde_json::json;

use crate::changes::{Change, PodChange};
use crate::claim_facts;
use crate::claim_writes::{set_status_field, write_status};
use crate::context::Context;
use crate::deadline::rfc3339;
use crate::disruption::update_consolidatable;
use crate::pod_event_time::set_pod_event_time;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "nodeclaim.podevents";
/// The least time between two writes (LIF-139): shorter than consolidation waits before it acts, so that it notices changes meanwhile.
const WRITE_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// The node of a change that counts: a pod of no DaemonSet was bound, finished or is being deleted (LIF-137), or is first seen bound
/// (LIF-138). The end of a deleted pod does not count again.
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

    /// Records an event on the node of this name.
    async fn reconcile(&self, node: &String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        let Some(node) = cluster.node(node).filter(|node| !node.spec.provider_id.is_empty()) else {
            return Ok(Outcome::Done);
        };
        let claims = cluster.claims_by_provider_id(&node.spec.provider_id);
        let [claim] = claims.as_slice() else {
            return Ok(Outcome::Done);
        };
        // The initialization is the first event, the deletion ends the recording.
        if !claim.condition_is_true(INITIALIZED) || claim_facts::is_deleting(claim) {
            return Ok(Outcome::Done);
        }
        let now = self.context.now();
        let last = claim
            .status
            .as_ref()
            .and_then(|status| status.last_pod_event_time.as_ref());
        // A time in the future was written when the clock was wrong.
        let is_fresh = |last: Timestamp| last <= now && now.duration_since(last) < WRITE_EVERY;
        if last.is_some_and(|last| is_fresh(last.0)) {
            return Ok(Outcome::Done);
        }
        let pool = claim_facts::pool(claim).and_then(|pool| cluster.pool(pool));
        // Its end as `Consolidatable` belongs to the same event, so both are one write.
        if let Some(pool) = pool.filter(|_| claim.condition(CONSOLIDATABLE).is_some()) {
            let mut after = NodeClaim::clone(claim);
            set_pod_event_time(&mut after, now);
            update_consolidatable(&mut after, &pool, now)?;
            write_status(&self.context, claim, &after).await?;
        } else {
            set_status_field(&self.context, claim, "lastPodEventTime", &json!(rfc3339(now))).await?;
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use kerf_cloud::FAKE_NODE_CLASS;
    use kerf_state::lean::LeanNode;
    use serde_json::from_value;

    use super::*;
    use crate::changes::PodFacts;
    use crate::cluster::Watched;

    fn facts(node: Option<&str>) -> PodFacts {
        PodFacts {
            uid: "uid".into(),
            node: node.map(Into::into),
            terminal: false,
            terminating: false,
            daemon: false,
            provisionable: false,
            untried: false,
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

    // LIF-137
    #[tokio::test]
    async fn only_initialized_claims_that_stay_are_written() {
        // Every call fails, so a reconciliation that writes returns an error.
        let context = Context::without_api();
        let (events, cluster) = (PodEvents::new(&context), &context.cluster);
        let claim = |name: &str, initialized: &str, deleted: Option<&str>| {
            let condition = json!({"type": "Initialized", "status": initialized, "reason": "Initialized", "message": "",
                "lastTransitionTime": "1970-01-01T00:00:00Z"});
            let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
            let claim = json!({
                "metadata": {"name": name, "uid": name, "resourceVersion": "1", "deletionTimestamp": deleted,
                    "finalizers": ["karpenter.sh/termination"]},
                "spec": {"requirements": [], "nodeClassRef": class},
                "status": {"providerID": format!("p://{name}"), "conditions": [condition]},
            });
            from_value::<NodeClaim>(claim).expect("a claim")
        };
        let claims = [
            claim("stays", "True", None),
            claim("starts", "Unknown", None),
            claim("goes", "True", Some("1970-01-01T00:00:00Z")),
        ];
        for claim in claims {
            let name = claim.metadata.name.clone();
            cluster.notify(Watched::apply(cluster, claim));
            let id = name.as_deref().map(|name| format!("p://{name}"));
            let node = json!({"metadata": {"name": name, "uid": name}, "spec": {"providerID": id}});
            let node = from_value::<LeanNode>(node).expect("a node");
            cluster.notify(Watched::apply(cluster, node));
        }
        let is_written = async |node: &str| events.reconcile(&node.to_owned()).await.is_err();
        assert!(is_written("stays").await);
        assert!(!is_written("starts").await);
        assert!(!is_written("goes").await);
    }
}
