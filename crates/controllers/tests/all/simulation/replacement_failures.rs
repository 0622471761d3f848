//! Replacements that fail: the nodes to be replaced are unmarked, and nodes that were launched stay.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use kerf_api::{Conditioned, NodePool};
use kerf_runtime::metrics::catalogue::{DISRUPTION_DECISIONS, NODECLAIMS_CREATED};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::simulation::api_faults::{CallFault, with_api_faults};
use crate::simulation::emptiness::{tainted, until_tainted, with_nodes};
use crate::simulation::harness::{Simulation, name};
use crate::simulation::logs::Logs;

/// How many replacements drift has decided on.
fn decisions(simulation: &Simulation) -> f64 {
    let counter = simulation.context.metrics.counter(&DISRUPTION_DECISIONS);
    counter.get(&["replace", "drifted", ""])
}

async fn initialized(simulation: &Simulation) -> usize {
    let claims = simulation.claims().await;
    let ready = claims.iter().filter(|claim| claim.condition_is_true("Initialized"));
    ready.count()
}

/// What makes a pool's machines have so many cores.
fn with_cores(count: &str) -> Value {
    let cores = json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": [count]});
    json!({"template": {"spec": {"requirements": [cores]}}})
}

// DIS-261, DIS-263
#[tokio::test(start_paused = true)]
async fn a_refused_creation_fails_the_start_and_what_was_created_stays() {
    let logs = Logs::listen();
    let (simulation, api_faults) = with_api_faults(Simulation::start().await, |_| {}).await;
    simulation.pool("web", with_cores("4")).await;
    simulation.deployment("web", 2, "1500m", json!({})).await;
    simulation
        .until("both run on one node", 120, async |s| {
            s.running().await == 2 && initialized(s).await == 1 && s.nodes().await.len() == 1
        })
        .await;
    let (old, node) = (name(&simulation.claims().await[0]), name(&simulation.nodes().await[0]));
    let asked = AtomicUsize::new(0);
    api_faults.rule(move |request| {
        let creates = *request.method() == Method::POST && request.uri().path().ends_with("/nodeclaims");
        match creates && asked.fetch_add(1, Ordering::Relaxed) > 0 {
            true => CallFault::Refused(StatusCode::FORBIDDEN),
            false => CallFault::None,
        }
    });
    api_faults.forget();
    // Each of the pods fills a machine of two cores.
    let patch = json!({"spec": with_cores("2")});
    simulation.patch::<NodePool>("web", patch).await;
    let refused = "ERROR Reconciler error error=launching replacement nodeclaim, creating nodeclaim, ";
    simulation
        .until("the start fails", 30, async |_| !logs.with(refused).is_empty())
        .await;
    let budget = |nodes: &str| json!({"spec": {"disruption": {"budgets": [{"nodes": nodes}]}}});
    simulation.patch::<NodePool>("web", budget("0")).await;
    let snapshot = simulation.context.cluster.snapshot(simulation.context.now());
    assert!(!snapshot.nodes.iter().any(|node| node.marked_for_deletion));
    simulation
        .until("the mark is taken off", 15, async |s| tainted(s).await == 0)
        .await;
    let edits = api_faults.writes(&format!("PATCH /api/v1/nodes/{node}")).len();
    assert!(edits >= 2, "it was put on before: {edits}");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let claims = simulation.claims().await;
    assert_eq!(claims.len(), 2, "{}", simulation.picture().await);
    for claim in &claims {
        assert_eq!(claim.metadata.deletion_timestamp, None);
        assert!(claim.condition("DisruptionReason").is_none());
    }
    assert!(claims.iter().any(|claim| name(claim) == old));
    let created = simulation.context.metrics.counter(&NODECLAIMS_CREATED);
    assert_eq!(
        (created.get(&["drifted", "web", "false"]), decisions(&simulation)),
        (1.0, 0.0)
    );
    // What is there already is counted on when it is tried again.
    api_faults.heal();
    simulation.patch::<NodePool>("web", budget("100%")).await;
    simulation
        .until("it is replaced after all", 120, async |s| {
            let claims = s.claims().await;
            claims.len() == 2 && claims.iter().all(|claim| name(claim) != old) && s.running().await == 2
        })
        .await;
    assert_eq!(
        (created.get(&["drifted", "web", "false"]), decisions(&simulation)),
        (2.0, 1.0)
    );
    simulation.stop().await;
}

// DIS-100, DIS-247, DIS-281, DIS-283, DIS-303
#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_initialises_stays_and_lets_the_old_nodes_be() {
    let logs = Logs::listen();
    let simulation = with_nodes(2, json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]})).await;
    let uids = async |s: &Simulation| -> BTreeSet<String> {
        let claims = s.claims().await;
        claims.into_iter().filter_map(|claim| claim.metadata.uid).collect()
    };
    let old = uids(&simulation).await;
    // Nobody ever takes it off, and it keeps no pod away.
    let forgotten = json!({"key": "example.com/agent", "effect": "PreferNoSchedule"});
    let patch = json!({"spec": {"template": {"spec": {"startupTaints": [forgotten]}}}});
    simulation.patch::<NodePool>("web", patch).await;
    until_tainted(&simulation, 1).await;
    let began = Instant::now();
    simulation
        .until("it is let go", 11 * 60, async |s| tainted(s).await == 0)
        .await;
    assert!(began.elapsed() >= Duration::from_secs(599), "{:?}", began.elapsed());
    // OPS-261
    let failed = logs.with("ERROR failed terminating nodes while executing a disruption command");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].contains(" error=command reached its time limit"),
        "{failed:?}"
    );
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(tainted(&simulation).await, 0);
    }
    let left = uids(&simulation).await;
    assert!(old.is_subset(&left), "{}", simulation.picture().await);
    assert_eq!((left.len(), simulation.nodes().await.len()), (3, 3));
    assert_eq!((initialized(&simulation).await, simulation.running().await), (2, 2));
    let claims = simulation.claims().await;
    assert!(claims.iter().all(|claim| claim.condition_is_true("Registered")));
    assert!(claims.iter().all(|claim| claim.condition("DisruptionReason").is_none()));
    assert_eq!(decisions(&simulation), 1.0, "nothing is moved onto what is not ready");
    let blocked = simulation.messages("DisruptionBlocked").await;
    let unready = "would schedule against uninitialized nodeclaim/";
    assert!(blocked.iter().any(|text| text.contains(unready)), "{blocked:?}");
    simulation.stop().await;
}
