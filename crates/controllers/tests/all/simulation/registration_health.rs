//! A pool's registration health when outcomes are recorded one by one or several at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use kerf_api::{Conditioned, KwokNodeClass, NodeClaim, NodePool};
use kerf_cloud::{CloudError, HookOutcome, RegistrationHook};
use serde_json::json;

use crate::simulation::api_faults::{ApiFaults, CallFault};
use crate::simulation::emptiness::apart;
use crate::simulation::harness::{Simulation, list};
use crate::simulation::scripted_cloud::scripted_as;

/// Lets so many nodes register. The others wait, until they are given up.
#[derive(Default)]
struct Turnstile(Mutex<Admitted>);

#[derive(Default)]
struct Admitted {
    left: usize,
    /// The uids of claims that may register. A claim may try again if its attempt failed.
    claims: BTreeSet<String>,
}

impl Turnstile {
    fn lock(&self) -> MutexGuard<'_, Admitted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, nodes: usize) {
        self.lock().left = nodes;
    }
}

#[async_trait]
impl RegistrationHook for Turnstile {
    fn name(&self) -> &str {
        "turnstile"
    }

    async fn register(&self, claim: &NodeClaim) -> Result<HookOutcome, CloudError> {
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        let mut admitted = self.lock();
        if admitted.claims.contains(&uid) {
            return Ok(HookOutcome::READY);
        }
        let Some(left) = admitted.left.checked_sub(1) else {
            return Ok(HookOutcome::Pending(Some(Duration::from_secs(5))));
        };
        admitted.left = left;
        admitted.claims.insert(uid);
        Ok(HookOutcome::READY)
    }
}

/// So many pods of the pool `web`, each of which wants a node, and the turnstile those nodes have to pass.
async fn behind_a_turnstile(pods: u32) -> (Simulation, Arc<Turnstile>) {
    let (sandbox, api_faults, turnstile) = (
        Simulation::start().await.crash().await,
        ApiFaults::new(),
        Arc::<Turnstile>::default(),
    );
    // Writes take their time, so that those of one moment overlap.
    api_faults.rule(|request| {
        let ours = request.uri().path().starts_with("/apis/karpenter.sh/");
        match *request.method() != Method::GET && ours {
            true => CallFault::Late(Duration::from_millis(100)),
            false => CallFault::None,
        }
    });
    let client = api_faults.client(&sandbox);
    let hooks = vec![Arc::clone(&turnstile) as Arc<dyn RegistrationHook>];
    let (simulation, _) = scripted_as(sandbox, client, |_| {}, hooks);
    simulation.pool("web", json!({})).await;
    simulation.deployment("web", pods, "1", apart("web")).await;
    (simulation, turnstile)
}

/// Status and reason of the pool's health.
async fn health(simulation: &Simulation) -> String {
    let pool = list::<NodePool>(&simulation.client()).await.remove(0);
    let condition = pool.condition("NodeRegistrationHealthy").cloned();
    condition.map_or_else(String::new, |c| format!("{} {}", c.status, c.reason()))
}

const FAILED: &str = "False RegistrationFailed";
const UNKNOWN: &str = "Unknown AwaitingReconciliation";
const HEALTHY: &str = "True NodeRegistrationHealthy";

async fn becomes(simulation: &Simulation, expected: &str, seconds: u64) {
    let shows = async |s: &Simulation| health(s).await == expected;
    simulation.until(expected, seconds, shows).await;
}

// LIF-052, LIF-058, LIF-061
#[tokio::test(start_paused = true)]
async fn two_nodes_that_fail_at_one_moment_make_their_pool_unhealthy() {
    let (simulation, _) = behind_a_turnstile(2).await;
    simulation.until_claims(2, 30).await;
    let first = simulation.claims().await;
    tokio::time::sleep(Duration::from_secs(14 * 60)).await;
    assert_eq!(health(&simulation).await, UNKNOWN);
    let gone = async |s: &Simulation| {
        let claims = s.claims().await;
        let same = |claim: &NodeClaim| first.iter().any(|one| one.metadata.uid == claim.metadata.uid);
        !claims.iter().any(same)
    };
    simulation.until("both are given up", 120, gone).await;
    becomes(&simulation, FAILED, 5).await;
    simulation.stop().await;
}

// LIF-059, LIF-060
#[tokio::test(start_paused = true)]
async fn two_nodes_that_register_at_one_moment_heal_their_pool() {
    let (simulation, turnstile) = behind_a_turnstile(1).await;
    becomes(&simulation, FAILED, 35 * 60).await;
    turnstile.admit(1);
    simulation.until_running(1, 60).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(health(&simulation).await, FAILED, "one success after two failures");
    turnstile.admit(2);
    simulation.scale("web", 3).await;
    simulation.until_running(3, 60).await;
    becomes(&simulation, HEALTHY, 5).await;
    simulation.stop().await;
}

// LIF-065
#[tokio::test(start_paused = true)]
async fn failures_before_a_change_of_pool_or_class_do_not_count() {
    for is_class in [false, true] {
        let (simulation, turnstile) = behind_a_turnstile(1).await;
        becomes(&simulation, FAILED, 35 * 60).await;
        match is_class {
            true => {
                let delay = json!({"spec": {"nodeRegistrationDelay": "1s"}});
                simulation.patch::<KwokNodeClass>("default", delay).await;
            }
            false => {
                simulation
                    .patch::<NodePool>("web", json!({"spec": {"weight": 5}}))
                    .await;
            }
        }
        becomes(&simulation, UNKNOWN, 5).await;
        turnstile.admit(1);
        becomes(&simulation, HEALTHY, 60).await;
        simulation.stop().await;
    }
}
