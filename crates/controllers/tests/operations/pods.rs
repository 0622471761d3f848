//! Metrics about pods: their state, and how long they wait.

use std::time::Duration;

use serde_json::json;

use crate::cluster::{Cluster, NODES, PODS, name};

/// Gauges of pods that wait for something.
const WAITS: [&str; 5] = [
    "karpenter_pods_unstarted_time_seconds",
    "karpenter_pods_unbound_time_seconds",
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "karpenter_pods_provisioning_unbound_time_seconds",
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
];

#[tokio::test(start_paused = true)]
async fn pods_that_start_are_measured_once_each() {
    let cluster = Cluster::start(|_| {}).await;
    cluster.pool(json!({})).await;
    cluster.deployment("web", 2, "1", json!({})).await;
    cluster.until_ready(2).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let scrape = cluster.scrape().await;
    let node = name(&cluster.list(NODES).await[0]);
    let zone = cluster.list(NODES).await[0]["metadata"]["labels"]["topology.kubernetes.io/zone"].clone();
    let state = [
        ("node", node.as_str()),
        ("scheduled", "true"),
        ("nodepool", "web"),
        ("zone", zone.as_str().expect("a zone")),
        ("arch", "amd64"),
        ("phase", "Running"),
        ("ready", "true"),
        ("managed", "true"),
    ];
    // OPS-134, OPS-262: one series per pod.
    assert_eq!(
        scrape.value("karpenter_pods_state", &state),
        Some(2.0),
        "{}",
        scrape.picture("pods_state")
    );
    assert_eq!(scrape.count("karpenter_pods_state", &[]), 2);
    let owner = scrape.label("karpenter_pods_state", "owner").expect("an owner");
    assert!(
        owner.starts_with("/apis/apps/v1/namespaces/default/replicasets/web-"),
        "{owner}"
    );
    scrape.assert_values(&[
        // OPS-135
        ("karpenter_pods_startup_duration_seconds_count", &[], 2.0),
        // OPS-137
        ("karpenter_pods_bound_duration_seconds_count", &[], 2.0),
        // OPS-139
        ("karpenter_pods_provisioning_bound_duration_seconds_count", &[], 2.0),
        ("karpenter_pods_provisioning_startup_duration_seconds_count", &[], 2.0),
    ]);
    let sum = |family: &str| scrape.value(&format!("{family}_sum"), &[]).expect("a sum");
    let (whole, since_placed) = (
        sum("karpenter_pods_startup_duration_seconds"),
        sum("karpenter_pods_provisioning_startup_duration_seconds"),
    );
    // The first placement follows the creation, and binding precedes the start.
    assert!(since_placed > 0.0 && since_placed < whole, "{since_placed} {whole}");
    assert!(sum("karpenter_pods_bound_duration_seconds") < whole);
    // OPS-136, OPS-138, OPS-140: nothing waits any more.
    for family in WAITS {
        assert_eq!(scrape.count(family, &[]), 0, "{}", scrape.picture(family));
    }
    // OPS-258: what was remembered of a ready pod is forgotten, so that nothing is measured from it again.
    cluster.scale("web", 0).await;
    cluster
        .until("the pods are gone", 120, async |c| c.list(PODS).await.is_empty())
        .await;
    // OPS-143
    assert_eq!(cluster.scrape().await.count("karpenter_pods_state", &[]), 0);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_place_waits_visibly_until_it_is_gone() {
    let cluster = Cluster::start(|_| {}).await;
    cluster.pool(json!({})).await;
    cluster.deployment("huge", 1, "100000", json!({})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let scrape = cluster.scrape().await;
    let pod = name(&cluster.list(PODS).await[0]);
    let of_pod: [(&str, &str); 2] = [("name", pod.as_str()), ("namespace", "default")];
    for family in [
        "karpenter_pods_unstarted_time_seconds",
        "karpenter_pods_unbound_time_seconds",
    ] {
        // OPS-136, OPS-138
        let waited = scrape.value(family, &of_pod).expect("it waits");
        assert!((55.0..=65.0).contains(&waited), "{family} {waited}");
    }
    // OPS-140, OPS-141: no place was found, and that is decided.
    for family in &WAITS[2..] {
        assert_eq!(scrape.count(family, &[]), 0, "{}", scrape.picture(family));
    }
    let state = [
        ("phase", "Pending"),
        ("scheduled", "false"),
        ("managed", "false"),
        ("node", ""),
    ];
    // OPS-134
    assert_eq!(scrape.value("karpenter_pods_state", &state), Some(1.0));
    cluster.scale("huge", 0).await;
    cluster
        .until("the pod is gone", 60, async |c| c.list(PODS).await.is_empty())
        .await;
    let scrape = cluster.scrape().await;
    // OPS-143, OPS-257
    for family in WAITS.iter().chain(&["karpenter_pods_state"]) {
        assert_eq!(scrape.count(family, &[]), 0, "{}", scrape.picture(family));
    }
    // OPS-144
    let started = scrape.value("karpenter_pods_startup_duration_seconds_count", &[]);
    assert!(started.is_none_or(|count| count < 0.5), "{started:?}");
    cluster.stop().await;
}
