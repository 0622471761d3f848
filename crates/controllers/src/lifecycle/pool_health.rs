//! Storing on a pool what the registration of its nodes says about it (LIF-059 to LIF-063).

use kerf_api::conditions::node_claim::LAUNCHED;
use kerf_api::conditions::node_pool::{NODE_REGISTRATION_HEALTHY, REGISTRATION_FAILED, REGISTRATION_FAILED_MESSAGE};
use kerf_api::status::Conditioned;
use kerf_api::{Condition, ConditionSet, NodeClaim, NodePool};
use kerf_runtime::client::{ApiErrorKind, found};
use kube::{Api, Resource};

use super::health::{Health, RegistrationHealth};
use crate::claim_facts;
use crate::context::Context;
use crate::patch::{Lock, patch_status};

/// Attempts against a pool that others write at the same time (LIF-239: a conflict must not lose the outcome).
const ATTEMPTS: u32 = 5;

/// Records an outcome and stores what it makes of the claim's pool. Only claims that name the pool as their owner count (LIF-059, LIF-063).
///
/// It is recorded first and judged at each attempt: outcomes of one moment see each other, whichever is stored last.
pub(super) async fn store(
    context: &Context,
    health: &RegistrationHealth,
    claim: &NodeClaim,
    registered: bool,
) -> Result<(), kube::Error> {
    let Some(known) = context.cluster.pool(claim_facts::pool(claim)) else {
        return Ok(());
    };
    let uid = known.metadata.uid.clone().unwrap_or_default();
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    if !owners
        .iter()
        .any(|owner| owner.kind == NodePool::kind(&()) && owner.uid == uid)
    {
        return Ok(());
    }
    health.record(&uid, claim_facts::uid(claim), registered);
    let mut before = NodePool::clone(&known);
    for attempt in 1..=ATTEMPTS {
        let mut after = before.clone();
        judge(&mut after, claim, registered, health.of(&uid), context.now());
        match patch_status(&context.client, &before, &after, Lock::Optimistic).await {
            Ok(None) => break,
            Ok(Some(stored)) => {
                context.cluster.wrote_pool(stored);
                break;
            }
            Err(error) if ApiErrorKind::of(&error) == ApiErrorKind::NotFound => break,
            Err(error) if ApiErrorKind::of(&error) != ApiErrorKind::Conflict || attempt == ATTEMPTS => {
                return Err(error);
            }
            Err(_) => {
                let api: Api<NodePool> = Api::all(context.client.clone());
                let fresh = found(api.get(known.metadata.name.as_deref().unwrap_or_default()).await)?;
                match fresh.filter(|pool| pool.metadata.uid == known.metadata.uid) {
                    Some(pool) => before = pool,
                    None => break,
                }
            }
        }
    }
    Ok(())
}

fn judge(pool: &mut NodePool, claim: &NodeClaim, registered: bool, health: Health, now: jiff::Timestamp) {
    let is_false = pool
        .condition(NODE_REGISTRATION_HEALTHY)
        .is_some_and(Condition::is_false);
    match (registered, health) {
        // LIF-059
        (true, Health::Healthy) => {
            ConditionSet::new(pool, now).set_true(NODE_REGISTRATION_HEALTHY);
        }
        // LIF-061
        (false, Health::Unhealthy) if !is_false => {
            let launched = claim.condition(LAUNCHED);
            let (reason, message) = match launched.filter(|launched| !launched.is_true()) {
                Some(failed) => (failed.reason(), failed.message()),
                None => (REGISTRATION_FAILED, REGISTRATION_FAILED_MESSAGE),
            };
            ConditionSet::new(pool, now).set_false(NODE_REGISTRATION_HEALTHY, reason, message);
        }
        (true | false, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use kerf_api::NodeClaimSpec;

    fn judged(registered: bool, health: Health, launched: bool) -> Option<(String, String)> {
        let now = Timestamp::UNIX_EPOCH;
        let mut claim = NodeClaim::new("web-1", NodeClaimSpec::default());
        if launched {
            ConditionSet::new(&mut claim, now).set_true(LAUNCHED);
        } else {
            ConditionSet::new(&mut claim, now).set_unknown(LAUNCHED, "LaunchFailed", "no route");
        }
        let mut pool: NodePool = serde_json::from_value(
            serde_json::json!({"metadata": {"name": "default"}, "spec": {"template": {"spec": {
                "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            }}}}),
        )
        .expect("a pool");
        judge(&mut pool, &claim, registered, health, now);
        let condition = pool.condition(NODE_REGISTRATION_HEALTHY)?;
        Some((
            format!("{} {}", condition.status, condition.reason()),
            condition.message().to_owned(),
        ))
    }

    #[test]
    fn the_condition_says_what_failed() {
        let shown = |status: &str, message: &str| Some((status.to_owned(), message.to_owned()));
        // LIF-059
        assert_eq!(
            judged(true, Health::Healthy, true),
            shown("True NodeRegistrationHealthy", "")
        );
        assert_eq!(judged(true, Health::Unhealthy, true), None);
        // LIF-061
        assert_eq!(
            judged(false, Health::Unhealthy, true),
            shown("False RegistrationFailed", "Failed to register node")
        );
        assert_eq!(
            judged(false, Health::Unhealthy, false),
            shown("False LaunchFailed", "no route")
        );
        assert_eq!(judged(false, Health::Healthy, false), None);
    }
}
