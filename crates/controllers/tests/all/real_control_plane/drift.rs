//! Drifted nodes are replaced within disruption budgets.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{Conditioned, NodeClaim, NodePool, annotations};
use kerf_runtime::Clock;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::real_control_plane::cases::{Case, all_drifted, case, going, has, kept, play, replaced};
use crate::real_control_plane::harness::{Cluster, Picture, name, stays};

// KWK-105
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_drift_keeps_to_budgets() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    let stories = vec![
        case("empty", empty_nodes),
        case("delete", nodes_whose_pods_fit_elsewhere),
        case("replace", nodes_that_need_a_replacement),
        case("blocked", |case| blocked(case, json!({"nodes": "0"}))),
        case("window", |case| blocked(case, a_window_around_now())),
        case("unhealthy", pods_that_are_never_ready),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

/// A budget of none that has been there for a quarter of an hour and lasts as long.
pub(crate) fn a_window_around_now() -> Value {
    let start = Clock::system().now() - jiff::SignedDuration::from_mins(15);
    json!({"nodes": "0", "schedule": start.strftime("%M %H * * *").to_string(), "duration": "30m"})
}

// KWK-106
async fn empty_nodes(case: Case) {
    case.pool(json!({"disruption": {"budgets": [{"nodes": "50%"}]}})).await;
    case.deployment("web", 3, json!({})).await;
    let up = case.until("three nodes", 90, |picture| picture.is_settled(3)).await;
    case.hold(&up.nodes, true).await;
    case.scale("web", 0).await;
    case.until("no pods", 60, |picture| picture.pods.is_empty()).await;
    case.drift().await;
    // Half of three, rounded up; as long as those two are there, no third goes.
    case.until("two are on their way", 60, |picture| going(picture) == 2)
        .await;
    case.throughout(5, |picture| assert_eq!(going(picture), 2)).await;
    case.hold(&up.nodes, false).await;
    let gone = |picture: &Picture| {
        assert!(going(picture) <= 2);
        picture.nodes.is_empty() && picture.claims.is_empty()
    };
    case.until("all are gone", 90, gone).await;
    assert_eq!(case.claims_seen(), 3, "nothing comes for empty nodes");
}

// KWK-107
async fn nodes_whose_pods_fit_elsewhere(case: Case) {
    let small = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]}]);
    case.pool(json!({"template": {"spec": {"requirements": small}}, "disruption": {"budgets": [{"nodes": "50%"}]}}))
        .await;
    // The anchors ask for three nodes, on which the others are spread; without anchors two nodes, then one, would do.
    case.deployment("anchor", 3, json!({})).await;
    case.until("three nodes", 90, |picture| picture.is_settled(3)).await;
    let light = json!({"spec": {"affinity": null, "containers": [
        {"name": "main", "image": "app", "resources": {"requests": {"cpu": "300m"}}}]}});
    case.deployment("web", 9, light).await;
    case.until("nine more pods", 60, |picture| picture.running() == 12)
        .await;
    case.scale("anchor", 0).await;
    let before = case.until("nine pods", 60, |picture| picture.pods.len() == 9).await;
    assert!(has(&before, 3));
    case.drift().await;
    let done = |picture: &Picture| {
        assert!(going(picture) <= 2, "half of three, rounded up");
        replaced(&before, picture) && has(picture, picture.nodes.len()) && picture.running() == 9
    };
    case.until("the drifted nodes are gone", 150, done).await;
    assert!(case.claims_seen() < 6, "the pods of some node moved to the others");
}

// KWK-108
async fn nodes_that_need_a_replacement(case: Case) {
    case.pool(json!({"disruption": {"budgets": [{"nodes": "3"}]}})).await;
    case.deployment("web", 5, json!({})).await;
    let before = case.until("five nodes", 90, |picture| picture.is_settled(5)).await;
    case.drift().await;
    let done = |picture: &Picture| {
        assert!(going(picture) <= 3);
        replaced(&before, picture) && picture.is_settled(5)
    };
    case.until("five new nodes", 180, done).await;
    assert_eq!(case.claims_seen(), 10, "one replacement each");
}

// KWK-109, KWK-110
async fn blocked(case: Case, budget: Value) {
    case.pool(json!({"disruption": {"budgets": [budget]}})).await;
    case.deployment("web", 1, json!({})).await;
    let before = case.until("a node", 90, |picture| picture.is_settled(1)).await;
    case.drift().await;
    case.until("it has drifted", 60, all_drifted).await;
    // Longer than the pause between two rounds of disruption.
    case.throughout(20, |picture| {
        assert_eq!(going(picture), 0);
        assert!(kept(&before, picture));
    })
    .await;
}

// KWK-115
async fn pods_that_are_never_ready(case: Case) {
    case.pool(json!({})).await;
    let unwell = json!({"metadata": {"labels": {"kwok.x-k8s.io/stage": "unhealthy"}}});
    case.create_in::<PodDisruptionBudget>(json!({"metadata": {"name": "web"}, "spec": {
        "minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}))
        .await;
    case.deployment("web", 2, unwell).await;
    let before = case.until("two nodes", 90, |picture| has(picture, 2)).await;
    case.drift().await;
    case.until("both have drifted", 60, all_drifted).await;
    case.throughout(20, |picture| {
        assert_eq!(going(picture), 0);
        assert!(kept(&before, picture));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_drift_follows_the_template() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    let stories = vec![
        // KWK-111
        case("annotations", |case| {
            let template = json!({"metadata": {"annotations": {"example.com/annotation": "2"}}});
            follows(case, template, |node, _| {
                node.annotations()
                    .get("example.com/annotation")
                    .is_some_and(|value| value == "2")
            })
        }),
        case("labels", |case| {
            let template = json!({"metadata": {"labels": {"example.com/label": "2"}}});
            follows(case, template, |node, _| {
                node.labels().get("example.com/label").is_some_and(|value| value == "2")
            })
        }),
        case("taints", |case| {
            let template = json!({"spec": {"taints": [{"key": "example.com/taint", "effect": "NoExecute"}]}});
            follows(case, template, |node, _| has_taint(node, "example.com/taint"))
        }),
        case("startup-taints", |case| {
            let template = json!({"spec": {"startupTaints": [{"key": STARTUP_TAINT, "effect": "NoExecute"}]}});
            // The node has lost it by now, and its claim says what it was born with.
            follows(case, template, |node, claim| {
                let born_with = claim.spec.startup_taints.iter().flatten();
                !has_taint(node, STARTUP_TAINT) && born_with.into_iter().any(|taint| taint.key == STARTUP_TAINT)
            })
        }),
        case("requirements", |case| {
            let template = json!({"spec": {"requirements": [
                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}});
            follows(case, template, |node, _| {
                node.labels()
                    .get("karpenter.sh/capacity-type")
                    .is_some_and(|value| value == "spot")
            })
        }),
        case("hash", a_hash_of_another_version),
        case("fresh", a_new_pool),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

const STARTUP_TAINT: &str = "example.com/startup-taint";

fn has_taint(node: &Node, key: &str) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    taints.unwrap_or_default().iter().any(|taint| taint.key == key)
}

/// A change of the template replaces the node by one that has what the template now says.
async fn follows(case: Case, template: Value, shows: fn(&Node, &NodeClaim) -> bool) {
    let on_demand = json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                           {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]);
    case.pool(json!({"template": {"spec": {"requirements": on_demand}}}))
        .await;
    let tolerant = json!({"spec": {"tolerations": [{"key": "example.com/taint", "operator": "Exists"},
                                                   {"key": STARTUP_TAINT, "operator": "Exists"}]}});
    case.deployment("web", 1, tolerant).await;
    let before = case.until("a node", 90, |picture| picture.is_settled(1)).await;
    case.patch_pool(json!({"spec": {"template": template}})).await;
    let nodes: Api<Node> = Api::all(case.client.clone());
    let drifted = |picture: &Picture| all_drifted(picture) || replaced(&before, picture);
    case.until("the claim has drifted", 60, drifted).await;
    // What a startup taint waits for.
    let starting = |picture: &Picture| {
        let other = |node: &&Node| before.nodes.iter().all(|old| name(old) != name(*node));
        let registered = |node: &&Node| node.labels().contains_key("karpenter.sh/registered");
        picture
            .nodes
            .iter()
            .find(|node| other(node) && registered(node))
            .cloned()
    };
    let after = case
        .until("a node starts", 60, |picture| starting(picture).is_some())
        .await;
    if let Some(node) = starting(&after).filter(|node| has_taint(node, STARTUP_TAINT)) {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let left: Vec<_> = taints.filter(|taint| taint.key != STARTUP_TAINT).collect();
        let patch = Patch::Merge(json!({"spec": {"taints": left}}));
        nodes
            .patch(&name(&node), &PatchParams::default(), &patch)
            .await
            .expect("patched");
    }
    let done = |picture: &Picture| replaced(&before, picture) && picture.is_settled(1);
    let after = case.until("a new node runs the pod", 90, done).await;
    assert!(shows(&after.nodes[0], &after.claims[0]), "{after}");
    assert_eq!(case.claims_seen(), 2);
}

// KWK-112
async fn a_hash_of_another_version(case: Case) {
    case.pool(json!({})).await;
    case.deployment("web", 1, json!({})).await;
    let before = case.until("a node", 90, |picture| picture.is_settled(1)).await;
    let pools: Api<NodePool> = Api::all(case.client.clone());
    let right = pools.get(case.name).await.expect("there").annotations().clone();
    let other = json!({"metadata": {"annotations": {
        annotations::NODE_POOL_HASH: "1234567890", annotations::NODE_POOL_HASH_VERSION: "v0"}}});
    // The claim first: it is the pool's old version that makes everything be hashed again.
    case.patch::<NodeClaim>(&name(&before.claims[0]), other.clone()).await;
    case.patch_pool(other).await;
    let same = |object: &std::collections::BTreeMap<String, String>| {
        [annotations::NODE_POOL_HASH, annotations::NODE_POOL_HASH_VERSION]
            .iter()
            .all(|key| object.get(*key) == right.get(*key))
    };
    case.until("the claim's hash is right again", 60, |picture| {
        same(picture.claims[0].annotations())
    })
    .await;
    assert!(same(pools.get(case.name).await.expect("there").annotations()));
    case.throughout(15, |picture| {
        assert!(kept(&before, picture));
        assert!(!picture.claims[0].condition_is_true("Drifted"));
        assert!(picture.nodes.iter().all(stays) && going(picture) == 0);
    })
    .await;
}

// KWK-132
async fn a_new_pool(case: Case) {
    case.pool(json!({})).await;
    let pools: Api<NodePool> = Api::all(case.client.clone());
    let end = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let pool = pools.get(case.name).await.expect("there");
        if pool.annotations().contains_key(annotations::NODE_POOL_HASH) {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "no hash: {:?}", pool.metadata);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
