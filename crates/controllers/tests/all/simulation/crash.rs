//! The controllers are killed between any two calls of a launch and of a termination, before and after the call is executed: nothing leaks,
//! nothing is done twice (Law 6).

use std::collections::BTreeSet;

use kerf_api::{Conditioned, NodeClaim};
use kerf_runtime::Options;
use serde_json::json;

use crate::simulation::harness::Simulation;
use crate::simulation::kills::{EverSeen, KillPoint, Run, kill_at_every_call, run_until, with_kill};

fn plain(_: &mut Options) {}

/// Whether each claim has its Node, each Node its claim, nothing is on its way out, and the pod runs.
async fn is_settled(simulation: &Simulation) -> bool {
    let (claims, nodes) = (simulation.claims().await, simulation.nodes().await);
    let of_claims: BTreeSet<_> = claims
        .iter()
        .filter_map(|claim| claim.status.clone()?.provider_id)
        .collect();
    let of_nodes: BTreeSet<_> = nodes.iter().filter_map(|node| node.spec.clone()?.provider_id).collect();
    let stays = |claim: &NodeClaim| claim.condition_is_true("Ready") && claim.metadata.deletion_timestamp.is_none();
    claims.len() == 1
        && claims.iter().all(stays)
        && nodes.len() == 1
        && of_claims == of_nodes
        && nodes.iter().all(|node| node.metadata.deletion_timestamp.is_none())
        && simulation.pods().await.len() == 1
        && simulation.running().await == 1
}

/// A launch whose controllers die at a call.
async fn launch(kill: KillPoint) -> Run {
    let begun = Simulation::start().await;
    begun.pool("web", json!({})).await;
    let (simulation, faults) = with_kill(begun.crash().await, kill, plain);
    simulation.deployment("web", 1, "1", json!({})).await;
    let mut seen = EverSeen::default();
    let simulation = run_until(simulation, &faults, plain, &mut seen, is_settled).await;
    let context = format!("{kill:?} {:?}\n{:?}", faults.trace(), seen);
    assert_eq!(seen.pods.len(), 1, "the pod was never replaced {context}");
    assert_eq!(seen.nodes.len(), seen.claims.len(), "one machine per claim {context}");
    assert_eq!(seen.claims.len(), 1, "one claim per need {context}");
    simulation.stop().await;
    Run::of(&faults)
}

/// A termination whose controllers die at a call.
async fn terminate(kill: KillPoint) -> Run {
    let begun = Simulation::start().await;
    begun.pool("web", json!({})).await;
    begun.deployment("web", 1, "1", json!({})).await;
    begun.until("the pod runs", 60, is_settled).await;
    let mut seen = EverSeen::default();
    seen.look(&begun).await;
    let old = begun.claims().await.pop().and_then(|claim| claim.metadata.uid);
    let (simulation, faults) = with_kill(begun.crash().await, kill, plain);
    let name = simulation
        .claims()
        .await
        .pop()
        .and_then(|claim| claim.metadata.name)
        .unwrap_or_default();
    simulation.delete::<NodeClaim>(&name).await;
    let moved =
        async |s: &Simulation| is_settled(s).await && s.claims().await.iter().all(|claim| claim.metadata.uid != old);
    let simulation = run_until(simulation, &faults, plain, &mut seen, moved).await;
    let context = format!("{kill:?} {:?}\n{:?}", faults.trace(), seen);
    assert_eq!(seen.pods.len(), 2, "the pod was evicted once {context}");
    assert_eq!(seen.nodes.len(), seen.claims.len(), "one machine per claim {context}");
    assert_eq!(seen.claims.len(), 2, "one claim per need {context}");
    simulation.stop().await;
    Run::of(&faults)
}

// OPS-063
#[tokio::test(start_paused = true)]
async fn a_launch_survives_death_at_any_call() {
    kill_at_every_call(launch).await;
}

#[tokio::test(start_paused = true)]
async fn a_termination_survives_death_at_any_call() {
    kill_at_every_call(terminate).await;
}
