//! The controllers are killed between any two calls while a static pool grows, and while one of its nodes is replaced: there are never more
//! claims than `spec.replicas`, or than the limit allows (Law 6).

use kerf_api::{Conditioned, NodeClaim, NodePool};
use kerf_runtime::Options;
use serde_json::{Value, json};

use crate::simulation::emptiness::is_tainted;
use crate::simulation::harness::Simulation;
use crate::simulation::kills::{EverSeen, KillPoint, Run, kill_at_every_call, run_until, with_kill};
use crate::simulation::static_capacity::typed;

fn with_gate(options: &mut Options) {
    options.feature_gates.static_capacity = true;
}

fn is_usable(claim: &NodeClaim) -> bool {
    claim.condition_is_true("Initialized") && claim.metadata.deletion_timestamp.is_none()
}

fn spec(replicas: u32) -> Value {
    json!({"replicas": replicas, "limits": {"nodes": "2"}, "template": {"spec": {"requirements": [typed()]}}})
}

/// A pool that grows from nothing to two nodes.
async fn grow(kill: KillPoint) -> Run {
    let begun = Simulation::start().await;
    begun.pool("web", spec(0)).await;
    let sandbox = begun.crash().await;
    let (simulation, faults) = with_kill(sandbox, kill, with_gate);
    simulation
        .patch::<NodePool>("web", json!({"spec": {"replicas": 2}}))
        .await;
    let mut seen = EverSeen::default();
    let complete = async |s: &Simulation| {
        let claims = s.claims().await;
        claims.len() == 2 && claims.iter().all(is_usable) && s.nodes().await.len() == 2
    };
    let simulation = run_until(simulation, &faults, with_gate, &mut seen, complete).await;
    assert_eq!(seen.claims.len(), 2, "{kill:?} {seen:?} {:?}", faults.trace());
    simulation.stop().await;
    Run::of(&faults)
}

/// A pool of one node that is replaced, with room for one more.
async fn replace(kill: KillPoint) -> Run {
    let begun = Simulation::start_with(with_gate).await;
    begun.pool("web", spec(1)).await;
    let ready = async |s: &Simulation| s.claims().await.len() == 1 && s.claims().await.iter().all(is_usable);
    begun.until("there is one", 60, ready).await;
    let (simulation, faults) = with_kill(begun.crash().await, kill, with_gate);
    let changed = json!({"spec": {"template": {"metadata": {"labels": {"generation": "2"}}}}});
    simulation.patch::<NodePool>("web", changed).await;
    let mut seen = EverSeen::default();
    let renewed = async |s: &Simulation| {
        let (claims, nodes) = (s.claims().await, s.nodes().await);
        let is_new = |claim: &NodeClaim| {
            let labels = claim.metadata.labels.as_ref();
            labels.is_some_and(|labels| labels.contains_key("generation"))
                && claim.condition("DisruptionReason").is_none()
        };
        claims.len() == 1
            && claims.iter().all(|claim| is_usable(claim) && is_new(claim))
            && nodes.len() == 1
            && !nodes.iter().any(is_tainted)
    };
    let simulation = run_until(simulation, &faults, with_gate, &mut seen, renewed).await;
    // The limit holds at any moment. A replacement that lost its command may be the one that is too many.
    assert!(
        seen.most_claims <= 2 && seen.claims.len() <= 3,
        "{kill:?} {seen:?} {:?}",
        faults.trace()
    );
    simulation.stop().await;
    Run::of(&faults)
}

// LIF-174, SCH-401
#[tokio::test(start_paused = true)]
async fn a_static_pool_that_grows_survives_death_at_any_call() {
    kill_at_every_call(grow).await;
}

#[tokio::test(start_paused = true)]
async fn a_static_replacement_survives_death_at_any_call() {
    kill_at_every_call(replace).await;
}
