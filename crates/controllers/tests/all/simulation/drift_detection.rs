//! How claims become drifted and stop being so: the provider's answer, log lines, and which pools are affected.

use std::time::Duration;

use kerf_api::{Conditioned, NodeClaim, NodePool};
use kerf_cloud::CloudError;
use kerf_runtime::metrics::catalogue::DISRUPTION_DECISIONS;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::simulation::emptiness::with_nodes;
use crate::simulation::harness::{Simulation, create, is_new, list, name};
use crate::simulation::logs::Logs;
use crate::simulation::scripted_cloud::{Call, scripted, scripted_on};

async fn drifted(simulation: &Simulation) -> Option<bool> {
    let claim = simulation.claims().await.remove(0);
    claim.condition("Drifted").map(kerf_api::Condition::is_true)
}

/// Reason and message of the claim's drift, empty while it has not drifted.
async fn reason(simulation: &Simulation) -> [String; 2] {
    let claim = simulation.claims().await.remove(0);
    let condition = claim.condition("Drifted").filter(|condition| condition.is_true());
    condition.map_or_else(Default::default, |drifted| {
        [drifted.reason().to_owned(), drifted.message().to_owned()]
    })
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

// DIS-215, DIS-218
#[tokio::test(start_paused = true)]
async fn the_cloud_is_asked_last() {
    let (simulation, script) = scripted_on(with_nodes(1, closed()).await.crash().await, |_| {});
    script.drift(Some("ImageDrift"));
    // Claims are reconciled every five minutes although nothing changes.
    simulation
        .until("the cloud is believed", 310, async |s| {
            reason(s).await == ["ImageDrift", "ImageDrift"]
        })
        .await;
    simulation.change_template("2").await;
    simulation
        .until("the template comes first", 5, async |s| {
            reason(s).await == ["NodePoolDrifted", "NodePoolDrifted"]
        })
        .await;
    cure(&simulation).await;
    simulation
        .until("what the cloud says is left", 5, async |s| {
            reason(s).await == ["ImageDrift", "ImageDrift"]
        })
        .await;
    script.drift(None);
    simulation
        .until("it is cured", 310, async |s| drifted(s).await.is_none())
        .await;
    simulation.stop().await;
}

// DIS-218, DIS-237
#[tokio::test(start_paused = true)]
async fn a_claim_whose_type_is_no_more_drifts_when_it_is_an_hour_old() {
    let (simulation, script) = scripted_on(with_nodes(1, closed()).await.crash().await, |_| {});
    let claim = simulation.claims().await.remove(0);
    let kind = &claim.metadata.labels.unwrap_or_default()["node.kubernetes.io/instance-type"];
    let kind = simulation.context.interner.intern(kind);
    let gone = async |s: &Simulation| reason(s).await == ["InstanceTypeNotFound", "InstanceTypeNotFound"];
    script.withdraw([kind]);
    tokio::time::sleep(Duration::from_secs(55 * 60)).await;
    assert_eq!(drifted(&simulation).await, None, "types come and go");
    simulation.until("it has drifted", 11 * 60, gone).await;
    // Only that all is well is remembered, and that for half an hour.
    script.withdraw([]);
    simulation
        .until("it is cured", 6 * 60, async |s| drifted(s).await.is_none())
        .await;
    script.withdraw([kind]);
    tokio::time::sleep(Duration::from_secs(25 * 60)).await;
    assert_eq!(drifted(&simulation).await, None, "it passed not long ago");
    simulation.until("it has drifted again", 11 * 60, gone).await;
    simulation.stop().await;
}

// DIS-243
#[tokio::test(start_paused = true)]
async fn what_keeps_a_node_from_consolidation_does_not_keep_it_from_drift() {
    for after in ["Never", "24h"] {
        let simulation = with_nodes(
            1,
            json!({"consolidateAfter": after, "consolidationPolicy": "WhenEmpty"}),
        )
        .await;
        simulation.change_template("2").await;
        simulation
            .until("it is renewed", 120, async |s| {
                let claims = s.claims().await;
                claims.len() == 1 && claims.iter().all(is_new) && s.running().await == 1
            })
            .await;
        let decisions = simulation.context.metrics.counter(&DISRUPTION_DECISIONS);
        assert_eq!(decisions.get(&["replace", "drifted", ""]), 1.0);
        simulation.stop().await;
    }
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

// DIS-234, API-090, API-200, OPS-064
#[tokio::test(start_paused = true)]
async fn pools_of_other_providers_are_not_marked() {
    let simulation = Simulation::start().await;
    simulation.pool("ours", json!({})).await;
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    simulation
        .pool("theirs", json!({"template": {"spec": {"nodeClassRef": class}}}))
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = list::<NodePool>(&simulation.client()).await;
    tokio::time::sleep(Duration::from_secs(540)).await;
    let after = list::<NodePool>(&simulation.client()).await;
    assert_eq!(before, after, "nothing is written that is there already");
    for pool in after {
        assert_eq!(pool.status.is_none(), name(&pool) == "theirs");
        let annotations = pool.metadata.annotations.clone().unwrap_or_default();
        let marked = annotations.keys().filter(|key| key.contains("nodepool-hash")).count();
        assert_eq!(marked, if name(&pool) == "ours" { 2 } else { 0 }, "{annotations:?}");
    }
    simulation.stop().await;
}
