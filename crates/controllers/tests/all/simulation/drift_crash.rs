//! The controllers are killed between any two calls of a replacement, before and after the call is executed: the node is replaced all the same,
//! once, and nothing is left behind (Law 6).

use kerf_api::{Conditioned, NodePool};
use kerf_runtime::Options;
use serde_json::json;

use crate::simulation::emptiness::{is_tainted, with_nodes};
use crate::simulation::harness::Simulation;
use crate::simulation::kills::{EverSeen, KillPoint, Run, kill_at_every_call, run_until, with_kill};

fn plain(_: &mut Options) {}

/// Whether one node of the new template is there, and nothing else, and the pod runs.
async fn is_renewed(simulation: &Simulation) -> bool {
    let (claims, nodes) = (simulation.claims().await, simulation.nodes().await);
    let labels = claims.first().and_then(|claim| claim.metadata.labels.as_ref());
    claims.len() == 1
        && nodes.len() == 1
        && labels.is_some_and(|labels| labels.contains_key("generation"))
        && claims[0].condition_is_true("Initialized")
        && claims[0].condition("DisruptionReason").is_none()
        && !is_tainted(&nodes[0])
        && simulation.pods().await.len() == 1
        && simulation.running().await == 1
}

/// Renews a node with controllers that die at a call, if one is given, and start again.
async fn renew(kill: KillPoint) -> Run {
    let begun = with_nodes(1, json!({"consolidateAfter": "Never"})).await;
    let mut seen = EverSeen::default();
    seen.look(&begun).await;
    let (simulation, faults) = with_kill(begun.crash().await, kill, plain);
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"generation": "2"}}}}});
    simulation.patch::<NodePool>("web", patch).await;
    let simulation = run_until(simulation, &faults, plain, &mut seen, is_renewed).await;
    let context = format!("{kill:?} {:?}\n{seen:?}", faults.trace());
    assert_eq!(seen.nodes.len(), seen.claims.len(), "one machine per claim {context}");
    // A simulated machine that is lost between being made and joining is the only reason for another claim.
    let dead = faults.killed().is_cancelled();
    assert!(
        seen.claims.len() <= 2 + usize::from(dead),
        "one replacement per need {context}"
    );
    assert_eq!(seen.pods.len(), 2, "the pod was evicted once {context}");
    simulation.stop().await;
    Run::of(&faults)
}

// DIS-004, DIS-014, DIS-261, DIS-263
#[tokio::test(start_paused = true)]
async fn a_replacement_survives_death_at_any_call() {
    kill_at_every_call(renew).await;
}
