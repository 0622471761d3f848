//! The policy Balanced: the scores of single nodes and sets, which of them are deleted, and the metrics and events about it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::{Conditioned, NodePool};
use kerf_runtime::metrics::catalogue::{CONSOLIDATION_MOVES, CONSOLIDATION_SCORE, DISRUPTION_DECISIONS};
use serde_json::{Value, json};

use crate::simulation::consolidation::{filled, pool};
use crate::simulation::disruption_loop::evaluations;
use crate::simulation::emptiness::tainted;
use crate::simulation::harness::Simulation;
use crate::simulation::logs::Logs;

const BALANCED: &str = "Balanced";
const KIND: &str = "node.kubernetes.io/instance-type";

/// How many moves and how many scores of the pool were approved or rejected.
fn told(simulation: &Simulation, decision: &str) -> (f64, u64) {
    let metrics = &simulation.context.metrics;
    let labels = [decision, "web", BALANCED];
    (
        metrics.counter(&CONSOLIDATION_MOVES).get(&labels),
        metrics.histogram(&CONSOLIDATION_SCORE).count(&labels),
    )
}

async fn no_events(simulation: &Simulation, reasons: &[&str]) {
    for reason in reasons {
        assert_eq!(simulation.messages(reason).await, [""; 0], "{reason}");
    }
}

async fn disruption(simulation: &Simulation, disruption: Value) {
    let patch = json!({"spec": {"disruption": disruption}});
    simulation.patch::<NodePool>("web", patch).await;
}

// DIS-178, DIS-193, DIS-210, DIS-213
#[tokio::test(start_paused = true)]
async fn a_node_whose_replacement_saves_too_little_stays_without_a_word() {
    let logs = Logs::listen();
    let simulation = Simulation::start().await;
    // Not `Never`: that would be reported, and hide for a quarter of an hour whatever else is (DIS-290).
    let waiting = json!({"consolidateAfter": "1h", "consolidationPolicy": BALANCED});
    pool(&simulation, "on-demand", waiting).await;
    let requests = json!({"cpu": "300m", "memory": "10Gi"});
    let container = json!({"name": "main", "image": "app", "resources": {"requests": requests}});
    simulation
        .deploy("big", 1, json!({"spec": {"containers": [container]}}))
        .await;
    simulation.until_running(1, 60).await;
    simulation.deployment("little", 2, "600m", json!({})).await;
    simulation.until_running(3, 60).await;
    let before = simulation.claims().await;
    let labels = before[0].metadata.labels.clone().unwrap_or_default();
    assert_eq!((before.len(), labels[KIND].as_str()), (1, "m-2x-amd64-linux"));
    simulation.scale("big", 0).await;
    simulation
        .until("the big pod is gone", 60, async |s| s.pods().await.len() == 2)
        .await;
    disruption(&simulation, json!({"consolidateAfter": "0s"})).await;
    // As much as it disrupts its deletion would save. A machine with less memory costs a fifth less, for the same disruption.
    simulation
        .until("it is weighed", 30, async |s| told(s, "rejected") == (1.0, 1))
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (told(&simulation, "rejected"), told(&simulation, "approved")),
        ((1.0, 1), (0.0, 0))
    );
    let logged = logs.with("DEBUG consolidation score nodepool=web score=0.1");
    assert_eq!(logged.len(), 1, "{:?}", logs.with("consolidation score"));
    assert!(
        logged[0].ends_with(" approved=false decision=replace candidates=1"),
        "{logged:?}"
    );
    no_events(
        &simulation,
        &[
            "ConsolidationApproved",
            "ConsolidationCandidate",
            "ConsolidationRejected",
            "Unconsolidatable",
        ],
    )
    .await;
    let after = simulation.claims().await;
    assert_eq!((after.len(), &after[0].metadata.uid), (1, &before[0].metadata.uid));
    assert_eq!(tainted(&simulation).await, 0);
    simulation.stop().await;
}

// DIS-212, DIS-213, OPS-165, OPS-195
#[tokio::test(start_paused = true)]
async fn a_set_is_counted_and_told_once_per_pool() {
    let allowed = json!({"consolidateAfter": "10s", "consolidationPolicy": BALANCED, "budgets": [{"nodes": "100%"}]});
    let simulation = filled(4, "spot", allowed).await;
    simulation.scale("big", 0).await;
    simulation
        .until("two are left", 180, async |s| {
            s.nodes().await.len() == 2 && s.running().await == 4
        })
        .await;
    let decisions = simulation.context.metrics.counter(&DISRUPTION_DECISIONS);
    assert_eq!(decisions.get(&["delete", "underutilized", "multi"]), 1.0);
    assert_eq!(
        (told(&simulation, "approved"), told(&simulation, "rejected")),
        ((1.0, 1), (0.0, 0))
    );
    let events = simulation.events("ConsolidationApproved").await;
    let [event] = events.as_slice() else {
        panic!("one event: {events:?}")
    };
    let about = &event.involved_object;
    assert_eq!(
        (about.kind.as_deref(), about.name.as_deref()),
        (Some("NodePool"), Some("web"))
    );
    assert_eq!(
        event.message.as_deref(),
        Some("score 1.00 >= threshold 0.50 (k: 2, savings 50.0%, disruption 50.0%)")
    );
    simulation.stop().await;
}

// DIS-205, DIS-212, DIS-213
#[tokio::test(start_paused = true)]
async fn sets_a_pool_refuses_are_counted_once_per_search_and_not_told() {
    let simulation = filled(3, "on-demand", json!({"consolidateAfter": "1h"})).await;
    // Almost the whole price of the pool is that of a machine that must not be disrupted.
    simulation.deployment("huge", 1, "60", json!({})).await;
    simulation.until_running(7, 60).await;
    let huge = |claim: &kerf_api::NodeClaim| {
        let labels = claim.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels[KIND] == "c-64x-amd64-linux") && claim.condition_is_true("Initialized")
    };
    simulation
        .until("its node is initialised", 60, async |s| {
            s.claims().await.iter().any(huge)
        })
        .await;
    let claims = simulation.claims().await;
    let claim = claims.iter().find(|claim| huge(claim)).expect("the huge one");
    let node = claim.status.as_ref().and_then(|status| status.node_name.clone());
    let protect = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    simulation.patch::<Node>(&node.expect("a node"), protect).await;
    simulation.scale("big", 0).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let searches = |s: &Simulation| evaluations(s, "underutilized", "multi");
    let begun = searches(&simulation);
    disruption(
        &simulation,
        json!({"consolidateAfter": "0s", "consolidationPolicy": BALANCED}),
    )
    .await;
    simulation
        .until("a set is refused", 30, async |s| told(s, "rejected").0 > 0.0)
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // The search is not repeated while nothing changes, and single nodes are not even worth a what-if.
    assert!(searches(&simulation) > begun + 3);
    assert_eq!(
        (told(&simulation, "rejected"), told(&simulation, "approved")),
        ((1.0, 1), (0.0, 0))
    );
    no_events(
        &simulation,
        &[
            "ConsolidationApproved",
            "ConsolidationCandidate",
            "ConsolidationRejected",
        ],
    )
    .await;
    assert_eq!((simulation.claims().await.len(), tainted(&simulation).await), (4, 0));
    simulation.stop().await;
}
