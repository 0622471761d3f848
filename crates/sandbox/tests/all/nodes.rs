//! Kubelets and node health.

use crate::fixture::{Cluster, asks, is_ready, phase, pod, seconds, taints, workload};
use kerf_sandbox::{KubeletOptions, NodeSelection};
use kube::api::{Api, DeleteParams};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn only_marked_nodes_are_simulated() {
    let marked = KubeletOptions {
        nodes: NodeSelection::Marked,
        ..KubeletOptions::default()
    };
    let cluster = Cluster::with(|builder| builder.kubelets(marked)).await;
    cluster.node("real", "a").await;
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kwok", "annotations": {"kwok.x-k8s.io/node": "fake"}}}))
        .await;
    seconds(5).await;
    assert_eq!(
        taints(&cluster.read_node("kwok").await),
        ["node.kubernetes.io/not-ready:NoSchedule"],
        "not ready yet"
    );
    seconds(10).await;
    assert_eq!(taints(&cluster.read_node("kwok").await), Vec::<String>::new());
    assert_eq!(
        taints(&cluster.read_node("real").await),
        ["node.kubernetes.io/not-ready:NoSchedule"]
    );
    let status = cluster.read_node("kwok").await.status.expect("a status");
    // KWK-062
    assert_eq!(status.allocatable.expect("amounts")["cpu"].0, "1k");
    assert_eq!(status.conditions.expect("conditions").len(), 5);
}

// KWK-065
#[tokio::test(start_paused = true)]
async fn startup_taints_stay_until_somebody_removes_them() {
    let cluster = Cluster::start().await;
    let taint = |key: &str| json!({"key": key, "effect": "NoExecute"});
    let own = [taint("example.com/startup"), taint("karpenter.sh/unregistered")];
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": own}}))
        .await;
    seconds(120).await;
    assert_eq!(
        taints(&cluster.read_node("n1").await),
        ["example.com/startup:NoExecute", "karpenter.sh/unregistered:NoExecute"],
        "Ready, so the node controller's own taint is gone"
    );
}

// KWK-063
#[tokio::test(start_paused = true)]
async fn a_pod_with_kwoks_delay_ends_after_it_whatever_its_grace_period_and_finalizers() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let mut slow = pod("slow", asks("100m"));
    slow["metadata"]["annotations"] = json!({"pod-delete.stage.kwok.x-k8s.io/delay": "90s"});
    slow["metadata"]["finalizers"] = json!(["example.com/kept"]);
    slow["spec"]["terminationGracePeriodSeconds"] = json!(30);
    cluster.create(slow).await;
    seconds(5).await;
    assert_eq!(cluster.running().await, ["slow"]);
    cluster.delete_pod("slow").await;
    seconds(85).await;
    assert_eq!(cluster.pods().await.len(), 1, "longer than its grace period");
    seconds(10).await;
    assert!(cluster.pods().await.is_empty(), "its finalizer does not keep it");
}

// KWK-064
#[tokio::test(start_paused = true)]
async fn a_pod_in_kwoks_stage_unhealthy_never_gets_ready() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let mut unwell = pod("unwell", asks("100m"));
    unwell["metadata"]["labels"] = json!({"kwok.x-k8s.io/stage": "unhealthy"});
    cluster.create(unwell).await;
    seconds(30).await;
    let unwell = cluster.pod("unwell").await;
    assert_eq!(phase(&unwell), "Unknown");
    assert!(!is_ready(&unwell));
    assert_eq!(unwell.status.expect("a status").pod_ip, None);
}

#[tokio::test(start_paused = true)]
async fn a_silent_kubelet_costs_its_node_the_pods() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let mut spec = asks("100m");
    spec["tolerations"] = json!([
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    ]);
    cluster.create(pod("web", spec)).await;
    seconds(5).await;
    assert_eq!(cluster.running().await, ["web"]);
    cluster
        .sandbox
        .set_kubelet("n1", Some("stopped"))
        .await
        .expect("a patch");
    seconds(30).await;
    assert_eq!(cluster.running().await, ["web"], "not noticed yet");
    seconds(15).await;
    let unreachable = [
        "node.kubernetes.io/unreachable:NoExecute",
        "node.kubernetes.io/unreachable:NoSchedule",
    ];
    assert_eq!(taints(&cluster.read_node("n1").await), unreachable);
    assert!(!is_ready(&cluster.pod("web").await));
    seconds(290).await;
    assert!(cluster.pod("web").await.metadata.deletion_timestamp.is_none());
    seconds(60).await;
    assert!(
        cluster.pod("web").await.metadata.deletion_timestamp.is_some(),
        "evicted, but nobody ends it"
    );
    cluster.sandbox.set_kubelet("n1", None).await.expect("a patch");
    seconds(5).await;
    assert_eq!(taints(&cluster.read_node("n1").await), Vec::<String>::new());
    assert!(cluster.pods().await.is_empty(), "the kubelet that came back ended it");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_are_collected() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    cluster.create(workload("Deployment", "web", 1, "100m")).await;
    seconds(5).await;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(cluster.client.clone());
    nodes.delete("n1", &DeleteParams::default()).await.expect("a deletion");
    seconds(30).await;
    assert_eq!(cluster.pods().await.len(), 1);
    seconds(15).await;
    let pods = cluster.pods().await;
    assert_eq!(
        pods.iter().map(phase).collect::<Vec<_>>(),
        ["Pending"],
        "a successor waits"
    );
}

#[tokio::test(start_paused = true)]
async fn deletion_takes_its_time_within_the_grace_period() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let slow = |name: &str, stops_after: &str| {
        let mut spec = asks("100m");
        spec["terminationGracePeriodSeconds"] = json!(20);
        let mut pod = pod(name, spec);
        pod["metadata"]["annotations"] = json!({"sandbox.kerf.sh/stop-after": stops_after});
        pod
    };
    cluster.create(slow("quick", "5s")).await;
    cluster.create(slow("stubborn", "10m")).await;
    seconds(5).await;
    cluster.delete_pod("quick").await;
    cluster.delete_pod("stubborn").await;
    seconds(4).await;
    assert_eq!(cluster.pods().await.len(), 2);
    seconds(2).await;
    assert_eq!(cluster.pods().await.len(), 1);
    seconds(15).await;
    assert!(cluster.pods().await.is_empty(), "the grace period is over");
}

#[tokio::test(start_paused = true)]
async fn a_cordon_is_a_taint() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let cordon = |on: bool| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"unschedulable": on}});
    cluster.patch(cordon(true)).await;
    seconds(1).await;
    assert_eq!(
        taints(&cluster.read_node("n1").await),
        ["node.kubernetes.io/unschedulable:NoSchedule"]
    );
    cluster.create(pod("web", asks("100m"))).await;
    seconds(1).await;
    let message = cluster.message("FailedScheduling").await;
    assert!(
        message.starts_with("0/1 nodes are available: 1 node(s) were unschedulable."),
        "{message}"
    );
    cluster.patch(cordon(false)).await;
    seconds(10).await;
    assert_eq!(cluster.running().await, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn a_flapping_node_is_ready_and_not_ready_in_turn() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let annotations = json!({"sandbox.kerf.sh/flap-every": "2m"});
    cluster
        .patch(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": annotations}}))
        .await;
    let not_ready = [
        "node.kubernetes.io/not-ready:NoExecute",
        "node.kubernetes.io/not-ready:NoSchedule",
    ];
    // The node was created 15 s ago.
    for expected in [&[] as &[&str], &not_ready, &[], &not_ready] {
        seconds(60).await;
        assert_eq!(taints(&cluster.read_node("n1").await), expected);
        seconds(60).await;
    }
    let calm = json!({"sandbox.kerf.sh/flap-every": null});
    cluster
        .patch(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": calm}}))
        .await;
    seconds(200).await;
    assert_eq!(taints(&cluster.read_node("n1").await), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_ready_agent_removes_its_taint() {
    let cluster = Cluster::start().await;
    for (name, key) in [
        ("cilium", "node.cilium.io/agent-not-ready"),
        ("other", "example.com/agent-not-ready"),
    ] {
        cluster.node(name, "a").await;
        let taint = json!({"key": key, "effect": "NoExecute"});
        cluster
            .patch(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": [taint]}}))
            .await;
    }
    seconds(15).await;
    let tainted = |key: &str| vec![format!("{key}:NoExecute")];
    assert_eq!(
        taints(&cluster.read_node("cilium").await),
        tainted("node.cilium.io/agent-not-ready")
    );
    for (name, label, annotations) in [
        ("cilium", "cilium", json!({})),
        // This pod removes no taint.
        ("plain", "plain", json!({})),
        (
            "other",
            "agent",
            json!({"sandbox.kerf.sh/removes-taint": "example.com/agent-not-ready"}),
        ),
    ] {
        let mut spec = asks("100m");
        spec["tolerations"] = json!([{"operator": "Exists"}]);
        spec["nodeName"] = json!(if name == "plain" { "other" } else { name });
        let mut pod = pod(name, spec);
        pod["metadata"]["labels"] = json!({"k8s-app": label});
        pod["metadata"]["annotations"] = annotations;
        if name == "other" {
            seconds(10).await;
            let left = taints(&cluster.read_node("other").await);
            assert_eq!(left, tainted("example.com/agent-not-ready"));
        }
        cluster.create(pod).await;
    }
    seconds(10).await;
    for node in ["cilium", "other"] {
        assert_eq!(taints(&cluster.read_node(node).await), Vec::<String>::new(), "{node}");
    }
}
