//! The scheduler.

use crate::fixture::{Cluster, asks, node_of, pod, seconds, workload};
use k8s_openapi::api::core::v1::Pod;
use kerf_sandbox::Scoring;
use kube::api::{Api, Patch, PatchParams};
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
async fn a_pod_does_not_wait_for_its_back_off_where_nothing_else_is_to_be_tried() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    cluster.create(pod("large", asks("4"))).await;
    seconds(5).await;
    cluster.create(pod("waiting", asks("1"))).await;
    // It is tried again with each, so that its back-off is 10 seconds in the end.
    for number in 0..8 {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("other-{number}")}});
        cluster.create(namespace).await;
        seconds(1).await;
    }
    assert_eq!(cluster.running().await, ["large"]);
    cluster.delete_pod("large").await;
    seconds(5).await;
    assert_eq!(cluster.running().await, ["waiting"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_spread_are_tried_again_when_one_of_them_is_bound() {
    let cluster = Cluster::start().await;
    cluster.node("n1", "a").await;
    cluster.node("n2", "b").await;
    let in_zone = |name: &str, zone: &str| {
        let mut deployment = workload("Deployment", name, 2, "1");
        deployment["spec"]["template"]["metadata"]["labels"]["part-of"] = json!("shop");
        deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": zone});
        deployment
    };
    let mut spread = in_zone("web", "a");
    spread["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": "Ignore", "labelSelector": {"matchLabels": {"part-of": "shop"}}}]);
    cluster.create(spread).await;
    seconds(60).await;
    assert_eq!(cluster.running().await.len(), 1, "none runs in the other zone");
    cluster.create(in_zone("other", "b")).await;
    seconds(3).await;
    assert_eq!(cluster.running().await.len(), 4);
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

/// Writes the node a pod is nominated to, as a component that made room for it does.
async fn nominate(cluster: &Cluster, pod: &str, node: &str) {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), "default");
    let patch = Patch::Merge(json!({"status": {"nominatedNodeName": node}}));
    let patched = api.patch_status(pod, &PatchParams::default(), &patch).await;
    patched.expect("a status");
}

fn nominated_node(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref()
}

#[tokio::test(start_paused = true)]
async fn a_nominated_node_is_tried_first_and_its_room_is_kept() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1", "n2"]).await;
    cluster.create(pod("full", asks("4"))).await;
    cluster.create(pod("half", asks("2"))).await;
    seconds(5).await;
    let (full, half) = (cluster.pod("full").await, cluster.pod("half").await);
    let (full, half) = (node_of(&full).to_owned(), node_of(&half).to_owned());
    assert_ne!(full, half);
    // It waits for the room of the full node, and keeps it from later pods of at most the same priority.
    cluster.create(pod("planned", asks("3"))).await;
    seconds(1).await;
    nominate(&cluster, "planned", &full).await;
    cluster
        .create(pod(
            "other",
            json!({"nodeSelector": {"kubernetes.io/hostname": full}, "containers": [
            {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "2"}}}]}),
        ))
        .await;
    seconds(1).await;
    assert_eq!(nominated_node(&cluster.pod("planned").await), Some(&*full));
    cluster.delete_pod("full").await;
    seconds(15).await;
    let planned = cluster.pod("planned").await;
    assert_eq!(
        (node_of(&planned), nominated_node(&planned)),
        (&*full, None),
        "bound, and so nominated no longer"
    );
    assert_eq!(node_of(&cluster.pod("other").await), "");
    // An emptier node does not win against the nominated one.
    cluster.delete_pod("planned").await;
    cluster.delete_pod("other").await;
    seconds(15).await;
    let gated = json!({"schedulingGates": [{"name": "wait"}], "containers": [
        {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}]});
    cluster.create(pod("late", gated)).await;
    nominate(&cluster, "late", &half).await;
    let patch =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late"}, "spec": {"schedulingGates": null}});
    cluster.patch(patch).await;
    seconds(5).await;
    assert_eq!(node_of(&cluster.pod("late").await), half);
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_ends_a_nomination_and_priority_overrides_it() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    cluster.create(pod("planned", asks("5"))).await;
    seconds(1).await;
    nominate(&cluster, "planned", "n1").await;
    cluster.create(pod("small", asks("100m"))).await;
    seconds(1).await;
    assert_eq!(node_of(&cluster.pod("small").await), "", "the room is kept");
    // A change of the cluster lets both be tried again.
    for label in ["a", "b"] {
        let patch =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"changed": label}}});
        cluster.patch(patch).await;
        seconds(15).await;
    }
    assert_eq!(nominated_node(&cluster.pod("planned").await), None);
    assert_eq!(node_of(&cluster.pod("small").await), "n1");
    nominate(&cluster, "planned", "n1").await;
    cluster.create(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})).await;
    let mut high = asks("1");
    (high["priorityClassName"], high["priority"]) = (json!("high"), json!(1000));
    cluster.create(pod("high", high)).await;
    seconds(1).await;
    assert_eq!(node_of(&cluster.pod("high").await), "n1");
}
