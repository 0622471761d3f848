//! The controllers are killed between any two calls of a launch and of a termination, before the call arrives and after it was
//! carried out: nothing leaks, nothing is done twice (Law 6).

use std::collections::BTreeSet;
use std::time::Duration;

use kerf_api::{Conditioned, NodeClaim};
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::{Faults, KillMoment};
use serde_json::json;
use tokio::time::Instant;

use crate::harness::Simulation;

/// Everything that was ever there, by uid.
#[derive(Default, Debug)]
struct Seen {
    claims: BTreeSet<String>,
    nodes: BTreeSet<String>,
    pods: BTreeSet<String>,
}

impl Seen {
    async fn look(&mut self, simulation: &Simulation) {
        let uid = |meta: kube::api::ObjectMeta| meta.uid.unwrap_or_default();
        self.claims
            .extend(simulation.claims().await.into_iter().map(|claim| uid(claim.metadata)));
        self.nodes
            .extend(simulation.nodes().await.into_iter().map(|node| uid(node.metadata)));
        self.pods
            .extend(simulation.pods().await.into_iter().map(|pod| uid(pod.metadata)));
    }
}

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

/// Watches until the controllers are dead, or done: settled for five seconds.
async fn watch(
    simulation: &Simulation,
    faults: &Faults,
    seen: &mut Seen,
    done: impl AsyncFn(&Simulation) -> bool,
) -> bool {
    let mut settled_since = None;
    let end = Instant::now() + Duration::from_secs(40 * 60);
    loop {
        seen.look(simulation).await;
        if faults.killed().is_cancelled() {
            return false;
        }
        if done(simulation).await {
            let since = *settled_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= Duration::from_secs(5) {
                return true;
            }
        } else {
            settled_since = None;
        }
        assert!(
            Instant::now() < end,
            "it does not settle\n{:?}\n{}",
            faults.trace(),
            simulation.picture().await
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Controllers that die at a call, if one is given; and the switch of their faults.
fn mortal(sandbox: Sandbox, death: Option<(u64, KillMoment)>) -> (Simulation, Faults) {
    let (client, faults) = sandbox.client_with_faults("controller");
    if let Some((call, moment)) = death {
        faults.kill_at(call, moment);
    }
    (Simulation::join_as(sandbox, client, |_| {}), faults)
}

/// Waits until all is done, past one death.
async fn survive(
    simulation: Simulation,
    faults: Faults,
    seen: &mut Seen,
    done: impl AsyncFn(&Simulation) -> bool,
) -> Simulation {
    if watch(&simulation, &faults, seen, &done).await {
        return simulation;
    }
    let (simulation, faults) = mortal(simulation.crash().await, None);
    watch(&simulation, &faults, seen, &done).await;
    simulation
}

/// A launch whose controllers die at a call.
async fn launch(death: Option<(u64, KillMoment)>) -> Life {
    let begun = Simulation::start().await;
    begun.pool("web", json!({})).await;
    let (simulation, faults) = mortal(begun.crash().await, death);
    simulation.deployment("web", 1, "1", json!({})).await;
    let mut seen = Seen::default();
    let simulation = survive(simulation, faults.clone(), &mut seen, is_settled).await;
    let context = format!("{death:?} {:?}\n{:?}", faults.trace(), seen);
    assert_eq!(seen.pods.len(), 1, "the pod was never replaced {context}");
    assert_eq!(seen.nodes.len(), seen.claims.len(), "one machine per claim {context}");
    assert_eq!(seen.claims.len(), 1, "one claim per need {context}");
    simulation.stop().await;
    Life::of(&faults)
}

/// A termination whose controllers die at a call.
async fn terminate(death: Option<(u64, KillMoment)>) -> Life {
    let begun = Simulation::start().await;
    begun.pool("web", json!({})).await;
    begun.deployment("web", 1, "1", json!({})).await;
    begun.until("the pod runs", 60, is_settled).await;
    let mut seen = Seen::default();
    seen.look(&begun).await;
    let old = begun.claims().await.pop().and_then(|claim| claim.metadata.uid);
    let (simulation, faults) = mortal(begun.crash().await, death);
    let name = simulation
        .claims()
        .await
        .pop()
        .and_then(|claim| claim.metadata.name)
        .unwrap_or_default();
    simulation.delete::<NodeClaim>(&name).await;
    let moved =
        async |s: &Simulation| is_settled(s).await && s.claims().await.iter().all(|claim| claim.metadata.uid != old);
    let simulation = survive(simulation, faults.clone(), &mut seen, moved).await;
    let context = format!("{death:?} {:?}\n{:?}", faults.trace(), seen);
    assert_eq!(seen.pods.len(), 2, "the pod was evicted once {context}");
    assert_eq!(seen.nodes.len(), seen.claims.len(), "one machine per claim {context}");
    assert_eq!(seen.claims.len(), 2, "one claim per need {context}");
    simulation.stop().await;
    Life::of(&faults)
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
    // The last calls of a life may come after the end of what is looked at.
    assert!(
        calls > 20 && deaths >= 2 * calls - 8,
        "{deaths} deaths at {calls} calls"
    );
}

#[tokio::test(start_paused = true)]
async fn a_launch_survives_death_at_any_call() {
    die_everywhere(launch).await;
}

#[tokio::test(start_paused = true)]
async fn a_termination_survives_death_at_any_call() {
    die_everywhere(terminate).await;
}
