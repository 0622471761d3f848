//! Nodes that stay unhealthy are replaced, even when voluntary disruption is blocked.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kerf_controllers::Timeouts;
use kerf_runtime::Clock;
use kerf_runtime::options::FeatureGates;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::real_control_plane::cases::{Case, case, play, replaced};
use crate::real_control_plane::harness::{Cluster, name, uid};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_repair_replaces_what_stays_unwell() {
    let cluster = Cluster::start("0s").await;
    let gates = FeatureGates {
        node_repair: true,
        ..FeatureGates::default()
    };
    let controllers = cluster.controllers_with(gates, Timeouts::default());
    let long_ago = SignedDuration::from_hours(31);
    let lately = SignedDuration::from_mins(31);
    let stories = vec![
        // KWK-138
        case("ready-false", move |case| {
            repaired(case, "False", long_ago, json!({}), json!({}))
        }),
        case("ready-unknown", move |case| {
            repaired(case, "Unknown", long_ago, json!({}), json!({}))
        }),
        // KWK-139
        case("no-budget", move |case| {
            let none = json!({"disruption": {"budgets": [{"nodes": "0"}]}});
            repaired(case, "False", lately, none, json!({}))
        }),
        case("protected-node", move |case| {
            let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
            repaired(case, "False", lately, json!({}), protected)
        }),
        case("slow-end", move |case| {
            let slow = json!({"template": {"spec": {"terminationGracePeriod": "1h"}}});
            repaired(case, "False", lately, slow, json!({}))
        }),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

/// The kubelet of a node with a protected pod reports the node unhealthy, and has done so for a time.
async fn repaired(case: Case, status: &'static str, since: SignedDuration, pool: Value, node: Value) {
    case.pool(pool).await;
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    case.deployment("web", 1, protected).await;
    let before = case.until("a node", 90, |picture| picture.is_settled(1)).await;
    let unwell = name(&before.nodes[0]);
    case.patch::<Node>(&unwell, node).await;
    // It does not recover, and neither does it end its pods.
    let paused = json!({"metadata": {"annotations": {"sandbox.kerf.sh/kubelet": "paused"}}});
    case.patch::<Node>(&unwell, paused).await;
    let now = Clock::system().now();
    let time = |at: jiff::Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({"status": {"conditions": [
        {"type": "Ready", "status": status, "reason": "Unwell", "message": "not well",
         "lastHeartbeatTime": time(now), "lastTransitionTime": time(now - since)}]}});
    let nodes: Api<Node> = Api::all(case.client.clone());
    let patch = Patch::Strategic(condition);
    nodes
        .patch_status(&unwell, &PatchParams::default(), &patch)
        .await
        .expect("patched");
    let done = |picture: &crate::real_control_plane::harness::Picture| {
        let old_pod = picture.pods.iter().any(|pod| uid(pod) == uid(&before.pods[0]));
        replaced(&before, picture) && !old_pod && picture.is_settled(1)
    };
    case.until("a new node runs a new pod", 120, done).await;
    assert_eq!(case.claims_seen(), 2);
}
