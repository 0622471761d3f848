//! The scheduler.

use crate::fixture::{Cluster, asks, node_of, pod, seconds, workload};
use kerf_sandbox::Scoring;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_says_why() {
    let cluster = Cluster::start().await;
    cluster.create(pod("early", asks("100m"))).await;
    seconds(1).await;
    let events = cluster.events("FailedScheduling").await;
    assert_eq!(
        events[0].message.as_deref(),
        Some("no nodes available to schedule pods")
    );
    cluster.nodes(&["n1", "n2", "n3"]).await;
    let taint = json!([{"key": "team", "value": "x", "effect": "NoSchedule"}]);
    cluster
        .patch(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3"}, "spec": {"taints": taint}}))
        .await;
    cluster.create(pod("big", asks("9"))).await;
    seconds(1).await;
    let big = cluster.pod("big").await;
    let conditions = big.status.and_then(|status| status.conditions).unwrap_or_default();
    let condition = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled")
        .expect("a condition");
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_deref()),
        ("False", Some("Unschedulable"))
    );
    let expected = "0/3 nodes are available: 1 node(s) had untolerated taint {team: x}, 2 Insufficient cpu. \
        preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, \
        2 No preemption victims found for incoming pod.";
    assert_eq!(condition.message.as_deref(), Some(expected));
    let events = cluster.events("FailedScheduling").await;
    let event = events
        .iter()
        .find(|event| event.involved_object.name.as_deref() == Some("big"))
        .expect("an event");
    assert_eq!(event.message.as_deref(), Some(expected));
    assert_eq!(
        event.source.as_ref().and_then(|source| source.component.as_deref()),
        Some("default-scheduler")
    );
    assert_eq!(
        cluster.events("Scheduled").await.len(),
        1,
        "the early pod found its node"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_pods_go_to_a_new_node_at_once() {
    let cluster = Cluster::start().await;
    cluster.create(workload("Deployment", "web", 3, "1")).await;
    seconds(60).await;
    assert!(cluster.running().await.is_empty());
    cluster.node("n1", "a").await;
    seconds(15).await;
    assert_eq!(cluster.running().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn scoring_spreads_or_packs() {
    for (scoring, nodes) in [(Scoring::LeastAllocated, 3), (Scoring::MostAllocated, 1)] {
        let cluster = Cluster::with(|builder| builder.scheduler(scoring)).await;
        cluster.nodes(&["n1", "n2", "n3"]).await;
        cluster.create(workload("Deployment", "web", 3, "1")).await;
        seconds(5).await;
        let mut homes: Vec<_> = cluster.pods().await.iter().map(|pod| node_of(pod).to_owned()).collect();
        homes.sort();
        homes.dedup();
        assert_eq!(homes.len(), nodes, "{scoring:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn important_pods_go_first_and_gated_ones_not_at_all() {
    let cluster = Cluster::start().await;
    let with = |key: &str, value: serde_json::Value| {
        let mut spec = asks("3");
        spec[key] = value;
        spec
    };
    cluster.create(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})).await;
    cluster
        .create(pod("gated", with("schedulingGates", json!([{"name": "wait"}]))))
        .await;
    cluster
        .create(pod("foreign", with("schedulerName", json!("other"))))
        .await;
    cluster.create(pod("low", asks("3"))).await;
    let mut high = with("priorityClassName", json!("high"));
    high["priority"] = json!(1000);
    cluster.create(pod("high", high)).await;
    seconds(30).await;
    cluster.nodes(&["n1"]).await;
    assert_eq!(cluster.running().await, ["high"]);
    cluster.delete_pod("high").await;
    seconds(15).await;
    assert_eq!(cluster.running().await, ["low"]);
    let gated = cluster.events("FailedScheduling").await;
    assert!(
        gated
            .iter()
            .all(|event| event.involved_object.name.as_deref() != Some("gated"))
    );
}

#[tokio::test(start_paused = true)]
async fn zone_spread_is_kept() {
    let cluster = Cluster::start().await;
    for (name, zone) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
        cluster.node(name, zone).await;
    }
    let mut web = workload("Deployment", "web", 6, "100m");
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    seconds(15).await;
    cluster.create(web).await;
    seconds(5).await;
    let pods = cluster.pods().await;
    assert_eq!(pods.iter().filter(|pod| node_of(pod) == "n3").count(), 3);
}
