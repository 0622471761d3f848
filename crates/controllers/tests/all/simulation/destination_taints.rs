//! The taint on nodes to which a large command of consolidation moves no pods.

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::simulation::consolidation::{filled, filled_long_ago};
use crate::simulation::harness::Simulation;

/// The values of the taint.
async fn ends(simulation: &Simulation) -> Vec<i64> {
    let nodes = simulation.nodes().await;
    let taints = nodes
        .iter()
        .filter_map(|node| node.spec.as_ref()?.taints.as_ref())
        .flatten();
    let ours = taints.filter(|taint| taint.key == "kerf.sh/not-a-destination");
    ours.map(|taint| {
        assert_eq!(taint.effect, "PreferNoSchedule");
        let value = taint.value.as_deref().unwrap_or_default();
        value.parse().expect("a time")
    })
    .collect()
}

/// Five nodes with a little pod each, three of which stay. Those of the other two have more than one place.
async fn two_of_five_go() -> Simulation {
    let simulation = filled_long_ago(
        5,
        "spot",
        json!({"consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]}),
    )
    .await;
    let protect = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    for node in simulation.nodes().await.iter().take(3) {
        let name = node.metadata.name.as_deref().expect("a name");
        simulation.patch::<Node>(name, protect.clone()).await;
    }
    simulation.scale("big", 0).await;
    simulation
}

async fn is_tainted(simulation: &Simulation) -> bool {
    !ends(simulation).await.is_empty()
}

// DIS-119 as docs/deviations.md has it
#[tokio::test(start_paused = true)]
async fn nodes_without_planned_pods_are_tainted_for_a_minute() {
    let simulation = two_of_five_go().await;
    simulation.until("some node is tainted", 120, is_tainted).await;
    let (now, nodes) = (simulation.context.now().as_second(), simulation.nodes().await.len());
    assert_eq!(nodes, 5, "no node has gone yet");
    for until in ends(&simulation).await {
        assert!(until > now && until <= now + 60, "{until} at {now}");
    }
    simulation.until_nodes(3, 60).await;
    simulation.until_running(5, 60).await;
    simulation
        .until("the taints have ended", 90, async |s| !is_tainted(s).await)
        .await;
    simulation.stop().await;
}

// DIS-119 as docs/deviations.md has it
#[tokio::test(start_paused = true)]
async fn a_restart_forgets_no_taint() {
    let simulation = two_of_five_go().await;
    simulation.until("some node is tainted", 120, is_tainted).await;
    let simulation = Simulation::join(simulation.crash().await, |_| {});
    simulation
        .until("the taints have ended", 120, async |s| !is_tainted(s).await)
        .await;
    simulation.until_nodes(3, 60).await;
    simulation.stop().await;
}

// DIS-119 as docs/deviations.md has it
#[tokio::test(start_paused = true)]
async fn without_the_option_no_node_is_tainted() {
    let simulation = two_of_five_go().await;
    let simulation = Simulation::join(simulation.crash().await, |options| options.destination_taints = false);
    simulation
        .until("two nodes are gone", 180, async |s| {
            assert!(!is_tainted(s).await);
            s.nodes().await.len() == 3
        })
        .await;
    simulation.stop().await;
}

// DIS-119 as docs/deviations.md has it
#[tokio::test(start_paused = true)]
async fn taints_with_values_that_kerf_would_not_write_are_removed() {
    let simulation = filled(2, "spot", json!({"consolidateAfter": "Never"})).await;
    let nodes = simulation.nodes().await;
    let far = (simulation.context.now().as_second() + 3600).to_string();
    for (node, value) in nodes.iter().zip(["soon", far.as_str()]) {
        let taint = json!({"key": "kerf.sh/not-a-destination", "value": value, "effect": "PreferNoSchedule"});
        let name = node.metadata.name.as_deref().expect("a name");
        simulation
            .patch::<Node>(name, json!({"spec": {"taints": [taint]}}))
            .await;
    }
    simulation
        .until("the taints are gone", 30, async |s| {
            let nodes = s.nodes().await;
            let mut taints = nodes
                .iter()
                .filter_map(|node| node.spec.as_ref()?.taints.as_ref())
                .flatten();
            taints.all(|taint| taint.key != "kerf.sh/not-a-destination")
        })
        .await;
    simulation.stop().await;
}
