//! A change that a watch missed is found within a minute, whatever the kind. The chaos worlds show it for pods and nodes.

use std::time::Duration;

use kerf_api::{Conditioned, KwokNodeClass, NodeOverlay, NodePool};
use kerf_runtime::Options;
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::{FaultPlan, Faults};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::simulation::harness::{Simulation, create, list};

/// The longest a watch check takes to find out, and to have it put right.
const MINUTE: u64 = 60;

async fn begin(change: impl FnOnce(&mut Options)) -> (Simulation, Faults) {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    let (client, faults) = sandbox.client_with_faults("controllers");
    let simulation = Simulation::join_as(sandbox, client, change);
    sleep(Duration::from_secs(30)).await;
    (simulation, faults)
}

/// Does something no watch of the controllers delivers.
async fn unheard(faults: &Faults, work: impl Future<Output = ()>) {
    faults.set(FaultPlan {
        watch_loss: 1.0,
        ..FaultPlan::default()
    });
    work.await;
    sleep(Duration::from_secs(1)).await;
    faults.clear();
}

async fn class(simulation: &Simulation, name: &str) {
    create::<KwokNodeClass>(&simulation.client(), json!({"metadata": {"name": name}, "spec": {}})).await;
}

fn overlay(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        "priceAdjustment": "-10%",
    }})
}

async fn class_is_ready(simulation: &Simulation) -> bool {
    let pools: Vec<NodePool> = list(&simulation.client()).await;
    pools.iter().any(|pool| pool.condition_is_true("NodeClassReady"))
}

#[tokio::test(start_paused = true)]
async fn a_node_class_nobody_told_of_is_found_and_one_that_is_gone_is_missed() {
    let (simulation, faults) = begin(|_| {}).await;
    simulation.pool("web", json!({})).await;
    sleep(Duration::from_secs(5)).await;
    unheard(&faults, class(&simulation, "default")).await;
    assert!(!class_is_ready(&simulation).await, "nobody told of it");
    let ready = async |s: &Simulation| class_is_ready(s).await;
    simulation.until("the class is found", MINUTE, ready).await;
    unheard(&faults, simulation.delete::<KwokNodeClass>("default")).await;
    assert!(class_is_ready(&simulation).await, "nobody told of it");
    simulation
        .until("the class is missed", MINUTE, async |s| !class_is_ready(s).await)
        .await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_overlay_nobody_told_of_is_evaluated_and_one_that_is_gone_is_forgotten() {
    let (simulation, faults) = begin(|options| options.feature_gates.node_overlay = true).await;
    class(&simulation, "default").await;
    simulation.pool("web", json!({})).await;
    unheard(&faults, async {
        create::<NodeOverlay>(&simulation.client(), overlay("first")).await;
    })
    .await;
    let verdict = async |s: &Simulation, name: &str| {
        let overlays: Vec<NodeOverlay> = list(&s.client()).await;
        let overlay = overlays
            .into_iter()
            .find(|one| one.metadata.name.as_deref() == Some(name));
        overlay.and_then(|overlay| Some(overlay.condition("ValidationSucceeded")?.is_true()))
    };
    assert_eq!(verdict(&simulation, "first").await, None, "nobody told of it");
    simulation
        .until("it is valid", MINUTE, async |s| verdict(s, "first").await == Some(true))
        .await;
    let conflicting = json!({"metadata": {"name": "again"}, "spec": {
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}], "price": "1"}});
    create::<NodeOverlay>(&simulation.client(), conflicting).await;
    simulation
        .until("the earlier by name is out of force", MINUTE, async |s| {
            verdict(s, "again").await == Some(false)
        })
        .await;
    unheard(&faults, simulation.delete::<NodeOverlay>("first")).await;
    assert_eq!(verdict(&simulation, "again").await, Some(false), "nobody told of it");
    simulation
        .until("the other is in force", MINUTE, async |s| {
            verdict(s, "again").await == Some(true)
        })
        .await;
    simulation.stop().await;
}
