//! PodDisruptionBudgets and evictions.

use crate::fixture::{Cluster, seconds, workload};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, EvictParams};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn evictions_respect_the_budget_and_go_on_when_it_recovers() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1", "n2"]).await;
    cluster.create(workload("Deployment", "web", 3, "100m")).await;
    cluster
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }))
        .await;
    seconds(5).await;
    let status = cluster.get("policy/v1", "PodDisruptionBudget", "web").await["status"].clone();
    let numbers =
        ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"].map(|key| status[key].as_i64());
    assert_eq!(numbers, [Some(3), Some(3), Some(2), Some(1)]);
    assert_eq!(status["conditions"][0]["reason"], "SufficientPods");
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "default");
    let names: Vec<_> = cluster.pods().await.iter().map(ResourceExt::name_any).collect();
    pods.evict(&names[0], &EvictParams::default())
        .await
        .expect("the first eviction is allowed");
    let refused = pods
        .evict(&names[1], &EvictParams::default())
        .await
        .expect_err("the second is not");
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 429),
        "{refused}"
    );
    seconds(10).await;
    let status = cluster.get("policy/v1", "PodDisruptionBudget", "web").await["status"].clone();
    assert_eq!(status["disruptionsAllowed"], 1, "the successor runs");
    pods.evict(&names[1], &EvictParams::default())
        .await
        .expect("now it is allowed");
}
