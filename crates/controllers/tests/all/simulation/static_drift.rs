//! Drifted nodes of pools with a fixed number of nodes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::{Conditioned, NodeClaim};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::simulation::emptiness::{apart, is_tainted};
use crate::simulation::harness::{Simulation, is_new};
use crate::simulation::logs::Logs;
use crate::simulation::static_capacity::{claims, created, has, names, provisioned, scale, with_pool};

/// The observed steps of a renewal.
#[derive(Default, Debug)]
struct Renewal {
    most_claims: usize,
    most_going: usize,
    least_usable: usize,
}

/// Waits until all claims are of the new template and watches how many there are meanwhile.
async fn renew(simulation: &Simulation, nodes: usize, seconds: u64) -> Renewal {
    simulation.change_template("2").await;
    let mut seen = Renewal {
        least_usable: usize::MAX,
        ..Renewal::default()
    };
    let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
    loop {
        let (all, of_nodes) = (claims(simulation).await, simulation.nodes().await);
        let usable =
            |claim: &&NodeClaim| claim.condition_is_true("Initialized") && claim.metadata.deletion_timestamp.is_none();
        seen.most_claims = seen.most_claims.max(all.len());
        seen.most_going = seen
            .most_going
            .max(of_nodes.iter().filter(|node: &&Node| is_tainted(node)).count());
        seen.least_usable = seen.least_usable.min(all.iter().filter(usable).count());
        if has(simulation, nodes).await && all.iter().all(is_new) {
            return seen;
        }
        assert!(tokio::time::Instant::now() < end, "{}", simulation.picture().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// DIS-249, DIS-250, DIS-251, SCH-407
#[tokio::test(start_paused = true)]
async fn drift_replaces_one_for_one_within_the_limit() {
    let logs = Logs::listen();
    let simulation = with_pool(5, json!({"limits": {"nodes": "6"}})).await;
    simulation.until("there are five", 60, async |s| has(s, 5).await).await;
    let seen = renew(&simulation, 5, 600).await;
    // DIS-256
    let started = logs.with("INFO disrupting node(s)");
    assert_eq!(started.len(), 5);
    for line in &started {
        assert!(
            line.contains("command=Drifted/") && line.contains(": replace: nodepools=[web]: ["),
            "{line}"
        );
    }
    assert_eq!(seen.most_claims, 6, "{seen:?}");
    assert_eq!(seen.most_going, 1, "{seen:?}");
    // The replacement is there before the node goes.
    assert!(seen.least_usable >= 5, "{seen:?}");
    // LIF-171, SCH-400, SCH-401: as many replacements as nodes, and nothing else.
    assert_eq!(created(&simulation.context.metrics, "drifted", "false"), 5.0);
    assert_eq!(provisioned(&simulation), 5.0);
    simulation.stop().await;
}

// DIS-251
#[tokio::test(start_paused = true)]
async fn without_room_to_surge_nothing_drifts() {
    let simulation = with_pool(3, json!({"limits": {"nodes": "3"}})).await;
    simulation.until("there are three", 60, async |s| has(s, 3).await).await;
    let before = names(&claims(&simulation).await);
    simulation.change_template("2").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(names(&claims(&simulation).await), before);
    assert!(!simulation.nodes().await.iter().any(is_tainted));
    simulation.stop().await;
}

// DIS-306
#[tokio::test(start_paused = true)]
async fn drift_keeps_to_budget_and_limit() {
    for (limit, budget, most) in [("12", "4", 2), ("15", "2", 2)] {
        let spec = json!({"limits": {"nodes": limit}, "disruption": {"budgets": [{"nodes": budget}]}});
        let simulation = with_pool(10, spec).await;
        simulation.until("there are ten", 60, async |s| has(s, 10).await).await;
        let seen = renew(&simulation, 10, 300).await;
        assert!(seen.most_going <= most, "limit {limit}, budget {budget}: {seen:?}");
        simulation.stop().await;
    }
    let simulation = with_pool(10, json!({})).await;
    simulation.until("there are ten", 60, async |s| has(s, 10).await).await;
    let seen = renew(&simulation, 10, 300).await;
    assert_eq!((seen.most_going, seen.most_claims), (10, 20), "all at once");
    simulation.stop().await;
}

// SCH-400, SCH-401
#[tokio::test(start_paused = true)]
async fn growing_while_nodes_are_replaced_makes_none_too_many() {
    let simulation = with_pool(3, json!({"disruption": {"budgets": [{"nodes": "1"}]}})).await;
    simulation.until("there are three", 60, async |s| has(s, 3).await).await;
    simulation.change_template("2").await;
    simulation
        .until("a node is being replaced", 60, async |s| {
            s.nodes().await.iter().any(is_tainted)
        })
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // DIS-254: its replacement is on its way, so it is on its way out.
    let sets = simulation.context.cluster.pool_claims("web");
    let counts = (sets.active.len(), sets.pending_disruption.len(), sets.deleting.len());
    assert_eq!(counts, (3, 0, 1));
    scale(&simulation, 5).await;
    simulation
        .until("five new ones are there", 600, async |s| {
            has(s, 5).await && claims(s).await.iter().all(is_new)
        })
        .await;
    let metrics = &simulation.context.metrics;
    assert_eq!(provisioned(&simulation), 5.0);
    assert_eq!(created(metrics, "drifted", "false"), 3.0);
    simulation.stop().await;
}

// DIS-252, DIS-253
#[tokio::test(start_paused = true)]
async fn a_protected_pod_keeps_a_drifted_node_and_not_one_that_is_too_many() {
    let simulation = with_pool(1, json!({})).await;
    simulation.until("there is one", 60, async |s| has(s, 1).await).await;
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    simulation.deployment("job", 1, "100m", apart("job")).await;
    simulation.until_running(1, 60).await;
    let pod = simulation.pods().await.remove(0).metadata.name.unwrap_or_default();
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(simulation.client(), "default");
    pods.patch(&pod, &PatchParams::default(), &Patch::Merge(protected))
        .await
        .expect("patched");
    tokio::time::sleep(Duration::from_secs(30)).await;
    simulation.change_template("2").await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(has(&simulation, 1).await && !claims(&simulation).await.iter().any(is_new));
    scale(&simulation, 0).await;
    simulation
        .until("its claim is being deleted", 10, async |s| {
            claims(s)
                .await
                .iter()
                .all(|claim| claim.metadata.deletion_timestamp.is_some())
        })
        .await;
    // LIF-180: the drain is as gentle as any other.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(simulation.running().await, 1);
    simulation.stop().await;
}
