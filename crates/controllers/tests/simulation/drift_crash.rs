//! The controllers are killed between any two calls of a replacement, before the call arrives and after it was carried out: the node is
//! renewed all the same, once, and nothing is left behind (Law 6).

use std::collections::BTreeSet;
use std::time::Duration;

use kerf_api::{Conditioned, NodePool};
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::{Faults, KillMoment};
use serde_json::json;
use tokio::time::Instant;

use crate::emptiness::{is_tainted, with_nodes};
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

fn mortal(sandbox: Sandbox, death: Option<(u64, KillMoment)>) -> (Simulation, Faults) {
    let (client, faults) = sandbox.client_with_faults("controller");
    if let Some((call, moment)) = death {
        faults.kill_at(call, moment);
    }
    (Simulation::join_as(sandbox, client, |_| {}), faults)
}

/// Renews a node with controllers that die at a call, if one is given, and come back. Gives back how many calls it took.
async fn renew(death: Option<(u64, KillMoment)>) -> u64 {
    let begun = with_nodes(1, json!({"consolidateAfter": "Never"})).await;
    let mut seen = Seen::default();
    seen.look(&begun).await;
    let (mut simulation, faults) = mortal(begun.crash().await, death);
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"generation": "2"}}}}});
    simulation.patch::<NodePool>("web", patch).await;
    let mut dead = false;
    let end = Instant::now() + Duration::from_secs(30 * 60);
    while !is_renewed(&simulation).await {
        seen.look(&simulation).await;
        if faults.killed().is_cancelled() && !dead {
            dead = true;
            (simulation, _) = mortal(simulation.crash().await, None);
        }
        assert!(
            Instant::now() < end,
            "{death:?} {:?}\n{}",
            faults.trace(),
            simulation.picture().await
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    seen.look(&simulation).await;
    let context = format!("{death:?} {:?}\n{seen:?}", faults.trace());
    assert_eq!(seen.nodes.len(), seen.claims.len(), "one machine per claim {context}");
    // A simulated machine that is lost between being made and joining is the only reason for another claim.
    assert!(
        seen.claims.len() <= 2 + usize::from(dead),
        "one replacement per need {context}"
    );
    assert_eq!(seen.pods.len(), 2, "the pod was evicted once {context}");
    simulation.stop().await;
    faults.calls()
}

// DIS-004, DIS-014, DIS-261, DIS-263
#[tokio::test(start_paused = true)]
async fn a_replacement_survives_death_at_any_call() {
    let calls = renew(None).await;
    assert!(calls > 10, "{calls}");
    for call in 1..=calls {
        for moment in [KillMoment::Before, KillMoment::After] {
            renew(Some((call, moment))).await;
        }
    }
}
