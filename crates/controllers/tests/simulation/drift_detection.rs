//! How claims come to be drifted and cease to be: what the provider says, what is logged, and whose pools are marked.

use std::time::Duration;

use kerf_api::{Conditioned, NodeClaim, NodePool};
use kerf_cloud::CloudError;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::clouds::{Call, scripted, scripted_on};
use crate::emptiness::with_nodes;
use crate::harness::{Simulation, create, list, name};
use crate::logs::Logs;

async fn drifted(simulation: &Simulation) -> Option<bool> {
    let claim = simulation.claims().await.remove(0);
    claim.condition("Drifted").map(kerf_api::Condition::is_true)
}

async fn cure(simulation: &Simulation) {
    let patch = json!({"spec": {"template": {"metadata": {"labels": null}}}});
    simulation.patch::<NodePool>("web", patch).await;
}

fn closed() -> serde_json::Value {
    json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]})
}

// DIS-219, DIS-220
#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_say_changes_nothing_and_one_that_lost_the_instance_cures() {
    let logs = Logs::listen();
    let (simulation, script) = scripted_on(with_nodes(1, closed()).await.crash().await, |_| {});
    simulation.change_template("2").await;
    simulation
        .until("it has drifted", 10, async |s| drifted(s).await == Some(true))
        .await;
    let marked = logs.with("DEBUG marking drifted");
    assert_eq!(marked.len(), 1, "{marked:?}");
    assert!(marked[0].ends_with(" reason=NodePoolDrifted"), "{marked:?}");

    script.fail(Call::IsDrifted, || CloudError::other("slow down"));
    cure(&simulation).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(drifted(&simulation).await, Some(true), "nobody knows better");
    let failed = logs.with("ERROR Reconciler error");
    assert!(failed.iter().any(|line| line.contains("slow down")), "{failed:?}");
    assert_eq!(logs.with("removing drifted status condition"), [""; 0]);

    script.fail(Call::IsDrifted, || CloudError::not_found("it is gone"));
    simulation
        .until("it is cured", 30, async |s| drifted(s).await.is_none())
        .await;
    assert_eq!(
        logs.with("DEBUG removing drifted status condition, not drifted").len(),
        1
    );
    let now = failed.len();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(logs.with("ERROR Reconciler error").len(), now, "that is no error");
    simulation.stop().await;
}

// DIS-220
#[tokio::test(start_paused = true)]
async fn what_was_never_launched_cannot_have_drifted() {
    let logs = Logs::listen();
    let (simulation, script) = scripted().await;
    simulation.pool("web", json!({"disruption": closed()})).await;
    script.hang(Call::Create);
    let claim = json!({"metadata": {"name": "stuck", "labels": {"karpenter.sh/nodepool": "web"}}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [],
    }});
    create::<NodeClaim>(&simulation.client(), claim).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let claim = simulation.claims().await.remove(0);
    let mut conditions = json!(claim.status.unwrap_or_default().conditions);
    let made_up = json!({"type": "Drifted", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    conditions.as_array_mut().expect("a list").push(made_up);
    let api: Api<NodeClaim> = Api::all(simulation.client());
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    api.patch_status("stuck", &PatchParams::default(), &patch)
        .await
        .expect("patched");
    simulation
        .until("the condition is removed", 5, async |s| drifted(s).await.is_none())
        .await;
    assert_eq!(
        logs.with("DEBUG removing drift status condition, isn't launched").len(),
        1
    );
    simulation.stop().await;
}

// DIS-234
#[tokio::test(start_paused = true)]
async fn pools_of_other_providers_are_not_marked() {
    let simulation = Simulation::start().await;
    simulation.pool("ours", json!({})).await;
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    simulation
        .pool("theirs", json!({"template": {"spec": {"nodeClassRef": class}}}))
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    for pool in list::<NodePool>(&simulation.client()).await {
        let annotations = pool.metadata.annotations.clone().unwrap_or_default();
        let marked = annotations.keys().filter(|key| key.contains("nodepool-hash")).count();
        assert_eq!(marked, if name(&pool) == "ours" { 2 } else { 0 }, "{annotations:?}");
    }
    simulation.stop().await;
}
