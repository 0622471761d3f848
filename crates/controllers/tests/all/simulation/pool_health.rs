//! A pool's registration health and drift hash.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, StatusCode};
use kerf_api::{Conditioned, KwokNodeClass, NodeClaim, NodePool};
use kerf_runtime::metrics::catalogue::NODECLAIMS_DISRUPTED;
use kerf_sandbox::faults::FaultPlan;
use serde_json::{Value, json};

use crate::simulation::api_faults::{ApiFaults, CallFault, with_api_faults};
use crate::simulation::emptiness::{apart, with_nodes};
use crate::simulation::harness::{Simulation, list, name};
use crate::simulation::logs::Logs;

/// The template of a pool whose nodes take so long to register.
async fn slow(simulation: &Simulation, delay: &str) -> Value {
    simulation.slow_class(delay).await;
    let reference = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "slow"});
    json!({"template": {"spec": {"nodeClassRef": reference}}})
}

async fn pool(simulation: &Simulation) -> NodePool {
    list::<NodePool>(&simulation.client()).await.remove(0)
}

/// Status and reason of the pool's health.
async fn health(simulation: &Simulation) -> String {
    let condition = pool(simulation).await.condition("NodeRegistrationHealthy").cloned();
    condition.map_or_else(String::new, |c| format!("{} {}", c.status, c.reason()))
}

fn timeouts(simulation: &Simulation) -> f64 {
    let counter = simulation.context.metrics.counter(&NODECLAIMS_DISRUPTED);
    ["on-demand", "spot"]
        .iter()
        .map(|kind| counter.get(&["registration_timeout", "web", kind]))
        .sum()
}

// LIF-067
#[tokio::test(start_paused = true)]
async fn an_unhealthy_pool_is_still_launched_from() {
    let simulation = Simulation::start().await;
    let spec = slow(&simulation, "3h").await;
    simulation.pool("web", spec).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation
        .until("it is unhealthy", 60 * 60, async |s| {
            health(s).await == "False RegistrationFailed"
        })
        .await;
    let tried = timeouts(&simulation);
    tokio::time::sleep(Duration::from_secs(40 * 60)).await;
    assert!(timeouts(&simulation) >= tried + 2.0);
    // Its nodes register at last: three of the last four are failures, then two, then it is well.
    simulation
        .patch::<KwokNodeClass>("slow", json!({"spec": {"nodeRegistrationDelay": "0s"}}))
        .await;
    simulation.until_running(1, 30 * 60).await;
    simulation.stop().await;
}

async fn delete_pool(simulation: &Simulation) {
    simulation.delete_pool_only("web").await;
    simulation
        .until("the pool is gone", 30, async |s| {
            list::<NodePool>(&s.client()).await.is_empty()
        })
        .await;
}

// LIF-063
#[tokio::test(start_paused = true)]
async fn a_namesake_of_a_deleted_pool_is_not_blamed() {
    let simulation = Simulation::start().await;
    let spec = slow(&simulation, "3h").await;
    simulation.pool("web", spec.clone()).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation.until_claims(1, 60).await;
    delete_pool(&simulation).await;
    simulation.pool("web", spec).await;
    // One claim of the old pool and one of the new: one failure is not enough.
    simulation
        .until("two are given up", 40 * 60, async |s| timeouts(s) >= 2.0)
        .await;
    assert!(
        health(&simulation).await.starts_with("Unknown"),
        "{}",
        health(&simulation).await
    );
    simulation
        .until("the new pool's second failure tells", 20 * 60, async |s| {
            health(s).await == "False RegistrationFailed"
        })
        .await;
    assert_eq!(timeouts(&simulation), 3.0);
    simulation.stop().await;
}

// LIF-055
#[tokio::test(start_paused = true)]
async fn a_claim_is_given_up_whether_its_pool_is_there_or_not() {
    let logs = Logs::listen();
    let simulation = Simulation::start().await;
    let spec = slow(&simulation, "3h").await;
    simulation.pool("web", spec).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation.until_claims(1, 60).await;
    delete_pool(&simulation).await;
    simulation.until_claims(0, 20 * 60).await;
    // OPS-261
    let told = logs.with("terminating due to timeout");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("DEBUG ")
            && told[0].contains("reason=registration_timeout")
            && told[0].contains("timeout=900s"),
        "{told:?}"
    );
    let errors = logs.with("ERROR");
    assert!(
        !errors
            .iter()
            .any(|line| line.contains("nodeclaim.lifecycle") || line.contains("registration")),
        "{errors:?}"
    );
    simulation.stop().await;
}

// LIF-239
#[tokio::test(start_paused = true)]
async fn conflicts_do_not_lose_a_success() {
    let begun = Simulation::start().await;
    begun.pool("web", json!({})).await;
    let sandbox = begun.crash().await;
    let (client, faults) = sandbox.client_with_faults("controller");
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    simulation
        .until("the pool is ready", 30, async |s| {
            pool(s).await.condition_is_true("Ready")
        })
        .await;
    faults.set(FaultPlan {
        conflict: 0.8,
        ..FaultPlan::default()
    });
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation.until_running(1, 600).await;
    faults.clear();
    simulation
        .until("the pool is well", 120, async |s| health(s).await.starts_with("True"))
        .await;
    simulation.stop().await;
}

/// The same cluster, whose pool's status cannot be written.
async fn with_a_pool_nobody_can_write(begun: Simulation) -> (Simulation, ApiFaults) {
    let (simulation, api_faults) = with_api_faults(begun, |_| {}).await;
    let refused = CallFault::Refused(StatusCode::INTERNAL_SERVER_ERROR);
    api_faults.on(Method::PATCH, "/nodepools/web/status", refused);
    (simulation, api_faults)
}

// LIF-239
#[tokio::test(start_paused = true)]
async fn a_pool_that_cannot_be_written_keeps_no_node_from_registering_and_hears_of_it_later() {
    let begun = Simulation::start().await;
    begun.pool("web", json!({})).await;
    let (simulation, api_faults) = with_a_pool_nobody_can_write(begun).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    let registered = async |s: &Simulation| {
        let claims = s.claims().await;
        claims.len() == 1 && claims.iter().all(|claim| claim.condition_is_true("Registered"))
    };
    simulation.until("it is registered", 30, registered).await;
    assert!(
        health(&simulation).await.starts_with("Unknown"),
        "nobody could write it"
    );
    api_faults.heal();
    simulation
        .until("the pool is well", 60, async |s| health(s).await.starts_with("True"))
        .await;
    simulation.stop().await;
}

// LIF-052, LIF-061, LIF-239
#[tokio::test(start_paused = true)]
async fn a_pool_that_cannot_be_written_keeps_no_claim_that_took_too_long() {
    let begun = Simulation::start().await;
    let spec = slow(&begun, "3h").await;
    begun.pool("web", spec).await;
    let (simulation, api_faults) = with_a_pool_nobody_can_write(begun).await;
    simulation.deployment("web", 2, "1", apart("web")).await;
    simulation
        .until("both are given up", 16 * 60, async |s| timeouts(s) == 2.0)
        .await;
    assert!(
        health(&simulation).await.starts_with("Unknown"),
        "nobody could write it"
    );
    api_faults.heal();
    simulation
        .until("the pool is not well", 120, async |s| {
            health(s).await == "False RegistrationFailed"
        })
        .await;
    simulation.stop().await;
}

/// An object's drift hash and the version of it.
fn hash_of(annotations: Option<BTreeMap<String, String>>) -> (String, String) {
    let annotations = annotations.unwrap_or_default();
    let get = |key: &str| annotations.get(key).cloned().unwrap_or_default();
    (
        get("karpenter.sh/nodepool-hash"),
        get("karpenter.sh/nodepool-hash-version"),
    )
}

/// Annotations as another version would write them.
fn foreign_hash() -> Value {
    json!({"metadata": {"annotations": {"karpenter.sh/nodepool-hash": "1234", "karpenter.sh/nodepool-hash-version": "v999"}}})
}

// LIF-164, LIF-236
#[tokio::test(start_paused = true)]
async fn foreign_hash_versions_are_stamped_over_without_drift() {
    let simulation = Simulation::with_one_pod(json!({}), json!({})).await;
    let before = simulation.claims().await.remove(0);
    let own = hash_of(before.metadata.annotations.clone());
    let name = before.metadata.name.clone().unwrap_or_default();
    simulation.patch::<NodeClaim>(&name, foreign_hash()).await;
    simulation.patch::<NodePool>("web", foreign_hash()).await;
    simulation
        .until("both are stamped over", 30, async |s| {
            let claim = s.claims().await.remove(0);
            hash_of(claim.metadata.annotations) == own && hash_of(pool(s).await.metadata.annotations) == own
        })
        .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let after = simulation.claims().await.remove(0);
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert!(after.condition("Drifted").is_none());
    // A changed template is stamped at once.
    let changed = json!({"spec": {"template": {"metadata": {"labels": {"generation": "2"}}}}});
    simulation.patch::<NodePool>("web", changed).await;
    simulation
        .until("the pool has another hash", 5, async |s| {
            hash_of(pool(s).await.metadata.annotations).0 != own.0
        })
        .await;
    simulation.stop().await;
}

// DIS-231, DIS-232, API-201
#[tokio::test(start_paused = true)]
async fn a_pool_is_stamped_over_when_all_its_claims_are() {
    let (simulation, api_faults) =
        with_api_faults(with_nodes(2, json!({"consolidateAfter": "Never"})).await, |_| {}).await;
    let own = hash_of(pool(&simulation).await.metadata.annotations);
    let claims: Vec<String> = simulation.claims().await.iter().map(name).collect();
    let of_claim = |claim: &str| format!("PATCH /apis/karpenter.sh/v1/nodeclaims/{claim}");
    let refused = CallFault::Refused(StatusCode::INTERNAL_SERVER_ERROR);
    api_faults.on(Method::PATCH, &format!("/nodeclaims/{}", claims[1]), refused);
    for claim in &claims {
        simulation.patch::<NodeClaim>(claim, foreign_hash()).await;
    }
    simulation.patch::<NodePool>("web", foreign_hash()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tries = api_faults.writes(&of_claim(&claims[1])).len();
    assert!(tries >= 3, "it was tried {tries} times");
    let stamp = hash_of(pool(&simulation).await.metadata.annotations);
    assert_eq!(stamp, ("1234".to_owned(), "v999".to_owned()));
    api_faults.heal();
    simulation
        .until("all are stamped over", 300, async |s| {
            let claims = s.claims().await.into_iter().map(|claim| claim.metadata.annotations);
            claims
                .chain([pool(s).await.metadata.annotations])
                .all(|all| hash_of(all) == own)
        })
        .await;
    let writes = api_faults.writes("");
    let last = |end: &str| writes.iter().rposition(|write| write.call.ends_with(end));
    let first = writes.iter().position(|write| write.call.ends_with("/nodepools/web"));
    for claim in &claims {
        let claim = last(&of_claim(claim));
        assert!(claim.is_some() && claim < first, "{writes:?}");
    }
    for claim in simulation.claims().await {
        assert!(claim.condition("Drifted").is_none());
    }
    simulation.stop().await;
}
