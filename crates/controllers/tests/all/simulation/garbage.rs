//! Garbage collection: claims without instances, instances without claims.

use std::time::Duration;

use http::{Method, StatusCode};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kerf_api::NodeClaim;
use kerf_cloud::{CloudError, Launched};
use kerf_runtime::metrics::catalogue::NODECLAIMS_DISRUPTED;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::simulation::api_faults::{CallFault, with_api_faults};
use crate::simulation::harness::{Simulation, create, name};
use crate::simulation::logs::Logs;
use crate::simulation::scripted_cloud::{Call, Script, scripted};

#[tokio::test(start_paused = true)]
async fn a_claim_whose_instance_vanished_is_replaced() {
    let logs = Logs::listen();
    let simulation = Simulation::with_one_pod(json!({}), json!({})).await;
    let claim = simulation.claims().await.pop().expect("a claim");
    let node = simulation.nodes().await.pop().expect("a node");
    let name = node.metadata.name.clone().unwrap_or_default();
    simulation
        .patch::<Node>(&name, json!({"metadata": {"finalizers": null}}))
        .await;
    simulation.delete::<Node>(&name).await;
    let replaced = async |s: &Simulation| {
        let claims = s.claims().await;
        claims.len() == 1
            && claims.iter().all(|other| other.metadata.uid != claim.metadata.uid)
            && s.running().await == 1
    };
    // LIF-130
    simulation.until("another claim is there", 300, replaced).await;
    // OPS-261
    let told = logs.with("DEBUG garbage collecting nodeclaim with no cloudprovider representation");
    assert_eq!(told.len(), 1, "{told:?}");
    let labels = claim.metadata.labels.clone().unwrap_or_default();
    let counter = simulation.context.metrics.counter(&NODECLAIMS_DISRUPTED);
    // LIF-129
    assert_eq!(
        counter.get(&["garbage_collected", "web", &labels["karpenter.sh/capacity-type"]]),
        1.0
    );
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_nobody_wants_is_ended() {
    let simulation = Simulation::start().await;
    let node = |name: &str, labels: serde_json::Value| json!({"metadata": {"name": name, "labels": labels}, "spec": {"providerID": format!("kwok://{name}")}});
    let ours = json!({"karpenter.kwok.sh/kwoknodeclass": "default"});
    create::<Node>(&simulation.client(), node("lost", ours)).await;
    create::<Node>(&simulation.client(), node("foreign", json!({}))).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(simulation.nodes().await.len(), 2, "it may still be somebody's");
    simulation.until_nodes(1, 300).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let left = simulation.nodes().await.pop().and_then(|node| node.metadata.name);
    assert_eq!(left.as_deref(), Some("foreign"));
    simulation.stop().await;
}

/// A cloud that launches nothing any more and also lists an instance without a claim, created at that time.
async fn with_an_orphan(created: Option<Timestamp>) -> (Simulation, Script) {
    let (simulation, script) = scripted().await;
    script.fail(Call::Create, || CloudError::other("no capacity to speak of"));
    script.list_also(vec![Launched {
        name: "lost".to_owned(),
        provider_id: "kwok://lost".to_owned(),
        labels: [("karpenter.kwok.sh/kwoknodeclass".to_owned(), "default".to_owned())].into(),
        created,
        ..Launched::default()
    }]);
    (simulation, script)
}

async fn launching(simulation: &Simulation, name: &str) {
    let claim = json!({"metadata": {"name": name}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [],
    }});
    create::<NodeClaim>(&simulation.client(), claim).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_nobody_wants_is_ended_although_other_claims_are_launching() {
    let old = "2020-01-01T00:00:00Z".parse().expect("a timestamp");
    let (simulation, script) = with_an_orphan(Some(old)).await;
    for number in 0..10 {
        launching(&simulation, &format!("stuck-{number}")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert!(script.count(Call::Delete) > 0);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspicion_outlasts_a_launch() {
    let (simulation, script) = with_an_orphan(None).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    launching(&simulation, "stuck").await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    simulation.delete::<NodeClaim>("stuck").await;
    simulation.until_claims(0, 30).await;
    assert_eq!(script.count(Call::Delete), 0, "it may have been the claim's");
    simulation
        .until("it is ended in the next round", 100, async |_| {
            script.count(Call::Delete) > 0
        })
        .await;
    simulation.stop().await;
}

/// A cluster with a pod on a node whose Node object, and with it its machine, is then lost.
async fn with_a_lost_machine() -> (Simulation, Script, NodeClaim) {
    let (simulation, script) = scripted().await;
    simulation.run_one_pod(json!({}), json!({})).await;
    simulation.until_initialized(30).await;
    let claim = simulation.claims().await.remove(0);
    (simulation, script, claim)
}

async fn lose_node(simulation: &Simulation) {
    let name = simulation.nodes().await.remove(0).metadata.name.unwrap_or_default();
    simulation
        .patch::<Node>(&name, json!({"metadata": {"finalizers": null}}))
        .await;
    simulation.delete::<Node>(&name).await;
}

async fn is_kept(simulation: &Simulation, claim: &NodeClaim) -> bool {
    let claims = simulation.claims().await;
    let same =
        |other: &NodeClaim| other.metadata.uid == claim.metadata.uid && other.metadata.deletion_timestamp.is_none();
    claims.iter().any(same)
}

// LIF-128
#[tokio::test(start_paused = true)]
async fn instances_are_listed_at_start_and_every_two_minutes() {
    let (simulation, script) = scripted().await;
    tokio::time::sleep(Duration::from_secs(605)).await;
    let times = script.times(Call::List);
    assert_eq!(
        times.iter().map(|time| time.round()).collect::<Vec<_>>(),
        [0.0, 120.0, 240.0, 360.0, 480.0, 600.0]
    );
    simulation.stop().await;
}

// LIF-131, OPS-112
#[tokio::test(start_paused = true)]
async fn nothing_is_collected_while_the_cloud_does_not_answer() {
    let (simulation, script, claim) = with_a_lost_machine().await;
    script.fail(Call::List, || CloudError::other("no answer"));
    let before = script.count(Call::List);
    // Past the next regular round.
    tokio::time::sleep(Duration::from_secs(125)).await;
    // LIF-243: after an error a round does not wait for the next two minutes.
    let times = script.times(Call::List).split_off(before);
    let soon = times.iter().filter(|time| **time < times[0] + 5.0).count();
    assert!(soon > 5, "{times:?}");
    lose_node(&simulation).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(is_kept(&simulation, &claim).await);
    script.heal(Call::List);
    simulation
        .until("it is collected", 1000, async |s| !is_kept(s, &claim).await)
        .await;
    simulation.stop().await;
}

// LIF-130, LIF-131
#[tokio::test(start_paused = true)]
async fn an_empty_list_costs_no_claim_whose_instance_is_known() {
    let (simulation, script, claim) = with_a_lost_machine().await;
    // The call for one instance fails: the instance may exist.
    script.fail(Call::Get, || CloudError::other("no answer"));
    lose_node(&simulation).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(is_kept(&simulation, &claim).await);
    script.heal(Call::Get);
    simulation
        .until("it is collected", 1000, async |s| !is_kept(s, &claim).await)
        .await;
    simulation.stop().await;
}

// LIF-243
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_deleted_keeps_no_other_and_is_tried_again_soon() {
    let begun = Simulation::start().await;
    begun.populate(2, json!({})).await;
    let (simulation, api_faults) = with_api_faults(begun, |_| {}).await;
    let claims = simulation.claims().await;
    let (stuck, other) = (&claims[0], &claims[1]);
    let path = format!("/apis/karpenter.sh/v1/nodeclaims/{}", name(stuck));
    api_faults.on(
        Method::DELETE,
        &path,
        CallFault::Refused(StatusCode::INTERNAL_SERVER_ERROR),
    );
    for _ in 0..2 {
        lose_node(&simulation).await;
    }
    simulation
        .until("the other is collected", 130, async |s| !is_kept(s, other).await)
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = api_faults.writes(&format!("DELETE {path}")).len();
    assert!(asked > 5, "{asked}");
    assert!(is_kept(&simulation, stuck).await && !is_kept(&simulation, other).await);
    api_faults.heal();
    simulation
        .until("it is collected", 30, async |s| !is_kept(s, stuck).await)
        .await;
    simulation.stop().await;
}

// LIF-130
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_listed_keeps_its_claim_without_a_node() {
    let (simulation, script, claim) = with_a_lost_machine().await;
    let status = claim.status.clone().unwrap_or_default();
    script.list_also(vec![Launched {
        provider_id: status.provider_id.unwrap_or_default(),
        ..Launched::default()
    }]);
    lose_node(&simulation).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(is_kept(&simulation, &claim).await);
    script.list_also(Vec::new());
    simulation
        .until("it is collected", 130, async |s| !is_kept(s, &claim).await)
        .await;
    simulation.stop().await;
}

// LIF-232
#[tokio::test(start_paused = true)]
async fn a_claim_whose_instance_never_was_is_collected() {
    let simulation = Simulation::start().await;
    let sandbox = simulation.crash().await;
    let claim = json!({"metadata": {"name": "ghost", "finalizers": ["karpenter.sh/termination"]}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [],
    }});
    create::<NodeClaim>(&sandbox.client(), claim).await;
    let now = "2026-01-01T00:00:00Z";
    let is = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now});
    let status = json!({"status": {"providerID": "kwok://ghost", "conditions": [is("Launched"), is("Registered")]}});
    let api: Api<NodeClaim> = Api::all(sandbox.client());
    api.patch_status("ghost", &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("patched");
    let simulation = Simulation::join(sandbox, |_| {});
    simulation.until_claims(0, 130).await;
    simulation.stop().await;
}
