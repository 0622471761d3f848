//! The basic workload of upstream's performance suites, with its limit in the cluster's time. Memory and processor time of the controller
//! are no matter of virtual time: the benches measure those.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::emptiness::{is_tainted, scale};
use crate::harness::Simulation;

/// The cluster has come to rest when nothing was on its way out for so long.
const REST: Duration = Duration::from_secs(180);

/// Waits until nothing has been on its way out for three minutes, and says how long the last of it took.
async fn rest(simulation: &Simulation, minutes: u64) -> Duration {
    let (began, mut last) = (Instant::now(), Instant::now());
    while last.elapsed() < REST {
        let nodes = simulation.nodes().await;
        if nodes
            .iter()
            .any(|node| is_tainted(node) || node.metadata.deletion_timestamp.is_some())
        {
            last = Instant::now();
        }
        assert!(
            began.elapsed() < Duration::from_secs(60 * minutes),
            "it does not come to rest"
        );
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    last - began
}

// DIS-308
#[tokio::test(start_paused = true)]
async fn a_thousand_pods_become_seven_hundred() {
    let simulation = Simulation::start().await;
    let sizes = json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["32"]});
    let spec = json!({
        "template": {"spec": {"requirements": [sizes]}},
        "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]},
    });
    simulation.pool("web", spec).await;
    for (name, cpu, memory) in [("small", "900m", "3100Mi"), ("large", "3500m", "28Gi")] {
        let requests = json!({"cpu": cpu, "memory": memory});
        let containers = json!([{"name": "main", "image": "app", "resources": {"requests": requests}}]);
        simulation
            .deployment(name, 500, cpu, json!({"containers": containers}))
            .await;
    }
    simulation
        .until("all run", 120, async |s| s.running().await == 1000)
        .await;
    let before = simulation.nodes().await.len();
    for name in ["small", "large"] {
        scale(&simulation, name, 350).await;
    }
    let took = rest(&simulation, 20).await;
    assert_eq!(simulation.running().await, 700);
    let left = simulation.nodes().await.len();
    // Three tenths of the pods are gone, and so are three tenths of the nodes, give or take a few.
    assert!(
        left * 100 <= before * 75,
        "{left} of {before} nodes are left after {took:?}"
    );
    simulation.stop().await;
}
