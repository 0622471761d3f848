//! Claims without instances, instances without claims.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_runtime::metrics::catalogue::NODECLAIMS_DISRUPTED;
use serde_json::json;

use crate::harness::{Simulation, create};

#[tokio::test(start_paused = true)]
async fn a_claim_whose_instance_vanished_is_replaced() {
    let simulation = Simulation::start().await;
    simulation.pool("web", json!({})).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation
        .until("the pod runs", 60, async |s| s.running().await == 1)
        .await;
    let claim = simulation.claims().await.pop().expect("a claim");
    let node = simulation.nodes().await.pop().expect("a node");
    let name = node.metadata.name.clone().unwrap_or_default();
    simulation
        .patch::<Node>(&name, json!({"metadata": {"finalizers": null}}))
        .await;
    simulation.delete::<Node>(&name).await;
    let replaced = async |s: &Simulation| {
        let claims = s.claims().await;
        claims.len() == 1
            && claims.iter().all(|other| other.metadata.uid != claim.metadata.uid)
            && s.running().await == 1
    };
    // LIF-130
    simulation.until("another claim is there", 300, replaced).await;
    let labels = claim.metadata.labels.clone().unwrap_or_default();
    let counter = simulation.context.metrics.counter(&NODECLAIMS_DISRUPTED);
    // LIF-129
    assert_eq!(
        counter.get(&["garbage_collected", "web", &labels["karpenter.sh/capacity-type"]]),
        1.0
    );
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_nobody_wants_is_ended() {
    let simulation = Simulation::start().await;
    let node = |name: &str, labels: serde_json::Value| json!({"metadata": {"name": name, "labels": labels}, "spec": {"providerID": format!("kwok://{name}")}});
    let ours = json!({"karpenter.kwok.sh/kwoknodeclass": "default"});
    create::<Node>(&simulation.client(), node("lost", ours)).await;
    create::<Node>(&simulation.client(), node("foreign", json!({}))).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(simulation.nodes().await.len(), 2, "it may still be somebody's");
    simulation
        .until("it is gone", 300, async |s| s.nodes().await.len() == 1)
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let left = simulation.nodes().await.pop().and_then(|node| node.metadata.name);
    assert_eq!(left.as_deref(), Some("foreign"));
    simulation.stop().await;
}
