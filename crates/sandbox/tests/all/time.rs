//! Virtual time.

use crate::fixture::{Cluster, seconds, workload};
use kube::ResourceExt;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_day_passes_quickly() {
    let cluster = Cluster::start().await;
    let began = cluster.sandbox.clock().now();
    cluster.nodes(&["n1", "n2", "n3"]).await;
    cluster.create(workload("Deployment", "web", 5, "500m")).await;
    for hour in 0..24 {
        let replicas = 2 + hour % 7;
        cluster
            .patch(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": replicas}}))
            .await;
        seconds(3600).await;
        assert_eq!(cluster.running().await.len(), replicas);
    }
    let passed = cluster.sandbox.clock().now().duration_since(began);
    assert!(passed.as_hours() >= 24);
}

#[tokio::test(start_paused = true)]
async fn runs_with_one_seed_are_equal() {
    let run = async || {
        let cluster = Cluster::start().await;
        cluster.nodes(&["n1", "n2", "n3"]).await;
        cluster.create(workload("Deployment", "web", 6, "500m")).await;
        seconds(20).await;
        let names: Vec<_> = cluster
            .pods()
            .await
            .iter()
            .map(|pod| (pod.name_any(), crate::fixture::node_of(pod).to_owned()))
            .collect();
        (names, cluster.sandbox.api().resource_version())
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn a_large_cluster_settles() {
    let cluster = Cluster::start().await;
    cluster.create(workload("Deployment", "web", 1000, "100m")).await;
    let names: Vec<String> = (0..30).map(|n| format!("n{n:02}")).collect();
    for name in &names {
        cluster.node(name, "a").await;
    }
    seconds(60).await;
    assert_eq!(cluster.running().await.len(), 1000);
}
