//! An API server that goes away in the middle of a scale-out, as a control plane with one server does when it is upgraded.

use std::time::Duration;

use kerf_runtime::Seed;
use kerf_runtime::client::{ApiLayers, Retry};
use kerf_runtime::metrics::catalogue::{NODECLAIMS_CREATED, NODECLAIMS_DISRUPTED};
use serde_json::json;
use tokio::time::sleep;

use crate::simulation::api_faults::ApiFaults;
use crate::simulation::emptiness::apart;
use crate::simulation::harness::Simulation;
use crate::simulation::logs::Logs;

/// Nodes of the scale-out.
const NODES: usize = 40;

#[tokio::test(start_paused = true)]
async fn a_scale_out_outlives_two_restarts_of_the_api_server() {
    let simulation = Simulation::start().await;
    simulation.pool("web", json!({})).await;
    let (faults, logs) = (ApiFaults::new(), Logs::listen());
    let sandbox = simulation.crash().await;
    let layers = ApiLayers::new().retry(Retry::new(Seed(7).rng()));
    let client = faults.layered_client(&sandbox, &layers);
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    sleep(Duration::from_secs(15)).await;
    simulation
        .deployment("web", u32::try_from(NODES).expect("few"), "1", apart("web"))
        .await;
    let mut before = Vec::new();
    for _ in 0..2 {
        // Into the launches, and into the registrations.
        sleep(Duration::from_millis(1300)).await;
        before.push((simulation.claims().await.len(), simulation.running().await));
        faults.go_away();
        sleep(Duration::from_secs(90)).await;
        faults.heal();
    }
    println!("claims and running pods when the API server went away: {before:?}");
    assert!(before.iter().all(|(_, running)| *running < NODES), "{before:?}");
    simulation.until_running(NODES, 300).await;
    simulation.until_initialized(60).await;
    sleep(Duration::from_secs(300)).await;
    assert_eq!(simulation.claims().await.len(), NODES);
    assert_eq!(simulation.nodes().await.len(), NODES);
    let metrics = &simulation.context.metrics;
    let created = metrics.counter(&NODECLAIMS_CREATED);
    assert_eq!(
        created.get(&["provisioned", "web", "false"]),
        NODES as f64,
        "none twice"
    );
    let disrupted = simulation.context.metrics.encode();
    assert!(!disrupted.contains(&*NODECLAIMS_DISRUPTED.name), "{disrupted}");
    // A server that is away is not one that lies.
    for text in ["list came back", "lost events", "not collecting garbage"] {
        assert_eq!(logs.with(text), [""; 0], "{text}");
    }
    simulation.stop().await;
}
