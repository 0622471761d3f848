//! Metrics and events of nodes that go.

use std::time::Duration;

use serde_json::json;

use crate::cluster::{CLAIMS, Cluster, NODES, name};

#[tokio::test(start_paused = true)]
async fn a_claim_that_a_user_deletes_is_counted_as_terminated_and_leaves_no_series() {
    let cluster = Cluster::start(|_| {}).await;
    // No second node while the first one goes.
    cluster.pool(json!({"limits": {"nodes": "1"}})).await;
    cluster.deployment("web", 1, "1", json!({})).await;
    cluster.until_ready(1).await;
    let (claim, node) = (
        cluster.list(CLAIMS).await.remove(0),
        cluster.list(NODES).await.remove(0),
    );
    let labels = &claim["metadata"]["labels"];
    let label = |key: &str| labels[key].as_str().expect("a label").to_owned();
    let (capacity_type, zone) = (
        label("karpenter.sh/capacity-type"),
        label("topology.kubernetes.io/zone"),
    );
    tokio::time::sleep(Duration::from_secs(10)).await;
    let scrape = cluster.scrape().await;
    let (of_claim, of_node) = (name(&claim), name(&node));
    assert!(scrape.count("karpenter_nodes_allocatable", &[("node_name", of_node.as_str())]) > 0);
    assert!(
        scrape.count(
            "operator_nodeclaim_status_condition_count",
            &[("name", of_claim.as_str())]
        ) > 0
    );
    // The node that replaces it must not come before it is gone.
    cluster.delete(&format!("{CLAIMS}/{of_claim}")).await;
    let gone = async |c: &Cluster| c.list(CLAIMS).await.iter().all(|other| name(other) != of_claim);
    cluster.until("the claim is gone", 120, gone).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let scrape = cluster.scrape().await;
    let of_pool = ("nodepool", "web");
    scrape.assert_values(&[
        // OPS-116
        (
            "karpenter_nodeclaims_terminated_total",
            &[
                of_pool,
                ("capacity_type", capacity_type.as_str()),
                ("zone", zone.as_str()),
            ],
            1.0,
        ),
        // OPS-122
        (
            "karpenter_nodes_terminated_total",
            &[of_pool, ("zone", zone.as_str())],
            1.0,
        ),
        // OPS-123
        ("karpenter_nodes_drained_total", &[of_pool], 1.0),
        // OPS-124
        ("karpenter_nodes_termination_duration_seconds_count", &[of_pool], 1.0),
        // OPS-118
        (
            "karpenter_nodeclaims_termination_duration_seconds_count",
            &[of_pool],
            1.0,
        ),
        // OPS-119
        (
            "karpenter_nodeclaims_instance_termination_duration_seconds_count",
            &[of_pool],
            1.0,
        ),
        // OPS-125
        ("karpenter_nodes_lifetime_duration_seconds_count", &[of_pool], 1.0),
        // OPS-126
        ("karpenter_pods_eviction_requests_total", &[("code", "200")], 1.0),
        // OPS-127
        (
            "karpenter_pods_drained_total",
            &[("reason", "Forceful Termination")],
            1.0,
        ),
        // OPS-175
        (
            "operator_nodeclaim_termination_duration_seconds_count",
            &[("karpenter_sh_nodepool", "web")],
            1.0,
        ),
        (
            "operator_termination_duration_seconds_count",
            &[("kind", "NodeClaim")],
            1.0,
        ),
    ]);
    // OPS-117: a deletion by a user is no disruption.
    assert_eq!(scrape.count("karpenter_nodeclaims_disrupted_total", &[]), 0);
    // OPS-143
    assert_eq!(
        scrape.count("karpenter_nodes_allocatable", &[("node_name", of_node.as_str())]),
        0
    );
    // OPS-173
    for family in ["count", "current_status_seconds"] {
        let family = format!("operator_nodeclaim_status_condition_{family}");
        assert_eq!(
            scrape.count(&family, &[("name", of_claim.as_str())]),
            0,
            "{}",
            scrape.picture(&family)
        );
    }
    let finalized = cluster.events("Finalized").await;
    let told = finalized
        .iter()
        .filter(|event| event["involvedObject"]["name"] == of_claim);
    let told: Vec<_> = told.map(|event| (&event["type"], &event["message"])).collect();
    // OPS-209
    assert_eq!(told, [(&json!("Normal"), &json!("Finalized karpenter.sh/termination"))]);
    cluster.stop().await;
}
