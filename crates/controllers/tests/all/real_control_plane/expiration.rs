//! Expired nodes are deleted, with one replacement each.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use crate::real_control_plane::cases::{Case, case, has, play, replaced};
use crate::real_control_plane::harness::{Cluster, Picture, is_tainted, uid};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_expiration_replaces_once() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    let stories = vec![
        case("old", an_old_node),
        case("budget", an_old_node_under_a_pod_disruption_budget),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

// KWK-177
async fn an_old_node(case: Case) {
    let no_drift = json!([{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "100%"}]);
    let short = json!({"spec": {"expireAfter": "45s"}});
    case.pool(json!({"template": short, "disruption": {"budgets": no_drift}}))
        .await;
    case.deployment("web", 1, json!({})).await;
    let before = case
        .until("a node", 60, |picture| has(picture, 1) && picture.running() == 1)
        .await;
    // Its successor shall live longer.
    case.patch_pool(json!({"spec": {"template": {"spec": {"expireAfter": "Never"}}}}))
        .await;
    let beside = |picture: &Picture| {
        picture.nodes.iter().any(is_tainted) && picture.claims.iter().any(|claim| uid(claim) != uid(&before.claims[0]))
    };
    case.until("a replacement comes while the old node drains", 90, beside)
        .await;
    case.patch_pool(json!({"spec": {"limits": {"cpu": "0"}}})).await;
    let done = |picture: &Picture| replaced(&before, picture) && picture.is_settled(1);
    case.until("the new node runs the pod", 90, done).await;
    case.throughout(5, |picture| assert!(picture.is_settled(1))).await;
    assert_eq!(case.claims_seen(), 2);
}

// KWK-178
async fn an_old_node_under_a_pod_disruption_budget(case: Case) {
    // One of them holds all five.
    let types = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]}]);
    case.pool(json!({"template": {"spec": {"expireAfter": "45s", "requirements": types}}}))
        .await;
    let together = json!({"spec": {"affinity": null, "containers": [
        {"name": "main", "image": "app", "resources": {"requests": {"cpu": "500m"}}}]}});
    case.create_in::<PodDisruptionBudget>(json!({"metadata": {"name": "web"}, "spec": {
        "minAvailable": 4, "selector": {"matchLabels": {"app": "web"}}}}))
        .await;
    case.deployment("web", 5, together).await;
    let up = |picture: &Picture| has(picture, 1) && picture.running() == 5;
    let before = case.until("five pods on a node", 60, up).await;
    case.patch_pool(json!({"spec": {"template": {"spec": {"expireAfter": "Never"}},
                                    "disruption": {"budgets": [{"nodes": "0", "reasons": ["Drifted"]}]}}}))
        .await;
    let done = |picture: &Picture| {
        let ready = picture.running();
        assert!(ready >= 4 || !replaced(&before, picture), "{ready} of five run");
        replaced(&before, picture) && up(picture)
    };
    case.until("all run on one new node", 120, done).await;
    assert_eq!(case.claims_seen(), 2, "exactly one new node");
}
