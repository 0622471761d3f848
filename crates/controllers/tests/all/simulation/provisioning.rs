//! From pending pods to running pods.

use std::time::Duration;

use kerf_api::{Conditioned, NodeClaim, NodePool, annotations};
use kerf_cloud::Fault;
use serde_json::{Value, json};

use crate::simulation::harness::{Simulation, list, name};

#[tokio::test(start_paused = true)]
async fn pods_that_wait_get_nodes_and_run() {
    let simulation = Simulation::with_pool(json!({})).await;
    simulation.deployment("web", 10, "1", json!({})).await;
    simulation.until_running(10, 120).await;
    // SCH-309
    for claim in simulation.claims().await {
        assert!(claim.metadata.name.is_some_and(|name| name.starts_with("web-")));
        let owner = claim
            .metadata
            .owner_references
            .and_then(|mut owners| owners.pop())
            .expect("owned");
        assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("NodePool", "web"));
    }
    // SCH-341
    let nominated = simulation.events("Nominated").await;
    assert!(!nominated.is_empty());
    let message = nominated
        .first()
        .and_then(|event| event.message.clone())
        .expect("a message");
    assert!(
        message.starts_with("Pod should schedule on: nodeclaim/web-"),
        "{message}"
    );
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_becomes_ready_and_carries_its_hash() {
    let simulation = Simulation::with_pool(json!({})).await;
    simulation
        .until("the pool is ready", 30, async |s| {
            let pools: Vec<NodePool> = list(&s.client()).await;
            pools.iter().all(|pool| pool.condition_is_true("Ready"))
        })
        .await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let pool = list::<NodePool>(&simulation.client()).await.pop().expect("one");
    let annotations = pool.metadata.annotations.clone().expect("annotations");
    // DIS-232, API-200
    assert_eq!(annotations.get(annotations::NODE_POOL_HASH), Some(&pool.drift_hash()));
    assert_eq!(
        annotations.get(annotations::NODE_POOL_HASH_VERSION).map(String::as_str),
        Some("v3")
    );
    // LIF-166
    let status = serde_json::to_value(pool.status).expect("serialises");
    let zeros = json!({"cpu": "0", "memory": "0", "pods": "0", "ephemeral-storage": "0", "nodes": "0"});
    assert_eq!((&status["resources"], &status["nodes"]), (&zeros, &json!(0)));
    simulation.stop().await;
}

/// A resource in the status of the pool `web`.
async fn counted(simulation: &Simulation, resource: &str) -> Value {
    let pool = list::<NodePool>(&simulation.client()).await.pop().expect("one");
    serde_json::to_value(pool.status).expect("serialises")["resources"][resource].clone()
}

// LIF-165, LIF-166
#[tokio::test(start_paused = true)]
async fn a_pool_counts_its_machines_from_their_launch_until_they_go() {
    let simulation = Simulation::start().await;
    simulation.slow_pool("1m").await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation.until_claims(1, 60).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(simulation.nodes().await.is_empty(), "it has not joined yet");
    let claim = simulation.claims().await.pop().expect("one");
    let status = serde_json::to_value(&claim.status).expect("serialises");
    let capacity = ["cpu", "memory", "pods"].map(|name| (name, status["capacity"][name].clone()));
    let is_counted = async || {
        for (name, amount) in &capacity {
            assert_eq!(
                (counted(&simulation, name).await, amount.is_string()),
                (amount.clone(), true),
                "{name}"
            );
        }
        assert_eq!(counted(&simulation, "nodes").await, "1");
    };
    is_counted().await;
    simulation.until_running(1, 180).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    is_counted().await;
    // Its pod may not be evicted, and gets no other machine: it goes, and is still there.
    simulation.budget(1).await;
    simulation
        .patch::<NodePool>("web", json!({"spec": {"limits": {"cpu": "0"}}}))
        .await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(simulation.nodes().await.len(), 1);
    for name in ["cpu", "memory", "pods", "nodes"] {
        assert_eq!(counted(&simulation, name).await, "0", "{name}");
    }
    simulation.stop().await;
}

// SCH-034
#[tokio::test(start_paused = true)]
async fn a_pod_without_a_place_is_looked_at_every_ten_seconds() {
    let simulation = Simulation::with_pool(json!({"limits": {"cpu": "0"}})).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert!(simulation.claims().await.is_empty(), "no room");
    simulation
        .patch::<NodePool>("web", json!({"spec": {"limits": null}}))
        .await;
    simulation.until_claims(1, 12).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_claim_is_made_twice_while_machines_start() {
    let simulation = Simulation::with_pool(json!({})).await;
    simulation.deployment("first", 3, "1", json!({})).await;
    simulation
        .until("the first claims", 60, async |s| !s.claims().await.is_empty())
        .await;
    let first = simulation.claims().await.len();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(simulation.claims().await.len(), first);
    simulation.until_running(3, 120).await;
    assert_eq!(simulation.claims().await.len(), first);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_scheduled_says_why() {
    let simulation = Simulation::with_pool(json!({})).await;
    simulation.deployment("huge", 1, "100000", json!({})).await;
    simulation
        .deployment(
            "opted-out",
            1,
            "1",
            json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}]}}}}),
        )
        .await;
    let from_kerf = async |s: &Simulation| {
        let mut events = s.events("FailedScheduling").await;
        events
            .retain(|event| event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("karpenter"));
        events
    };
    simulation
        .until("an event", 60, async |s| !from_kerf(s).await.is_empty())
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let events = from_kerf(&simulation).await;
    // OPS-185, OPS-212
    // SCH-340 SCH-344: once per pod in 5 minutes. SCH-015: none for a pod that opted out.
    assert_eq!(events.len(), 1, "{events:?}");
    let message = events
        .first()
        .and_then(|event| event.message.clone())
        .expect("a message");
    assert!(
        message.starts_with("Failed to schedule pod, no instance type has enough resources"),
        "{message}"
    );
    assert!(simulation.claims().await.is_empty());
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn limits_satisfy_part_of_a_batch() {
    let simulation = Simulation::start().await;
    simulation.pool("small", json!({"limits": {"cpu": "3"}})).await;
    simulation.deployment("two", 2, "1500m", json!({})).await;
    simulation.until_running(1, 120).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // SCH-151
    assert_eq!((simulation.running().await, simulation.claims().await.len()), (1, 1));
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn planning_goes_on_while_a_machine_is_launched() {
    let simulation = Simulation::with_faulty_launches([Fault::Slow(Duration::from_secs(60))]).await;
    simulation.pool("web", json!({})).await;
    simulation.deployment("first", 1, "1", json!({})).await;
    simulation.until_claims(1, 30).await;
    simulation.deployment("second", 1, "1", json!({})).await;
    // Where upstream waits for the launch (SCH-075), a node for the second pod is up by then; kube-scheduler gives it to the first
    // pod, and the second is content with the machine that is still on its way.
    simulation.until_running(1, 30).await;
    let launched =
        |claim: &kerf_api::NodeClaim| claim.status.as_ref().is_some_and(|status| status.provider_id.is_some());
    let claims = simulation.claims().await;
    let counts = (claims.len(), claims.iter().filter(|claim| launched(claim)).count());
    assert_eq!(counts, (2, 1), "{}", simulation.picture().await);
    simulation.until_running(2, 120).await;
    assert_eq!(simulation.claims().await.len(), 2);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_launch_that_failed_get_another_one_at_once() {
    let simulation = Simulation::with_faulty_launches([Fault::InsufficientCapacity]).await;
    simulation.pool("web", json!({})).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation.until_running(1, 30).await;
    assert_eq!(simulation.claims().await.len(), 1);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_of_an_earlier_life_are_counted_on() {
    let simulation = Simulation::with_faulty_launches([Fault::Slow(Duration::from_secs(600))]).await;
    simulation.pool("web", json!({})).await;
    simulation.deployment("web", 3, "1", json!({})).await;
    simulation
        .until("the claim", 30, async |s| !s.claims().await.is_empty())
        .await;
    let simulation = Simulation::join(simulation.crash().await, |_| {});
    simulation.until_running(3, 120).await;
    // SCH-074: what the claim was made for is not known any more, so nothing is planned until it is launched.
    assert_eq!(simulation.claims().await.len(), 1);
    simulation.stop().await;
}
