//! Records what the registration of a claim's node means for the health of its pool (LIF-059 to LIF-063).

use kerf_api::conditions::node_claim::LAUNCHED;
use kerf_api::conditions::node_pool::{REGISTRATION_FAILED, REGISTRATION_FAILED_MESSAGE};
use kerf_api::status::Conditioned;
use kerf_api::{NodeClaim, NodePool};
use kerf_lifecycle::registration_health::{Failure, Registration};
use kube::Resource;

use super::controller::Lifecycle;
use crate::claim_facts;

/// Records whether the node of a claim registered. Only claims that name the pool as their owner count (LIF-059, LIF-063).
///
/// The pool's own controller writes the condition (LIF-239): a pool that cannot be written delays no claim, and no outcome is lost.
pub(super) fn record(lifecycle: &Lifecycle, claim: &NodeClaim, registration: Registration) {
    let Some(name) = claim_facts::pool(claim) else { return };
    let Some(pool) = lifecycle.context.cluster.pool(name) else {
        return;
    };
    let (Some(uid), Some(claim_uid)) = (pool.metadata.uid.as_deref(), claim_facts::uid(claim)) else {
        return;
    };
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    if owners
        .iter()
        .any(|owner| owner.kind == NodePool::kind(&()) && owner.uid == uid)
    {
        lifecycle.health.record(uid, claim_uid, registration);
        lifecycle.pools.look_at(name);
    }
}

/// Reason and message for the pool of a claim that took too long (LIF-061).
pub(super) fn failure(claim: &NodeClaim) -> Failure {
    let launched = claim.condition(LAUNCHED);
    let (reason, message) = match launched.filter(|launched| !launched.is_true()) {
        Some(failed) => (failed.reason(), failed.message()),
        None => (REGISTRATION_FAILED, REGISTRATION_FAILED_MESSAGE),
    };
    Failure {
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use kerf_api::{ConditionSet, NodeClaimSpec};
    use kerf_cloud::FAKE_NODE_CLASS;
    use kerf_lifecycle::registration_health::Health;
    use serde_json::json;

    use crate::cluster::Watched;
    use crate::context::Context;
    use crate::pools::{self, RegistrationHealth};

    /// A claim of the pool `web` with an owner of this kind and UID.
    fn owned_by(kind: &str, uid: &str) -> NodeClaim {
        let owner = json!({"apiVersion": "karpenter.sh/v1", "kind": kind, "name": "web", "uid": uid});
        let labels = json!({"karpenter.sh/nodepool": "web"});
        serde_json::from_value(json!({
            "metadata": {"name": "web-1", "uid": format!("{kind}-{uid}"), "labels": labels, "ownerReferences": [owner]},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        }))
        .expect("a claim")
    }

    // LIF-059, LIF-063
    #[tokio::test]
    async fn only_claims_owned_by_the_pool_as_it_is_now_count() {
        let context = Context::without_api();
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let pool = json!({"metadata": {"name": "web", "uid": "new", "resourceVersion": "1"},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}}});
        let pool: NodePool = serde_json::from_value(pool).expect("a pool");
        context.cluster.notify(Watched::apply(&context.cluster, pool));
        let health = RegistrationHealth::default();
        let status = pools::health(&context, &health);
        let lifecycle = Lifecycle::new(&context, health.clone(), status, Default::default());
        let mut without = owned_by("NodePool", "new");
        without.metadata.owner_references = None;
        let foreign = [owned_by("NodePool", "old"), owned_by("NodeGroup", "new"), without];
        for claim in &foreign {
            record(&lifecycle, claim, Registration::Succeeded);
            assert_eq!((health.of("new"), health.of("old")), (Health::Unknown, Health::Unknown));
        }
        record(&lifecycle, &owned_by("NodePool", "new"), Registration::Succeeded);
        assert_eq!(health.of("new"), Health::Healthy);
    }

    // LIF-061
    #[test]
    fn a_failure_says_what_failed() {
        let said = |failure: Failure| format!("{} {}", failure.reason, failure.message);
        let mut claim = NodeClaim::new("web-1", NodeClaimSpec::default());
        ConditionSet::new(&mut claim, Timestamp::UNIX_EPOCH).set_unknown(LAUNCHED, "LaunchFailed", "no route");
        assert_eq!(said(failure(&claim)), "LaunchFailed no route");
        ConditionSet::new(&mut claim, Timestamp::UNIX_EPOCH).set_true(LAUNCHED);
        assert_eq!(said(failure(&claim)), "RegistrationFailed Failed to register node");
    }
}
