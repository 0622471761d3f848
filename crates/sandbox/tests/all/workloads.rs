//! Deployments, StatefulSets, DaemonSets and Jobs.

use crate::fixture::{Cluster, asks, node_of, phase, seconds, workload};
use kube::ResourceExt;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_deployment_runs_its_pods() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1", "n2"]).await;
    cluster.create(workload("Deployment", "web", 3, "1")).await;
    seconds(5).await;
    let pods = cluster.pods().await;
    assert_eq!(pods.len(), 3);
    assert!(
        pods.iter()
            .all(|pod| phase(pod) == "Running" && node_of(pod).starts_with('n')),
        "{pods:#?}"
    );
    let status = cluster.get("apps/v1", "Deployment", "web").await["status"].clone();
    assert_eq!(status["availableReplicas"], 3);
    assert_eq!(status["observedGeneration"], 1);
    let reasons: Vec<_> = status["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .map(|c| &c["reason"])
        .collect();
    assert_eq!(reasons, ["MinimumReplicasAvailable", "NewReplicaSetAvailable"]);
}

#[tokio::test(start_paused = true)]
async fn a_rolling_restart_keeps_enough_pods_available() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1", "n2"]).await;
    cluster.create(workload("Deployment", "web", 4, "500m")).await;
    seconds(10).await;
    let before = cluster.running().await;
    let restart = json!({"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:25Z"});
    cluster
        .patch(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"template": {"metadata": {"annotations": restart}}},
        }))
        .await;
    for _ in 0..60 {
        assert!(cluster.running().await.len() >= 3, "more than a quarter is missing");
        assert!(
            cluster
                .pods()
                .await
                .iter()
                .filter(|p| p.metadata.deletion_timestamp.is_none())
                .count()
                <= 5
        );
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    let after = cluster.running().await;
    assert_eq!(after.len(), 4);
    assert!(after.iter().all(|name| !before.contains(name)), "{before:?} {after:?}");
    let deployment = cluster.get("apps/v1", "Deployment", "web").await;
    assert_eq!(
        deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "2"
    );
    assert_eq!(deployment["status"]["updatedReplicas"], 4);
    assert_eq!(deployment["status"]["unavailableReplicas"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn scaling_down_and_recreating_work() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let mut web = workload("Deployment", "web", 3, "100m");
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    cluster.create(web).await;
    seconds(5).await;
    let patch =
        |spec| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
    cluster.patch(patch(json!({"replicas": 1}))).await;
    seconds(5).await;
    assert_eq!(cluster.running().await.len(), 1);
    cluster
        .patch(patch(json!({"template": {"metadata": {"labels": {"new": "yes"}}}})))
        .await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let pods = cluster.pods().await;
    assert!(
        pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()),
        "the old pod goes first"
    );
    seconds(10).await;
    let pods = cluster.pods().await;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].labels().get("new").map(String::as_str), Some("yes"));
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_starts_and_updates_in_order() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    cluster.create(workload("StatefulSet", "db", 3, "100m")).await;
    seconds(3).await;
    assert_eq!(cluster.running().await, ["db-0"], "the second waits for the first");
    seconds(6).await;
    assert_eq!(cluster.running().await, ["db-0", "db-1", "db-2"]);
    let old: Vec<_> = cluster.pods().await.iter().map(ResourceExt::uid).collect();
    cluster
        .patch(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {"template": {"metadata": {"annotations": {"v": "2"}}}},
        }))
        .await;
    seconds(2).await;
    let now: Vec<_> = cluster.pods().await.iter().map(ResourceExt::uid).collect();
    assert_eq!(
        (now.first(), now.get(1)),
        (old.first(), old.get(1)),
        "the highest ordinal goes first"
    );
    assert_ne!(now.get(2), old.get(2));
    seconds(30).await;
    let status = cluster.get("apps/v1", "StatefulSet", "db").await["status"].clone();
    assert_eq!(status["updatedReplicas"], 3);
    assert_eq!(status["currentRevision"], status["updateRevision"]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_runs_on_every_node_that_admits_it() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1", "n2"]).await;
    let mut agent = workload("DaemonSet", "agent", 0, "100m");
    agent["spec"].as_object_mut().expect("a spec").remove("replicas");
    cluster.create(agent).await;
    seconds(5).await;
    let mut homes: Vec<_> = cluster.pods().await.iter().map(|pod| node_of(pod).to_owned()).collect();
    homes.sort();
    assert_eq!(homes, ["n1", "n2"]);
    // A daemon starts before its node is ready for others, and stays through a cordon.
    cluster.node("n3", "a").await;
    cluster
        .patch(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"unschedulable": true}}))
        .await;
    seconds(20).await;
    assert_eq!(cluster.running().await.len(), 3);
    let status = cluster.get("apps/v1", "DaemonSet", "agent").await["status"].clone();
    assert_eq!(
        (&status["desiredNumberScheduled"], &status["numberReady"]),
        (&json!(3), &json!(3))
    );
    let taint = json!([{"key": "team", "value": "x", "effect": "NoExecute"}]);
    cluster
        .patch(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}, "spec": {"taints": taint}}))
        .await;
    seconds(5).await;
    assert_eq!(cluster.running().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_and_another_fails() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let job = |name: &str, exit_code: &str| {
        let mut spec = asks("100m");
        spec["restartPolicy"] = json!("Never");
        let annotations = json!({"sandbox.kerf.sh/run-for": "5s", "sandbox.kerf.sh/exit-code": exit_code});
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {
                "parallelism": 2, "completions": 3, "backoffLimit": 1,
                "template": {"metadata": {"annotations": annotations}, "spec": spec},
            },
        })
    };
    cluster.create(job("good", "0")).await;
    cluster.create(job("bad", "1")).await;
    seconds(6).await;
    assert_eq!(cluster.get("batch/v1", "Job", "good").await["status"]["active"], 2);
    seconds(30).await;
    let kinds = |status: &serde_json::Value| -> Vec<String> {
        let conditions = status["conditions"].as_array().expect("conditions");
        conditions
            .iter()
            .map(|c| c["type"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let good = cluster.get("batch/v1", "Job", "good").await["status"].clone();
    assert_eq!(good["succeeded"], 3);
    assert_eq!(kinds(&good), ["SuccessCriteriaMet", "Complete"]);
    let bad = cluster.get("batch/v1", "Job", "bad").await["status"].clone();
    assert_eq!(kinds(&bad), ["FailureTarget", "Failed"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_remembers_pods_that_vanished_with_their_node() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let mut spec = asks("100m");
    spec["restartPolicy"] = json!("Never");
    let annotations = json!({"sandbox.kerf.sh/run-for": "5s"});
    cluster
        .create(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
            "spec": {
                "completions": 2, "completionMode": "Indexed",
                "template": {"metadata": {"annotations": annotations}, "spec": spec},
            },
        }))
        .await;
    seconds(9).await;
    cluster
        .patch(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"unschedulable": true}}))
        .await;
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(cluster.client.clone());
    nodes
        .delete("n1", &kube::api::DeleteParams::default())
        .await
        .expect("a deletion");
    seconds(60).await;
    let status = cluster.get("batch/v1", "Job", "work").await["status"].clone();
    assert_eq!(
        (&status["succeeded"], &status["completedIndexes"]),
        (&json!(1), &json!("0"))
    );
    assert!(
        cluster.pods().await.iter().all(|pod| phase(pod) == "Pending"),
        "the lost pod was replaced"
    );
    cluster.nodes(&["n2"]).await;
    seconds(20).await;
    let status = cluster.get("batch/v1", "Job", "work").await["status"].clone();
    assert_eq!(
        (&status["succeeded"], &status["completedIndexes"]),
        (&json!(2), &json!("0,1"))
    );
}

#[tokio::test(start_paused = true)]
async fn pods_that_a_quota_refuses_are_reported_and_created_when_it_allows_them() {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n1"]).await;
    let quota = |pods: &str| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": {"pods": pods}}});
    cluster.create(quota("2")).await;
    cluster.create(workload("Deployment", "web", 4, "100m")).await;
    seconds(60).await;
    assert_eq!(cluster.running().await.len(), 2);
    let status = cluster.get("apps/v1", "Deployment", "web").await["status"].clone();
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"]),
        (&json!(2), &json!(2)),
        "{status}"
    );
    let events = cluster.events("FailedCreate").await;
    let message = events[0].message.as_deref().unwrap_or_default();
    assert!(
        events.len() == 1 && events[0].count > Some(1) && message.contains("exceeded quota: team, requested: pods=1"),
        "{events:?}"
    );
    cluster.patch(quota("4")).await;
    seconds(60).await;
    assert_eq!(cluster.running().await.len(), 4);
}
