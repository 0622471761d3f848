//! Wall clocks that jump: that of the whole cluster, and that of the controllers' machine alone.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{Conditioned, KwokNodeClass, NodeClaim};
use kerf_controllers::Tuning;
use kerf_runtime::Clock;
use kerf_runtime::client::ApiLayers;
use kerf_sandbox::Sandbox;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::simulation::emptiness::{tainted, with_nodes};
use crate::simulation::hand_edited::{goes_on, staying};
use crate::simulation::harness::{Simulation, create, name};

/// Controllers whose machine has a clock of its own.
async fn with_own_clock() -> (Simulation, Clock) {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    let class = json!({"metadata": {"name": "default"}, "spec": {}});
    create::<KwokNodeClass>(&sandbox.client(), class).await;
    let clock = Clock::simulated(sandbox.clock().now());
    let client = ApiLayers::new().clock(&clock).client(sandbox.api().clone(), "default");
    let simulation = Simulation::join_clocked(
        sandbox,
        client,
        clock.clone(),
        |_| {},
        |provider| provider,
        Tuning::default(),
    );
    (simulation, clock)
}

#[tokio::test(start_paused = true)]
async fn the_api_server_knows_what_time_it_is() {
    for hours in [48, -48] {
        let (simulation, clock) = with_own_clock().await;
        simulation
            .populate(2, json!({"template": {"spec": {"expireAfter": "24h"}}}))
            .await;
        let before = staying(&simulation).await;
        clock.jump(SignedDuration::from_hours(hours));
        tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
        assert_eq!(staying(&simulation).await, before, "{hours} hours");
        let off = clock.now().duration_since(simulation.sandbox.clock().now());
        assert!(off.abs() < SignedDuration::from_secs(10), "{off:?}");
        goes_on(&simulation).await;
        // What has really reached its age goes.
        tokio::time::sleep(Duration::from_secs(23 * 3600)).await;
        let after = staying(&simulation).await;
        assert!(before.0.iter().all(|claim| !after.0.contains(claim)), "{after:?}");
        simulation.stop().await;
    }
}

/// Waits until a claim's node is drained and gone.
async fn drained(simulation: &Simulation, claim: &NodeClaim) {
    simulation
        .until("the drain ends", 300, async |s| {
            let claims = s.claims().await;
            claims.iter().all(|other| other.metadata.uid != claim.metadata.uid)
        })
        .await;
}

async fn guard(simulation: &Simulation) -> Api<PodDisruptionBudget> {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(simulation.client(), "default");
    let budget =
        json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let budget = serde_json::from_value(budget).expect("a budget");
    budgets.create(&PostParams::default(), &budget).await.expect("created");
    budgets
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_not_overdue_because_the_clock_was_set() {
    let pool = json!({"template": {"spec": {"terminationGracePeriod": "24h"}}});
    let simulation = Simulation::start().await;
    simulation.populate(1, pool).await;
    let budgets = guard(&simulation).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let claim = simulation.claims().await.remove(0);
    let pod = simulation.pods().await.remove(0);
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    simulation.sandbox.clock().jump(SignedDuration::from_hours(48));
    tokio::time::sleep(Duration::from_secs(600)).await;
    let there = simulation.pods().await;
    let guarded = there.iter().find(|other| other.metadata.uid == pod.metadata.uid);
    let guarded = guarded.expect("its budget holds");
    assert!(guarded.metadata.deletion_timestamp.is_none());
    budgets.delete("web", &DeleteParams::default()).await.expect("deleted");
    drained(&simulation, &claim).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_although_the_clock_was_set_back() {
    let simulation = with_nodes(1, json!({})).await;
    let budgets = guard(&simulation).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let claim = simulation.claims().await.remove(0);
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    simulation.sandbox.clock().jump(SignedDuration::from_hours(-48));
    budgets.delete("web", &DeleteParams::default()).await.expect("deleted");
    drained(&simulation, &claim).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_that_waits_while_the_clock_is_set_is_decided_again() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "30s"})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    simulation.scale("web", 0).await;
    for is_settled in [false, true] {
        simulation
            .until("the node settles", 60, async |s| {
                let claims = s.claims().await;
                claims[0].condition_is_true("Consolidatable") == is_settled
            })
            .await;
    }
    // It is decided within ten seconds, and waits for fifteen.
    tokio::time::sleep(Duration::from_secs(12)).await;
    simulation.sandbox.clock().jump(SignedDuration::from_hours(48));
    tokio::time::sleep(Duration::from_secs(840)).await;
    assert_eq!((simulation.claims().await.len(), tainted(&simulation).await), (1, 0));
    simulation.until_claims(0, 180).await;
    simulation.stop().await;
}
