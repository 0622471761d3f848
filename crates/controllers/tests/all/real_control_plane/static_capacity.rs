//! Pools with a fixed number of nodes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::{Conditioned, NodeClaim, NodePool};
use kerf_controllers::Timeouts;
use kerf_runtime::options::FeatureGates;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::real_control_plane::cases::{Case, case, going, has, play, replaced};
use crate::real_control_plane::harness::{Cluster, Picture, node_of, stays, uid};
use crate::real_control_plane::inheritance;

fn gates() -> FeatureGates {
    FeatureGates {
        static_capacity: true,
        ..FeatureGates::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_static_capacity_keeps_the_number_of_nodes() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers_with(gates(), Timeouts::default());
    let stories = vec![
        case("replicas", more_replicas),
        case("template", what_the_template_says),
        case("limit", a_limit_of_nodes),
        case("zero", down_to_zero),
        case("order", which_nodes_go_first),
        case("graceful", pods_of_nodes_that_go),
        case("dynamic", beside_a_dynamic_pool),
        case("deletion", a_deleted_pool),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_static_capacity_drifts_within_its_limits() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers_with(gates(), Timeouts::default());
    let stories = vec![
        // KWK-124
        case("all", |case| renewed(case, "100%", None, 10)),
        // KWK-125: the limit leaves room for two, the budget for four.
        case("limited", |case| renewed(case, "4", Some(12), 2)),
        // KWK-126: the limit leaves room for five, the budget for two.
        case("budgeted", |case| renewed(case, "2", Some(15), 2)),
        case("at-once", drift_and_scale_at_once),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

/// Creates the case's pool with so many nodes; `spec` is merged over the least there must be.
async fn static_pool(case: &Case, replicas: usize, spec: Value) {
    let types = ["c-16x-amd64-linux", "c-16x-arm64-linux"];
    let types = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}]);
    let mut all = json!({"replicas": replicas, "template": {"spec": {"requirements": types}}});
    crate::merge::merge(&mut all, spec);
    case.pool(all).await;
}

async fn replicas(case: &Case, count: usize) {
    case.patch_pool(json!({"spec": {"replicas": count}})).await;
}

// KWK-118
async fn more_replicas(case: Case) {
    static_pool(&case, 10, json!({})).await;
    case.until("ten nodes", 120, |picture| has(picture, 10)).await;
    replicas(&case, 15).await;
    case.until("fifteen nodes", 120, |picture| has(picture, 15)).await;
    assert_eq!(case.claims_seen(), 15);
}

// KWK-119
async fn what_the_template_says(case: Case) {
    static_pool(&case, 1, json!({"template": inheritance::said()})).await;
    let up = case.until("a node", 90, |picture| has(picture, 1)).await;
    inheritance::assert_on(&up.nodes[0]);
}

// KWK-120
async fn a_limit_of_nodes(case: Case) {
    static_pool(&case, 10, json!({"limits": {"nodes": "5"}})).await;
    let within = |picture: &Picture| assert!(picture.claims.len() <= 5 && picture.nodes.len() <= 5);
    case.until("five nodes", 90, |picture| {
        within(picture);
        has(picture, 5)
    })
    .await;
    case.throughout(20, |picture| {
        within(picture);
        assert!(has(picture, 5));
    })
    .await;
    assert_eq!(case.claims_seen(), 5);
}

// KWK-121
async fn down_to_zero(case: Case) {
    static_pool(&case, 3, json!({})).await;
    case.until("three nodes", 90, |picture| has(picture, 3)).await;
    replicas(&case, 0).await;
    let none = |picture: &Picture| picture.claims.is_empty() && picture.nodes.is_empty();
    case.until("no nodes", 90, none).await;
    assert_eq!(case.claims_seen(), 3);
}

/// Pods of several Deployments that never share a node.
fn apart(extra: Value) -> Value {
    let mut template = json!({"metadata": {"labels": {"apart": "yes"}}, "spec": {"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"apart": "yes"}}}]}}}});
    crate::merge::merge(&mut template, extra);
    template
}

fn runs(pod: &Pod) -> bool {
    stays(pod) && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

// KWK-122
async fn which_nodes_go_first(case: Case) {
    static_pool(&case, 5, json!({})).await;
    case.until("five nodes", 90, |picture| has(picture, 5)).await;
    case.deployment("plain", 2, apart(json!({}))).await;
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    case.deployment("protected", 1, apart(protected)).await;
    let full = case.until("three pods", 60, |picture| picture.running() == 3).await;
    let hosts: BTreeSet<String> = full
        .pods
        .iter()
        .filter_map(|pod| node_of(pod).map(str::to_owned))
        .collect();
    replicas(&case, 3).await;
    let three = case.until("three nodes", 90, |picture| has(picture, 3)).await;
    let left: BTreeSet<String> = three
        .nodes
        .iter()
        .map(crate::real_control_plane::harness::name)
        .collect();
    assert_eq!(left, hosts, "the empty ones go first");
    replicas(&case, 1).await;
    let one = case.until("one node", 90, |picture| has(picture, 1)).await;
    let of_protected = one
        .pods
        .iter()
        .find(|pod| pod.labels().get("app").is_some_and(|app| app == "protected"));
    let of_protected = of_protected.expect("the protected pod");
    assert!(runs(of_protected) && full.pods.iter().any(|pod| uid(pod) == uid(of_protected)));
    assert_eq!(node_of(of_protected), one.nodes[0].metadata.name.as_deref());
}

// KWK-123
async fn pods_of_nodes_that_go(case: Case) {
    static_pool(&case, 3, json!({})).await;
    case.until("three nodes", 90, |picture| has(picture, 3)).await;
    case.deployment("web", 2, json!({"spec": {"affinity": null}})).await;
    case.until("two pods", 60, |picture| picture.running() == 2).await;
    replicas(&case, 1).await;
    let moved = |picture: &Picture| has(picture, 1) && picture.running() == 2 && picture.pods.len() == 2;
    case.until("both run on the node that is left", 90, moved).await;
    assert_eq!(case.claims_seen(), 3);
}

// KWK-127
async fn beside_a_dynamic_pool(case: Case) {
    let taint = json!([{"key": "example.com/static", "effect": "NoSchedule"}]);
    static_pool(&case, 2, json!({"template": {"spec": {"taints": taint}}})).await;
    case.other_pool("-other", json!({})).await;
    // They do not tolerate the static pool's nodes.
    let either = json!({"karpenter.sh/nodepool": null});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "In",
                               "values": [case.name, format!("{}-other", case.name)]}]}]}}});
    let template = json!({"spec": {"nodeSelector": either, "affinity": affinity}});
    case.deployment("web", 3, template).await;
    let up = case
        .until("all run", 120, |picture| has(picture, 5) && picture.running() == 3)
        .await;
    let of = |pool: &str| {
        let is_of = |node: &&Node| {
            node.labels()
                .get("karpenter.sh/nodepool")
                .is_some_and(|label| label == pool)
        };
        up.nodes.iter().filter(is_of).count()
    };
    assert_eq!((of("dynamic"), of("dynamic-other")), (2, 3));
}

// KWK-129
async fn a_deleted_pool(case: Case) {
    static_pool(&case, 3, json!({})).await;
    case.until("three nodes", 90, |picture| has(picture, 3)).await;
    case.delete::<NodePool>(case.name).await;
    let none = |picture: &Picture| picture.claims.is_empty() && picture.nodes.is_empty();
    case.until("claims and nodes are gone", 120, none).await;
    case.throughout(10, |picture| assert!(none(picture))).await;
    assert_eq!(case.claims_seen(), 3);
}

/// Ten nodes drift; never more than `at_once` are on their way out, and all are replaced.
async fn renewed(case: Case, budget: &'static str, limit: Option<usize>, at_once: usize) {
    let limits = limit.map(|nodes| json!({"nodes": nodes.to_string()}));
    static_pool(
        &case,
        10,
        json!({"limits": limits, "disruption": {"budgets": [{"nodes": budget}]}}),
    )
    .await;
    let before = case.until("ten nodes", 120, |picture| has(picture, 10)).await;
    case.drift().await;
    let done = |picture: &Picture| {
        assert!(going(picture) <= at_once, "{} go at once", going(picture));
        assert!(limit.is_none_or(|limit| picture.claims.len() <= limit), "{picture}");
        replaced(&before, picture) && has(picture, 10)
    };
    case.until("ten new nodes", 240, done).await;
    assert_eq!(case.claims_seen(), 20, "one replacement each");
}

// KWK-128
async fn drift_and_scale_at_once(case: Case) {
    static_pool(&case, 3, json!({"limits": {"nodes": "5"}})).await;
    case.until("three nodes", 90, |picture| has(picture, 3)).await;
    let template = json!({"metadata": {"annotations": {"example.com/generation": "2"}}});
    case.patch_pool(json!({"spec": {"replicas": 4, "template": template}}))
        .await;
    let is_new = |claim: &NodeClaim| claim.annotations().contains_key("example.com/generation");
    let initialized = |claim: &NodeClaim| claim.condition_is_true("Initialized");
    let done = |picture: &Picture| {
        assert!(picture.claims.len() <= 5, "{picture}");
        has(picture, 4) && picture.claims.iter().all(|claim| is_new(claim) && initialized(claim))
    };
    case.until("four new nodes", 180, done).await;
    case.throughout(10, |picture| assert!(has(picture, 4), "{picture}"))
        .await;
}
