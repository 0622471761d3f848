//! What the registration of a claim's node says about its pool (LIF-059 to LIF-063).

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
    let name = claim_facts::pool(claim);
    let Some(pool) = lifecycle.context.cluster.pool(name) else {
        return;
    };
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    if owners
        .iter()
        .any(|owner| owner.kind == NodePool::kind(&()) && owner.uid == uid)
    {
        lifecycle.health.record(uid, claim_facts::uid(claim), registration);
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
