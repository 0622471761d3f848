//! An API server that goes away in the middle of a scale-out, as a control plane with one server does when it is upgraded.

use std::time::Duration;

use kerf_api::{Conditioned, NodeClaim};
use kerf_runtime::Seed;
use kerf_runtime::client::{ApiLayers, Retry};
use kerf_runtime::metrics::catalogue::{NODECLAIMS_CREATED, NODECLAIMS_DISRUPTED};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::simulation::api_faults::{ApiFaults, CallFault};
use crate::simulation::emptiness::apart;
use crate::simulation::harness::Simulation;
use crate::simulation::logs::Logs;

/// Nodes of the scale-out.
const NODES: usize = 40;

/// Calls take up to two seconds, each path its own time.
fn slow_down(faults: &ApiFaults) {
    faults.rule(|request| {
        let sum: u64 = request.uri().path().bytes().map(u64::from).sum();
        CallFault::Late(Duration::from_millis(sum % 20 * 100))
    });
}

/// Waits until a claim has the condition.
async fn until_some(simulation: &Simulation, condition: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    let has = |claim: &NodeClaim| claim.condition_is_true(condition);
    while !simulation.claims().await.iter().any(has) {
        assert!(Instant::now() < end, "no claim is {condition}");
        sleep(Duration::from_millis(50)).await;
    }
}

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
    // In the launches, and in the registrations.
    let mut finished = Vec::new();
    for condition in ["Launched", "Registered"] {
        slow_down(&faults);
        until_some(&simulation, condition).await;
        let claims = simulation.claims().await;
        finished.push(claims.iter().filter(|claim| claim.condition_is_true(condition)).count());
        faults.go_away();
        sleep(Duration::from_secs(90)).await;
    }
    faults.heal();
    assert!(finished.iter().all(|number| *number < NODES), "{finished:?}");
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
