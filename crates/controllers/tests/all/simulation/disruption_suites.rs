//! What users see, in the numbers of upstream's end-to-end suites (DIS section 14).

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::{Conditioned, NodeClaim};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::simulation::emptiness::{is_tainted, with_nodes};
use crate::simulation::harness::{Simulation, is_new, name};
use crate::simulation::static_capacity;

/// How many nodes there were at the most, and how many of them were on their way out.
#[derive(Default, Debug)]
struct Most {
    nodes: usize,
    going: usize,
}

impl Most {
    /// Looks often until it is done.
    async fn watch(simulation: &Simulation, minutes: u64, done: impl AsyncFn(&Simulation) -> bool) -> Self {
        let end = Instant::now() + Duration::from_secs(60 * minutes);
        let mut most = Self::default();
        while !done(simulation).await {
            assert!(Instant::now() < end, "{most:?}\n{}", simulation.picture().await);
            let nodes = simulation.nodes().await;
            most.nodes = most.nodes.max(nodes.len());
            most.going = most.going.max(nodes.iter().filter(|node| is_tainted(node)).count());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        most
    }
}

// DIS-301
#[tokio::test(start_paused = true)]
async fn empty_drifted_nodes_go_two_of_three_at_once() {
    let simulation = with_nodes(3, json!({"consolidateAfter": "Never", "budgets": [{"nodes": "50%"}]})).await;
    // Until no pod is on its way to them any more.
    tokio::time::sleep(Duration::from_secs(30)).await;
    simulation.scale("web", 0).await;
    simulation
        .until("the pods are gone", 60, async |s| s.pods().await.is_empty())
        .await;
    simulation.change_template("2").await;
    let most = Most::watch(&simulation, 5, async |s| s.nodes().await.is_empty()).await;
    assert_eq!(most.going, 2);
    simulation.stop().await;
}

// DIS-301
#[tokio::test(start_paused = true)]
async fn five_nodes_are_replaced_three_at_once() {
    let simulation = with_nodes(5, json!({"consolidateAfter": "Never", "budgets": [{"nodes": "3"}]})).await;
    simulation.change_template("2").await;
    let renewed = async |s: &Simulation| {
        let claims = s.claims().await;
        claims.len() == 5 && claims.iter().all(is_new) && s.running().await == 5
    };
    let most = Most::watch(&simulation, 10, renewed).await;
    assert!(most.nodes <= 8 && most.going <= 3, "{most:?}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(simulation.nodes().await.len(), 5);
    simulation.stop().await;
}

/// Puts a taint on every Node that has none of it yet, as another controller might.
async fn spoil(simulation: &Simulation) {
    for node in simulation.nodes().await {
        let taints = node
            .spec
            .as_ref()
            .and_then(|spec| spec.taints.clone())
            .unwrap_or_default();
        if taints.iter().any(|taint| taint.key == "example.com/foreign") {
            continue;
        }
        let mut taints = json!(taints);
        if let Value::Array(taints) = &mut taints {
            taints.push(json!({"key": "example.com/foreign", "effect": "NoExecute"}));
        }
        simulation
            .patch::<Node>(&name(&node), json!({"spec": {"taints": taints}}))
            .await;
    }
}

// DIS-305
#[tokio::test(start_paused = true)]
async fn a_foreign_taint_on_every_node_does_not_make_nodes_without_end() {
    for disruption in [
        json!({"consolidateAfter": "0s"}),
        json!({"consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty"}),
    ] {
        let simulation = Simulation::with_pool(json!({"disruption": disruption})).await;
        // While a machine is to come no other is launched: with machines that join at once, most would depend on how often the pod is tried.
        simulation.delay_registration("5s").await;
        simulation.deployment("web", 1, "1", json!({})).await;
        let (mut most, end) = (0, Instant::now() + Duration::from_secs(300));
        while Instant::now() < end {
            spoil(&simulation).await;
            most = most.max(simulation.nodes().await.len());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!((1..35).contains(&most), "{most} nodes with {disruption}");
        simulation.stop().await;
    }
}

// DIS-307
#[tokio::test(start_paused = true)]
async fn growing_and_drifting_together_keep_to_the_limit() {
    let spec = json!({"limits": {"nodes": "5"}, "disruption": {"budgets": [{"nodes": "100%"}]}});
    let simulation = static_capacity::with_pool(3, spec).await;
    simulation
        .until("there are three", 60, async |s| static_capacity::has(s, 3).await)
        .await;
    simulation.change_template("2").await;
    static_capacity::scale(&simulation, 4).await;
    let (mut most, end) = (0, Instant::now() + Duration::from_secs(180));
    while Instant::now() < end {
        most = most.max(simulation.claims().await.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(most, 5, "as many as may be, and no more");
    let claims = simulation.claims().await;
    let settled = |claim: &NodeClaim| is_new(claim) && claim.condition_is_true("Initialized");
    assert!(
        claims.len() == 4 && claims.iter().all(settled),
        "{}",
        simulation.picture().await
    );
    assert_eq!(simulation.nodes().await.len(), 4);
    simulation.stop().await;
}
