//! Nodes that stay unhealthy are replaced, unless too many are.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_runtime::metrics::catalogue::{NODECLAIMS_DISRUPTED, NODECLAIMS_UNHEALTHY_DISRUPTED};
use serde_json::json;

use crate::emptiness::apart;
use crate::harness::Simulation;

async fn with_nodes(count: usize, repair: bool) -> Simulation {
    let simulation = Simulation::start_with(|options| options.feature_gates.node_repair = repair).await;
    // Pods that leave their unready nodes must not make the pool larger, and its fifth with it.
    simulation
        .pool("web", json!({"limits": {"nodes": count.to_string()}}))
        .await;
    let replicas = u32::try_from(count).expect("few");
    simulation.deployment("web", replicas, "1", apart("web")).await;
    simulation
        .until("the pods run", 120, async |s| s.running().await == count)
        .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    simulation
}

fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

async fn has(simulation: &Simulation, node: &Node) -> bool {
    simulation
        .nodes()
        .await
        .iter()
        .any(|other| other.metadata.uid == node.metadata.uid)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_unready_is_replaced() {
    let simulation = with_nodes(1, true).await;
    let node = simulation.nodes().await.remove(0);
    simulation
        .sandbox
        .set_kubelet(&name(&node), Some("not-ready"))
        .await
        .expect("set");
    // LIF-146, LIF-148
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert!(has(&simulation, &node).await);
    let claim = simulation.claims().await.remove(0);
    simulation
        .until("it is gone", 120, async |s| !has(s, &node).await)
        .await;
    simulation
        .until("its pod runs on another", 120, async |s| s.running().await == 1)
        .await;
    let labels = claim.metadata.labels.unwrap_or_default();
    let capacity_type = &labels["karpenter.sh/capacity-type"];
    let metrics = &simulation.context.metrics;
    // LIF-155
    assert_eq!(
        metrics
            .counter(&NODECLAIMS_DISRUPTED)
            .get(&["unhealthy", "web", capacity_type]),
        1.0
    );
    let image = claim.status.and_then(|status| status.image_id).unwrap_or_default();
    let unhealthy = metrics.counter(&NODECLAIMS_UNHEALTHY_DISRUPTED);
    assert_eq!(unhealthy.get(&["ready", "web", capacity_type, &image]), 1.0);
    simulation.stop().await;
}

// LIF-156
#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_in_time_stays() {
    let simulation = with_nodes(1, true).await;
    let node = simulation.nodes().await.remove(0);
    simulation
        .sandbox
        .set_kubelet(&name(&node), Some("not-ready"))
        .await
        .expect("set");
    tokio::time::sleep(Duration::from_secs(540)).await;
    simulation.sandbox.set_kubelet(&name(&node), None).await.expect("set");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(has(&simulation, &node).await);
    simulation.stop().await;
}

// LIF-145
#[tokio::test(start_paused = true)]
async fn nothing_is_repaired_with_the_gate_off() {
    let simulation = with_nodes(1, false).await;
    let node = simulation.nodes().await.remove(0);
    simulation
        .sandbox
        .set_kubelet(&name(&node), Some("not-ready"))
        .await
        .expect("set");
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert!(has(&simulation, &node).await);
    simulation.stop().await;
}

// LIF-149, LIF-151, LIF-152
#[tokio::test(start_paused = true)]
async fn an_outage_stops_repair() {
    let simulation = with_nodes(4, true).await;
    let nodes = simulation.nodes().await;
    for node in &nodes[..2] {
        simulation
            .sandbox
            .set_kubelet(&name(node), Some("not-ready"))
            .await
            .expect("set");
    }
    tokio::time::sleep(Duration::from_secs(1000)).await;
    for node in &nodes {
        assert!(has(&simulation, node).await);
    }
    let events = simulation.events("NodeRepairBlocked").await;
    let text = "more than 20% nodes are unhealthy in the nodepool";
    assert!(!events.is_empty() && events.iter().all(|event| event.message.as_deref() == Some(text)));
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| event.involved_object.kind.as_deref())
        .collect();
    assert!(kinds.iter().all(|kind| *kind == "Node"), "{kinds:?}");
    // One recovers: the other may go.
    simulation
        .sandbox
        .set_kubelet(&name(&nodes[0]), None)
        .await
        .expect("set");
    simulation
        .until("the other goes", 600, async |s| !has(s, &nodes[1]).await)
        .await;
    simulation.stop().await;
}
