//! Metrics and events for dashboards and alerts.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::{NodeClaim, NodePool};
use kerf_runtime::metrics::catalogue;
use serde_json::json;

use crate::simulation::harness::{Simulation, name};

type Labels = &'static [(&'static str, &'static str)];

/// Whether a scrape has a line of that family with all these labels and that value.
fn has(scrape: &str, family: &str, labels: &[(&str, &str)], value: &str) -> bool {
    let labelled = |line: &str| {
        labels
            .iter()
            .all(|(key, text)| line.contains(&format!("{key}=\"{text}\"")))
    };
    let mut lines = scrape
        .lines()
        .filter(|line| line.starts_with(family) && !line.starts_with('#'));
    lines.any(|line| labelled(line) && line.rsplit(' ').next() == Some(value))
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_shows_in_metrics_and_events() {
    let simulation = Simulation::with_pool(json!({"limits": {"cpu": "100"}})).await;
    simulation.deployment("web", 2, "1", json!({})).await;
    simulation.until_running(2, 120).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let scrape = simulation.context.metrics.encode();
    const POOL: (&str, &str) = ("nodepool", "web");
    let expected: [(&str, Labels, &str); 9] = [
        // SCH-325 OPS-115
        (
            "karpenter_nodeclaims_created_total",
            &[("reason", "provisioned"), POOL, ("min_values_relaxed", "false")],
            "1",
        ),
        // SCH-077 OPS-152 OPS-153 OPS-154
        ("karpenter_cluster_state_synced", &[], "1"),
        ("karpenter_cluster_state_node_count", &[], "1"),
        ("karpenter_cluster_state_unsynced_time_seconds", &[], "0"),
        // OPS-128
        ("karpenter_nodepools_limit", &[POOL, ("resource_type", "cpu")], "100"),
        ("karpenter_nodepools_usage", &[POOL, ("resource_type", "nodes")], "1"),
        // OPS-131
        (
            "karpenter_nodes_total_pod_requests",
            &[("managed", "true"), ("resource_type", "cpu")],
            "2",
        ),
        // OPS-170 OPS-171
        (
            "operator_nodeclaim_status_condition_count",
            &[("type", "Ready"), ("status", "True"), ("karpenter_sh_nodepool", "web")],
            "1",
        ),
        // OPS-172
        (
            "operator_status_condition_count",
            &[("type", "Ready"), ("kind", "NodePool"), ("name", "web")],
            "1",
        ),
    ];
    for (family, labels, value) in expected {
        assert!(
            has(&scrape, family, labels, value),
            "{family}{labels:?} {value} is not in\n{scrape}"
        );
    }
    // OPS-151
    assert!(
        has(
            &scrape,
            "karpenter_pods_scheduling_decision_duration_seconds_count",
            &[],
            "2"
        ),
        "{scrape}"
    );
    // OPS-208 OPS-213
    let events = simulation.events("Registered").await;
    let messages: Vec<&str> = events.iter().filter_map(|event| event.message.as_deref()).collect();
    let told = "Status condition transitioned, Type: Registered, Status: Unknown -> True, Reason: Registered";
    assert_eq!(messages, [told]);
    simulation.stop().await;
}

// LIF-217, LIF-218, LIF-219, LIF-221, OPS-129, OPS-130
#[tokio::test(start_paused = true)]
async fn a_pool_s_cost_follows_its_machines() {
    let simulation = Simulation::start().await;
    simulation.populate(2, json!({})).await;
    let (cost, errors) = (
        simulation.context.metrics.gauge(&catalogue::NODEPOOLS_COST),
        simulation
            .context
            .metrics
            .counter(&catalogue::NODEPOOLS_COST_TRACKER_ERRORS),
    );
    tokio::time::sleep(Duration::from_secs(15)).await;
    let both = cost.get(&["web"]);
    assert!(both > 0.0 && errors.get(&["web"]) == 0.0, "{both}");
    let claim = simulation.claims().await.remove(0);
    let node = claim.status.and_then(|status| status.node_name).expect("a node");
    let patch = json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": "unheard-of"}}});
    simulation.patch::<Node>(&node, patch).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let one = cost.get(&["web"]);
    assert!(one > 0.0 && one < both, "{one} of {both}");
    assert_eq!(errors.get(&["web"]), 1.0, "each machine is told of once");
    simulation.scale("web", 0).await;
    for claim in simulation.claims().await {
        simulation.delete::<NodeClaim>(&name(&claim)).await;
    }
    simulation.until_claims(0, 120).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(cost.get(&["web"]), 0.0);
    simulation.delete::<NodePool>("web").await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert!(
        !simulation
            .context
            .metrics
            .encode()
            .contains("karpenter_nodepools_cost_total{")
    );
    simulation.stop().await;
}
