//! The controllers are killed between any two calls while a static pool grows, and while one of its nodes is replaced: there are never
//! more claims than asked for, or than the limit allows (Law 6).

use std::collections::BTreeSet;
use std::time::Duration;

use kerf_api::{Conditioned, NodeClaim, NodePool};
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::{Faults, KillMoment};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::emptiness::is_tainted;
use crate::harness::Simulation;
use crate::static_capacity::typed;

/// Controllers that die at a call, if one is given; and the switch of their faults.
fn mortal(sandbox: Sandbox, death: Option<(u64, KillMoment)>) -> (Simulation, Faults) {
    let (client, faults) = sandbox.client_with_faults("controller");
    if let Some((call, moment)) = death {
        faults.kill_at(call, moment);
    }
    let simulation = Simulation::join_as(sandbox, client, |options| options.feature_gates.static_capacity = true);
    (simulation, faults)
}

/// What was there at any time.
#[derive(Default, Debug)]
struct Seen {
    claims: BTreeSet<String>,
    most: usize,
}

/// Watches until it is done for five seconds, past one death of the controllers.
async fn survive(
    mut simulation: Simulation,
    faults: &Faults,
    seen: &mut Seen,
    done: impl AsyncFn(&Simulation) -> bool,
) -> Simulation {
    let end = Instant::now() + Duration::from_secs(30 * 60);
    let (mut since, mut died) = (None, false);
    loop {
        let claims = simulation.claims().await;
        seen.most = seen.most.max(claims.len());
        seen.claims
            .extend(claims.into_iter().filter_map(|claim| claim.metadata.uid));
        if !died && faults.killed().is_cancelled() {
            died = true;
            simulation = mortal(simulation.crash().await, None).0;
        }
        if done(&simulation).await {
            if since.get_or_insert_with(Instant::now).elapsed() >= Duration::from_secs(5) {
                return simulation;
            }
        } else {
            since = None;
        }
        assert!(
            Instant::now() < end,
            "{:?}\n{}",
            faults.trace(),
            simulation.picture().await
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn is_usable(claim: &NodeClaim) -> bool {
    claim.condition_is_true("Initialized") && claim.metadata.deletion_timestamp.is_none()
}

/// How the first controllers ended.
struct Life {
    calls: u64,
    killed: bool,
}

impl Life {
    fn of(faults: &Faults) -> Self {
        Self {
            calls: faults.calls(),
            killed: faults.killed().is_cancelled(),
        }
    }
}

/// Lives once undisturbed, then dies at each call of that life, before and after it.
async fn die_everywhere(live: impl AsyncFn(Option<(u64, KillMoment)>) -> Life) {
    let calls = live(None).await.calls;
    let mut deaths = 0;
    for call in 1..=calls {
        for moment in [KillMoment::Before, KillMoment::After] {
            deaths += u64::from(live(Some((call, moment))).await.killed);
        }
    }
    assert!(
        calls > 10 && deaths >= 2 * calls - 8,
        "{deaths} deaths at {calls} calls"
    );
}

fn spec(replicas: u32) -> Value {
    json!({"replicas": replicas, "limits": {"nodes": "2"}, "template": {"spec": {"requirements": [typed()]}}})
}

/// A pool that grows from nothing to two nodes.
async fn grow(death: Option<(u64, KillMoment)>) -> Life {
    let begun = Simulation::start().await;
    begun.pool("web", spec(0)).await;
    let sandbox = begun.crash().await;
    let (simulation, faults) = mortal(sandbox, death);
    simulation
        .patch::<NodePool>("web", json!({"spec": {"replicas": 2}}))
        .await;
    let mut seen = Seen::default();
    let complete = async |s: &Simulation| {
        let claims = s.claims().await;
        claims.len() == 2 && claims.iter().all(is_usable) && s.nodes().await.len() == 2
    };
    let simulation = survive(simulation, &faults, &mut seen, complete).await;
    assert_eq!(seen.claims.len(), 2, "{death:?} {seen:?} {:?}", faults.trace());
    simulation.stop().await;
    Life::of(&faults)
}

/// A pool of one node that is replaced, with room for one more.
async fn replace(death: Option<(u64, KillMoment)>) -> Life {
    let begun = Simulation::start_with(|options| options.feature_gates.static_capacity = true).await;
    begun.pool("web", spec(1)).await;
    let ready = async |s: &Simulation| s.claims().await.len() == 1 && s.claims().await.iter().all(is_usable);
    begun.until("there is one", 60, ready).await;
    let (simulation, faults) = mortal(begun.crash().await, death);
    let changed = json!({"spec": {"template": {"metadata": {"labels": {"generation": "2"}}}}});
    simulation.patch::<NodePool>("web", changed).await;
    let mut seen = Seen::default();
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
    let simulation = survive(simulation, &faults, &mut seen, renewed).await;
    // The limit holds at any moment. A replacement that lost its command may be the one that is too many.
    assert!(
        seen.most <= 2 && seen.claims.len() <= 3,
        "{death:?} {seen:?} {:?}",
        faults.trace()
    );
    simulation.stop().await;
    Life::of(&faults)
}

// LIF-174, SCH-401
#[tokio::test(start_paused = true)]
async fn a_static_pool_that_grows_survives_death_at_any_call() {
    die_everywhere(grow).await;
}

#[tokio::test(start_paused = true)]
async fn a_static_replacement_survives_death_at_any_call() {
    die_everywhere(replace).await;
}
