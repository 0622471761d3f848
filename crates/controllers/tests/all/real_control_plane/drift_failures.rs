//! Replacements that never register: the drifted nodes stay.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_controllers::Timeouts;
use kerf_runtime::options::FeatureGates;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::real_control_plane::cases::{Case, all_drifted, case, going, has, kept, play};
use crate::real_control_plane::harness::{Cluster, Picture, is_tainted, stays};

/// How long a claim may take to register here, and a replacement to be ready.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_drift_is_rolled_back_when_replacements_fail() {
    let cluster = Cluster::start("0s").await;
    let timeouts = Timeouts {
        registration: PATIENCE,
        replacement: PATIENCE,
        ..Timeouts::default()
    };
    let controllers = cluster.controllers_with(FeatureGates::default(), timeouts);
    refuse_nodes(&cluster).await;
    let stories = vec![
        case("unregistered", replacements_that_never_register),
        case("uninitialized", replacements_that_never_initialize),
        case("standalone", a_claim_whose_node_never_comes),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

/// Lets the API server refuse Nodes with the label `registration: fail`.
// KWK-099
async fn refuse_nodes(cluster: &Cluster) {
    use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
    let expression = "!has(object.metadata.labels) || !('registration' in object.metadata.labels) \
                      || object.metadata.labels['registration'] != 'fail'";
    let policy = json!({"metadata": {"name": "refuse"}, "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]}]},
        "validations": [{"expression": expression}]}});
    crate::objects::create::<ValidatingAdmissionPolicy>(&cluster.client, policy).await;
    let binding =
        json!({"metadata": {"name": "refuse"}, "spec": {"policyName": "refuse", "validationActions": ["Deny"]}});
    crate::objects::create::<ValidatingAdmissionPolicyBinding>(&cluster.client, binding).await;
    let api: Api<Node> = Api::all(cluster.client.clone());
    let node = json!({"metadata": {"name": "refused", "labels": {"registration": "fail"}}});
    let node: Node = serde_json::from_value(node).expect("a Node");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let end = Instant::now() + Duration::from_secs(60);
    while api.create(&dry, &node).await.is_ok() {
        assert!(Instant::now() < end, "the policy has no effect");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Two nodes of a pool whose disruption is left to the defaults, then another template.
async fn drifting(case: &Case, template: Value) -> Picture {
    // One node at a time is the default for two.
    case.pool(json!({"disruption": null})).await;
    case.deployment("web", 2, json!({})).await;
    let before = case.until("two nodes", 90, |picture| picture.is_settled(2)).await;
    case.patch_pool(json!({"spec": {"template": template}})).await;
    case.until("both have drifted", 60, all_drifted).await;
    let one = |picture: &Picture| picture.nodes.iter().any(is_tainted);
    case.until("one is to go", 60, one).await;
    before
}

// KWK-113
async fn replacements_that_never_register(case: Case) {
    let before = drifting(&case, json!({"metadata": {"labels": {"registration": "fail"}}})).await;
    let rolled_back = |picture: &Picture| {
        assert!(going(picture) <= 1 && kept(&before, picture));
        going(picture) == 0
    };
    case.until("it may stay", 90, rolled_back).await;
    let stay = |picture: &Picture| assert!(going(picture) <= 1 && kept(&before, picture) && picture.running() == 2);
    case.throughout(10, stay).await;
}

// KWK-114
async fn replacements_that_never_initialize(case: Case) {
    let taint = json!({"key": "example.com/never", "effect": "PreferNoSchedule"});
    let before = drifting(&case, json!({"spec": {"startupTaints": [taint]}})).await;
    let rolled_back = |picture: &Picture| {
        assert!(going(picture) <= 1 && kept(&before, picture));
        going(picture) == 0
    };
    case.until("it may stay", 90, rolled_back).await;
    case.throughout(10, |picture| {
        assert!(kept(&before, picture) && picture.running() == 2);
        // The replacement is kept; it may yet become a node.
        assert_eq!((picture.claims.len(), picture.nodes.len()), (3, 3), "{picture}");
        assert!(picture.claims.iter().all(stays) && picture.nodes.iter().all(stays));
    })
    .await;
}

// KWK-174
async fn a_claim_whose_node_never_comes(case: Case) {
    let labels = json!({"labels": {"registration": "fail"}});
    case.claim(&["c-2x-amd64-linux"], json!({"metadata": labels})).await;
    case.until("the claim is there", 30, |picture| picture.claims.len() == 1)
        .await;
    // It stays until its time limit has passed.
    case.throughout(PATIENCE.as_secs() / 2, |picture| {
        assert!(picture.claims.iter().all(stays) && picture.claims.len() == 1);
        assert!(!has(picture, 1));
    })
    .await;
    case.until("the claim is gone", 60, |picture| picture.claims.is_empty())
        .await;
}
