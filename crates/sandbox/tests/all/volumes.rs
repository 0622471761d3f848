//! Claims, volumes and where pods with them go.

use crate::fixture::{Cluster, asks, node_of, seconds, workload};
use serde_json::{Value, json};

fn class(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "disk.example.com", "volumeBindingMode": mode, "reclaimPolicy": "Delete",
    })
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

#[tokio::test(start_paused = true)]
async fn a_stateful_sets_volumes_are_made_where_its_pods_go_and_hold_them_there() {
    let cluster = Cluster::start().await;
    cluster.node("n1", "a").await;
    cluster.node("n2", "b").await;
    seconds(15).await;
    cluster.create(class("wait", "WaitForFirstConsumer")).await;
    let mut db = workload("StatefulSet", "db", 2, "3");
    let mut template = claim("data", "wait");
    template
        .as_object_mut()
        .expect("an object")
        .retain(|key, _| key == "metadata" || key == "spec");
    db["spec"]["volumeClaimTemplates"] = json!([template]);
    cluster.create(db).await;
    seconds(60).await;
    assert_eq!(cluster.running().await, ["db-0", "db-1"]);
    let claim = cluster.get("v1", "PersistentVolumeClaim", "data-db-0").await;
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"],
        "yes"
    );
    let volume = claim["spec"]["volumeName"].as_str().expect("a volume");
    let volume = cluster.get("v1", "PersistentVolume", volume).await;
    let home = node_of(&cluster.pod("db-0").await).to_owned();
    let zone = if home == "n1" { "a" } else { "b" };
    let term = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
    assert_eq!(term["values"], json!([zone]));
    // Its node is full of other pods when it is created again: it waits for room in its zone.
    cluster
        .patch(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": home}, "spec": {"unschedulable": true}}))
        .await;
    cluster.delete_pod("db-0").await;
    seconds(30).await;
    assert_eq!(cluster.running().await, ["db-1"]);
    let events = cluster.events("FailedScheduling").await;
    let conflict = events.iter().any(|event| {
        event
            .message
            .as_deref()
            .is_some_and(|text| text.contains("Insufficient cpu"))
    });
    assert!(conflict, "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_immediate_claim_is_bound_without_a_pod() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    cluster.create(claim("now", "fast")).await;
    let mut spec = asks("100m");
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "now"}}]);
    cluster.create(crate::fixture::pod("web", spec)).await;
    seconds(1).await;
    let message = cluster.message("FailedScheduling").await;
    assert!(
        message.contains("pod has unbound immediate PersistentVolumeClaims"),
        "{message}"
    );
    cluster.create(class("fast", "Immediate")).await;
    seconds(20).await;
    assert_eq!(cluster.running().await, ["web"]);
}
