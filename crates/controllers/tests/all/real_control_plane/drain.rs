//! A drain keeps to the budgets a real API server enforces.

use std::time::Duration;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_runtime::metrics::catalogue::PODS_EVICTION_REQUESTS;
use kube::Api;
use serde_json::json;
use tokio::time::Instant;

use crate::real_control_plane::harness::{Cluster, is_tainted, name, uid};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_drain_with_pdb() {
    let mut cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    cluster.pool("web", json!({})).await;
    cluster.deployment("web", 2, json!({})).await;
    let before = cluster.until("two nodes", 60, |picture| picture.is_settled(2)).await;
    cluster
        .create_in::<PodDisruptionBudget>(json!({"metadata": {"name": "web"}, "spec": {
            "minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}))
        .await;
    allowed(&cluster, 0).await;

    let going = &before.claims[0];
    cluster.delete_claim(&name(going)).await;
    cluster
        .until("the node is tainted", 30, |picture| {
            picture.nodes.iter().any(is_tainted)
        })
        .await;
    // LIF-086
    let waiting = "Failed to drain node, 1 pods are waiting to be evicted";
    cluster.told("FailedDraining", waiting, 30).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    // LIF-104: the budget forbids the eviction.
    let held = cluster.look().await;
    assert_eq!(held.running(), 2);
    assert!(held.claims.iter().any(|claim| uid(claim) == uid(going)));
    let requests = controllers.context.metrics.counter(&PODS_EVICTION_REQUESTS);
    assert!(requests.get(&["429"]) >= 1.0);
    assert_eq!(cluster.seen.pods.len(), 2);

    let loose = json!({"spec": {"minAvailable": 1}});
    cluster.patch_in::<PodDisruptionBudget>("web", loose).await;
    let after = cluster
        .until("the pod has moved", 60, |picture| {
            assert!(picture.running() >= 1, "the budget was overstepped");
            picture.is_settled(2) && picture.claims.iter().all(|claim| uid(claim) != uid(going))
        })
        .await;
    let stayed = after
        .pods
        .iter()
        .filter(|pod| before.pods.iter().any(|old| uid(old) == uid(*pod)));
    assert_eq!(stayed.count(), 1);
    assert_eq!(
        (
            cluster.seen.claims.len(),
            cluster.seen.nodes.len(),
            cluster.seen.pods.len()
        ),
        (3, 3, 3)
    );
    controllers.stop().await;
}

/// Waits until the budget's status says how many pods may go.
async fn allowed(cluster: &Cluster, count: i32) {
    let api: Api<PodDisruptionBudget> = Api::default_namespaced(cluster.client.clone());
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let status = api.get("web").await.expect("there").status.unwrap_or_default();
        if (status.expected_pods, status.disruptions_allowed) == (Some(2), Some(count)) {
            return;
        }
        assert!(Instant::now() < end, "nobody counts for the budget: {status:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
