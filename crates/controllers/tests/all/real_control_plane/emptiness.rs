//! Empty nodes are deleted, unless a budget prevents it.

use kerf_api::Conditioned;
use serde_json::{Value, json};

use crate::real_control_plane::cases::{Case, case, going, kept, play};
use crate::real_control_plane::drift::a_window_around_now;
use crate::real_control_plane::harness::{Cluster, Picture};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_emptiness_keeps_to_budgets() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    let stories = vec![
        case("blocked", |case| kept_empty(case, json!({"nodes": "0"}))),
        case("window", |case| kept_empty(case, a_window_around_now())),
        case("empty", an_empty_node),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

async fn emptied(case: &Case, budget: Value) -> Picture {
    let disruption = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [budget]});
    case.pool(json!({"disruption": disruption})).await;
    case.deployment("web", 1, json!({})).await;
    let before = case.until("a node", 90, |picture| picture.is_settled(1)).await;
    case.scale("web", 0).await;
    case.until("no pod", 60, |picture| picture.pods.is_empty()).await;
    before
}

fn consolidatable(picture: &Picture) -> bool {
    picture
        .claims
        .iter()
        .all(|claim| claim.condition_is_true("Consolidatable"))
}

// KWK-163
async fn kept_empty(case: Case, budget: Value) {
    let before = emptied(&case, budget).await;
    case.until("it could go", 60, consolidatable).await;
    // One round of disruption, the wait before validation, and some time.
    case.throughout(35, |picture| {
        assert_eq!(going(picture), 0);
        assert!(kept(&before, picture));
    })
    .await;
}

// KWK-164
async fn an_empty_node(case: Case) {
    emptied(&case, json!({"nodes": "100%"})).await;
    case.until("it may go", 60, consolidatable).await;
    let none = |picture: &Picture| picture.claims.is_empty() && picture.nodes.is_empty();
    case.until("it is gone", 60, none).await;
    assert_eq!(case.claims_seen(), 1);
}
