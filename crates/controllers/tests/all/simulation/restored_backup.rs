//! An etcd that is restored from a backup under running controllers.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::NodeClaim;
use serde_json::json;
use tokio::time::sleep;

use crate::simulation::emptiness::apart;
use crate::simulation::harness::{Simulation, name};
use crate::simulation::logs::Logs;

fn uids(claims: &[NodeClaim]) -> BTreeSet<String> {
    claims.iter().filter_map(|claim| claim.metadata.uid.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn no_instance_ends_because_an_older_state_is_restored() {
    let simulation = Simulation::start().await;
    let pool = json!({"disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}});
    simulation.populate(3, pool).await;
    sleep(Duration::from_secs(60)).await;
    let backup = simulation.sandbox.api().back_up();
    let (claims, nodes) = (simulation.claims().await, simulation.nodes().await);
    // What happens since then is forgotten: two machines more, and many writes.
    simulation.scale("web", 5).await;
    simulation.until_running(5, 120).await;
    sleep(Duration::from_secs(900)).await;
    let logs = Logs::listen();
    let simulation = simulation.restore(&backup).await;
    assert_eq!(simulation.claims().await.len(), 3);
    for _ in 0..60 {
        sleep(Duration::from_secs(30)).await;
        assert_eq!(
            uids(&simulation.claims().await),
            uids(&claims),
            "{}",
            simulation.picture().await
        );
        let now = simulation.nodes().await;
        let names = |nodes: &[Node]| nodes.iter().map(name).collect::<BTreeSet<_>>();
        assert_eq!(names(&now), names(&nodes));
        assert!(now.iter().all(|node| node.metadata.deletion_timestamp.is_none()));
        assert_eq!(simulation.running().await, 3);
    }
    let noticed = logs.with("watch lost events");
    for kind in ["Node)", "NodeClaim)", "Pod)"] {
        assert!(noticed.iter().any(|line| line.contains(kind)), "{kind}: {noticed:#?}");
    }
    // Everything works on what is there now.
    simulation.deployment("more", 2, "1", apart("more")).await;
    simulation.until_running(5, 120).await;
    simulation.scale("web", 0).await;
    simulation.scale("more", 0).await;
    simulation.until_claims(0, 600).await;
    simulation.stop().await;
}
