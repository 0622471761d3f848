//! A replica that does not lead.

use std::time::Duration;

use serde_json::json;

use crate::cluster::Cluster;

/// Families whose series only a leader has.
const OF_LEADERS: [&str; 8] = [
    "karpenter_nodeclaims_created_total",
    "karpenter_nodes_created_total",
    "karpenter_nodes_allocatable",
    "karpenter_nodepools_usage",
    "karpenter_pods_state",
    "karpenter_scheduler_scheduling_duration_seconds_count",
    "operator_nodeclaim_status_condition_count",
    "karpenter_voluntary_disruption_eligible_nodes",
];

// OPS-249
#[tokio::test(start_paused = true)]
async fn only_the_leaders_series_move() {
    let cluster = Cluster::start(|_| {}).await;
    cluster.pool(json!({})).await;
    let leads = [("name", "karpenter-leader-election")];
    let elected = async |c: &Cluster| c.scrape().await.value("leader_election_master_status", &leads) == Some(1.0);
    cluster.until("it leads", 60, elected).await;
    let standby = cluster.second_replica().await;
    cluster.deployment("web", 1, "1", json!({})).await;
    cluster.until_ready(1).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (of_leader, of_standby) = (cluster.scrape().await, standby.scrape().await);
    assert_eq!(of_leader.value("leader_election_master_status", &leads), Some(1.0));
    assert_eq!(of_standby.value("leader_election_master_status", &leads), Some(0.0));
    for family in OF_LEADERS {
        assert!(of_leader.count(family, &[]) > 0, "{family}");
        assert_eq!(of_standby.count(family, &[]), 0, "{}", of_standby.picture(family));
    }
    standby.stop().await;
    cluster.stop().await;
}
