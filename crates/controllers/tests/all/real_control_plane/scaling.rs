//! Nodes are launched when pods need them and deleted when none does.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::{Conditioned, NodeClaim, NodePool};
use kube::Api;
use serde_json::json;
use tokio::time::Instant;

use crate::real_control_plane::harness::{Cluster, node_of, uid};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_scale_up() {
    let mut cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    cluster.pool("web", json!({"limits": {"cpu": "1000"}})).await;
    cluster
        .create_in::<DaemonSet>(json!({"metadata": {"name": "agent"}, "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "agent", "resources": {"requests": {"cpu": "100m"}}}]}}}}))
        .await;
    let zones = json!({"spec": {"affinity": null, "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    cluster.deployment("web", 6, zones).await;
    let up = cluster
        .until("all pods run on initialised nodes", 60, |picture| {
            let initialised = |claim: &NodeClaim| claim.condition_is_true("Initialized");
            !picture.nodes.is_empty()
                && picture.running() == 6 + picture.nodes.len()
                && picture.claims.len() == picture.nodes.len()
                && picture.claims.iter().all(initialised)
        })
        .await;
    // What the scheduler did is what was planned: as many zones as can be, no node without one of the pods.
    let web: Vec<_> = up.pods.iter().filter(|pod| is_of(pod, "web")).collect();
    for node in &up.nodes {
        let hosted = web.iter().filter(|pod| node_of(pod) == node.metadata.name.as_deref());
        assert!(hosted.count() > 0, "{:?} is empty", node.metadata.name);
    }
    let zone = |node: &Node| {
        node.metadata
            .labels
            .as_ref()?
            .get("topology.kubernetes.io/zone")
            .cloned()
    };
    let zones: BTreeSet<_> = up.nodes.iter().filter_map(zone).collect();
    assert!(zones.len() > 1, "{zones:?}");
    // API-089
    let pools: Api<NodePool> = Api::all(cluster.client.clone());
    let count = i64::try_from(up.nodes.len()).expect("few");
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let status = pools.get("web").await.expect("there").status;
        if status.as_ref().and_then(|status| status.nodes) == Some(count) {
            break;
        }
        assert!(Instant::now() < end, "{status:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // One machine per claim, and no claim without need.
    assert_eq!(cluster.seen.claims.len(), up.claims.len());
    assert_eq!(cluster.seen.nodes.len(), up.nodes.len());
    controllers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_scale_down() {
    let mut cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    cluster
        .pool("web", json!({"disruption": {"consolidateAfter": "1s"}}))
        .await;
    cluster.deployment("web", 3, json!({})).await;
    cluster.until("three nodes", 60, |picture| picture.is_settled(3)).await;
    cluster.scale("web", 1).await;
    let one = cluster.until("one pod", 30, |picture| picture.pods.len() == 1).await;
    let down = cluster
        .until("the empty nodes are gone", 90, |picture| picture.is_settled(1))
        .await;
    // The pod that stays was not touched, and nothing replaced those that were deleted.
    assert_eq!(uid(&down.pods[0]), uid(&one.pods[0]));
    assert_eq!((cluster.seen.claims.len(), cluster.seen.pods.len()), (3, 3));
    controllers.stop().await;
}

fn is_of(pod: &Pod, app: &str) -> bool {
    let labels = pod.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get("app"))
        .is_some_and(|label| label == app)
}
