//! Metrics about the state of the cluster, and the option that leaves them out.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Cluster, NODES, name};

/// Families that need cluster-state observability.
const OBSERVED: [&str; 14] = [
    "karpenter_nodepools_limit",
    "karpenter_nodepools_usage",
    "karpenter_nodepools_cost_total",
    "karpenter_nodes_allocatable",
    "karpenter_nodes_total_pod_requests",
    "karpenter_nodes_total_pod_limits",
    "karpenter_nodes_system_overhead",
    "karpenter_nodes_current_lifetime_seconds",
    "karpenter_cluster_utilization_percent",
    "karpenter_pods_state",
    "karpenter_pods_startup_duration_seconds",
    "operator_nodeclaim_status_condition_count",
    "operator_nodepool_status_condition_count",
    "operator_status_condition_transitions_total",
];

fn milli(quantity: &Value) -> f64 {
    let text = quantity.as_str().expect("a quantity");
    match text.strip_suffix('m') {
        Some(milli) => milli.parse::<f64>().expect("a number") / 1000.0,
        None => text.parse().expect("a number"),
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_show_what_they_have_and_what_is_used_of_it() {
    let cluster = Cluster::start(|_| {}).await;
    cluster.pool(json!({"limits": {"cpu": "100"}})).await;
    cluster.deployment("web", 3, "1", json!({})).await;
    cluster.until_ready(3).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let scrape = cluster.scrape().await;
    for family in OBSERVED {
        assert!(scrape.families().contains(family), "{family}");
    }
    let nodes = cluster.list(NODES).await;
    let node = name(&nodes[0]);
    let allocatable = milli(&nodes[0]["status"]["allocatable"]["cpu"]);
    let cpu = [
        ("node_name", node.as_str()),
        ("managed", "true"),
        ("resource_type", "cpu"),
    ];
    scrape.assert_values(&[
        // OPS-131
        ("karpenter_nodes_total_pod_requests", &cpu, 3.0),
        ("karpenter_nodes_total_pod_limits", &cpu, 6.0),
        ("karpenter_nodes_allocatable", &cpu, allocatable),
    ]);
    let of_node = [("node_name", node.as_str()), ("nodepool", "web")];
    let age = scrape.value("karpenter_nodes_current_lifetime_seconds", &of_node);
    // OPS-132
    assert!(age.is_some_and(|age| age > 30.0), "{}", scrape.picture("lifetime"));
    let used = scrape.value("karpenter_cluster_utilization_percent", &[("resource_type", "cpu")]);
    let expected = 100.0 * 3.0 / allocatable;
    // OPS-133
    assert!(
        used.is_some_and(|used| (used - expected).abs() < 0.01),
        "{used:?} {expected}"
    );
    cluster.stop().await;
}

// OPS-010
#[tokio::test(start_paused = true)]
async fn observability_can_be_left_out() {
    let cluster = Cluster::start(|options| options.disable_cluster_state_observability = true).await;
    cluster.pool(json!({"limits": {"cpu": "100"}})).await;
    cluster.deployment("web", 1, "1", json!({})).await;
    cluster.until_ready(1).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let scrape = cluster.scrape().await;
    for family in OBSERVED {
        let series = scrape.series(family, &[]).count();
        assert_eq!(series, 0, "{}", scrape.picture(family));
    }
    assert_eq!(cluster.events("Registered").await, Vec::<Value>::new());
    // The others stay.
    assert!(scrape.count("karpenter_nodeclaims_created_total", &[]) > 0);
    cluster.stop().await;
}

// OPS-170, OPS-174
#[tokio::test(start_paused = true)]
async fn conditions_that_an_agent_invents_do_not_make_series_without_end() {
    const TRANSITIONS: &str = "operator_node_status_condition_transitions_total";
    let cluster = Cluster::start(|_| {}).await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "own"}});
    cluster.create(NODES, node).await;
    for round in 0..3 {
        let invented = (0..100).map(|number| {
            json!({"type": format!("Invented{round}x{number}"), "status": "True", "reason": "ItIsSo",
                   "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"})
        });
        let conditions: Vec<Value> = invented.collect();
        let status = json!({"status": {"conditions": conditions}});
        cluster.patch(&format!("{NODES}/own/status"), status).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let scrape = cluster.scrape().await;
    assert_eq!(scrape.value(TRANSITIONS, &[]), Some(300.0), "each is counted");
    assert_eq!(scrape.count(TRANSITIONS, &[]), 201);
    let others = [("type", "other"), ("reason", "other"), ("status", "True")];
    assert_eq!(scrape.value(TRANSITIONS, &others), Some(100.0));
    assert_eq!(
        scrape.count(TRANSITIONS, &[("type", "Invented0x7"), ("reason", "ItIsSo")]),
        1
    );
    cluster.stop().await;
}
