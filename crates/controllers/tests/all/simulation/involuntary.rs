//! Involuntary disruption: neither budgets nor protected pods prevent it; they count only in the drain that follows.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::{NodeClaim, NodePool};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::simulation::disruption_loop::bind;
use crate::simulation::harness::{Simulation, name};
use crate::simulation::repair::set_condition;
use crate::simulation::static_capacity;

/// One node with a protected pod, in a pool whose budget is closed.
async fn guarded() -> Simulation {
    let simulation = Simulation::start_with(|options| options.feature_gates.node_repair = true).await;
    simulation
        .populate(
            1,
            json!({"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]}}),
        )
        .await;
    let pod = name(&simulation.pods().await[0]);
    let pods: Api<Pod> = Api::namespaced(simulation.client(), "default");
    pods.patch(&pod, &PatchParams::default(), &Patch::Merge(protection()))
        .await
        .expect("annotated");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!goes(&simulation).await, "by itself it stays");
    simulation
}

fn protection() -> Value {
    json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})
}

/// Whether the claim is on its way out.
async fn goes(simulation: &Simulation) -> bool {
    let claims = simulation.claims().await;
    claims.iter().any(|claim| claim.metadata.deletion_timestamp.is_some())
}

// DIS-060, DIS-091
#[tokio::test(start_paused = true)]
async fn who_deletes_a_node_means_it() {
    let simulation = guarded().await;
    let claim = name(&simulation.claims().await[0]);
    simulation.delete::<NodeClaim>(&claim).await;
    assert!(goes(&simulation).await);
    // LIF-104, DIS-059: the pod is waited for.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(simulation.running().await, 1);
    simulation.stop().await;
}

// DIS-060, DIS-091
#[tokio::test(start_paused = true)]
async fn a_node_that_stays_unhealthy_is_repaired() {
    let simulation = guarded().await;
    let node = name(&simulation.nodes().await[0]);
    set_condition(&simulation, &node, "Ready", "False").await;
    simulation
        .sandbox
        .set_kubelet(&node, Some("not-ready"))
        .await
        .expect("set");
    simulation.until("it goes", 700, goes).await;
    simulation.stop().await;
}

// DIS-060, DIS-091
#[tokio::test(start_paused = true)]
async fn a_claim_without_an_instance_is_collected() {
    let simulation = guarded().await;
    let claim = simulation.claims().await.remove(0);
    let node = name(&simulation.nodes().await[0]);
    simulation
        .patch::<Node>(&node, json!({"metadata": {"finalizers": null}}))
        .await;
    simulation.delete::<Node>(&node).await;
    simulation
        .until("it is gone", 300, async |s| {
            let claims = s.claims().await;
            claims.iter().all(|other| other.metadata.uid != claim.metadata.uid)
        })
        .await;
    simulation.stop().await;
}

// DIS-060, DIS-091
#[tokio::test(start_paused = true)]
async fn a_static_pool_shrinks() {
    let spec = json!({"disruption": {"budgets": [{"nodes": "0"}]}});
    let simulation = static_capacity::with_pool(2, spec).await;
    simulation
        .until("there are two", 60, async |s| static_capacity::has(s, 2).await)
        .await;
    for (number, node) in simulation.nodes().await.iter().enumerate() {
        let annotations = protection()["metadata"]["annotations"].clone();
        bind(
            &simulation,
            "default",
            &format!("job-{number}"),
            &name(node),
            annotations,
        )
        .await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    simulation
        .patch::<NodePool>("web", json!({"spec": {"replicas": 1}}))
        .await;
    simulation.until("one goes", 10, goes).await;
    simulation.stop().await;
}
