//! Claims without a pool, from their launch to their end.

use k8s_openapi::api::core::v1::Node;
use kerf_api::{KwokNodeClass, NodeClaim};
use kube::ResourceExt;
use serde_json::json;

use crate::objects::create;
use crate::real_control_plane::cases::{Case, case, has, play};
use crate::real_control_plane::harness::{Cluster, Picture, name, uid};
use crate::real_control_plane::inheritance;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_node_claims_become_nodes_and_go() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    let stories = vec![
        case("standalone", a_bare_claim),
        case("requests", a_claim_with_requests),
        case("propagation", what_the_node_inherits),
        case("claim-deleted", a_deleted_claim),
        case("node-deleted", a_deleted_node),
        case("no-class", a_claim_without_class),
        case("class-unready", a_claim_of_an_unready_class),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

fn none(picture: &Picture) -> bool {
    picture.claims.is_empty() && picture.nodes.is_empty()
}

// KWK-169
async fn a_bare_claim(case: Case) {
    case.claim(&["c-2x-amd64-linux"], json!({})).await;
    case.until("a ready node", 60, |picture| has(picture, 1)).await;
}

// KWK-170
async fn a_claim_with_requests(case: Case) {
    let requests = json!({"cpu": "3", "memory": "16Gi"});
    let types = ["s-16x-amd64-linux", "c-16x-amd64-linux", "m-4x-amd64-linux"];
    case.claim(&types, json!({"spec": {"resources": {"requests": requests}}}))
        .await;
    let up = case.until("a ready node", 60, |picture| has(picture, 1)).await;
    let allocatable = up.nodes[0]
        .status
        .clone()
        .and_then(|status| status.allocatable)
        .unwrap_or_default();
    let amount = |name: &str| -> kerf_units::quantity::Quantity {
        allocatable
            .get(name)
            .and_then(|amount| amount.0.parse().ok())
            .unwrap_or_default()
    };
    assert!(amount("cpu") >= "3".parse().expect("an amount"), "{allocatable:?}");
    assert!(
        amount("memory") >= "16Gi".parse().expect("an amount"),
        "{allocatable:?}"
    );
}

// KWK-171
async fn what_the_node_inherits(case: Case) {
    let mut claim = inheritance::said();
    claim["spec"]["resources"] = json!({"requests": {"cpu": "3", "memory": "16Gi"}});
    case.claim(&["m-4x-amd64-linux"], claim).await;
    let up = case.until("a ready node", 60, |picture| has(picture, 1)).await;
    let node = &up.nodes[0];
    inheritance::assert_on(node);
    let owners = node.owner_references();
    assert_eq!(owners.len(), 1, "{owners:?}");
    let owner = &owners[0];
    assert_eq!((owner.kind.as_str(), &owner.uid), ("NodeClaim", &uid(&up.claims[0])));
    assert_eq!((owner.block_owner_deletion, owner.controller), (Some(true), None));
}

// KWK-172
async fn a_deleted_claim(case: Case) {
    case.claim(&["c-2x-amd64-linux"], json!({})).await;
    case.until("a ready node", 60, |picture| has(picture, 1)).await;
    case.delete::<NodeClaim>(case.name).await;
    case.until("both are gone", 60, none).await;
}

// KWK-173
async fn a_deleted_node(case: Case) {
    case.claim(&["c-2x-amd64-linux"], json!({})).await;
    let up = case.until("a ready node", 60, |picture| has(picture, 1)).await;
    case.delete::<Node>(&name(&up.nodes[0])).await;
    case.until("both are gone", 60, none).await;
}

// KWK-175
async fn a_claim_without_class(case: Case) {
    let class = json!({"spec": {"nodeClassRef": {"name": "nobody"}}});
    case.claim(&["c-2x-amd64-linux"], class).await;
    case.until("the claim is gone", 60, none).await;
}

// KWK-100, KWK-175
async fn a_claim_of_an_unready_class(case: Case) {
    create::<KwokNodeClass>(&case.client, json!({"metadata": {"name": "unready"}, "spec": {}})).await;
    let now = kerf_runtime::Clock::system().now();
    let status = json!({"status": {"conditions": [
        {"type": "Ready", "status": "False", "reason": "TestingNotReady", "message": "not ready",
         "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}]}});
    case.patch_status::<KwokNodeClass>("unready", status).await;
    let class = json!({"spec": {"nodeClassRef": {"name": "unready"}}});
    case.claim(&["c-2x-amd64-linux"], class).await;
    case.until("the claim is gone", 60, none).await;
}

// KWK-176
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_garbage_collection_of_a_claim_without_instance() {
    let mut cluster = Cluster::start("0s").await;
    let claim = json!({"metadata": {"name": "lost"}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In",
                          "values": ["c-2x-amd64-linux"]}]}});
    create::<NodeClaim>(&cluster.client, claim).await;
    let now = kerf_runtime::Clock::system().now();
    let is_true = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "",
               "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()})
    };
    let conditions = ["Launched", "Registered", "Initialized"].map(is_true);
    let status = json!({"status": {"providerID": "kwok://nobody", "conditions": conditions}});
    let claims: kube::Api<NodeClaim> = kube::Api::all(cluster.client.clone());
    let patch = kube::api::Patch::Merge(status);
    let params = kube::api::PatchParams::default();
    claims.patch_status("lost", &params, &patch).await.expect("patched");
    // Those that start now collect at once; otherwise it may take two minutes.
    let controllers = cluster.controllers();
    cluster
        .until("the claim is gone", 60, |picture| picture.claims.is_empty())
        .await;
    controllers.stop().await;
}
