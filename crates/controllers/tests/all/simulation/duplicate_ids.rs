//! Instances with two claims or two Nodes, because a provider id was written twice: an event reports it, nothing is terminated, and everything
//! else works as usual.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::{Conditioned, NodeClaim};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::simulation::hand_edited::{goes_on, staying, with_nodes};
use crate::simulation::harness::{Simulation, create, name};
use crate::simulation::scripted_cloud::{Call, scripted};

fn provider_id(claim: &NodeClaim) -> String {
    let status = claim.status.as_ref();
    status
        .and_then(|status| status.provider_id.clone())
        .expect("it is launched")
}

async fn set_provider_id(simulation: &Simulation, claim: &NodeClaim, id: &str) {
    let api: Api<NodeClaim> = Api::all(simulation.client());
    let patch = Patch::Merge(json!({"status": {"providerID": id}}));
    let patched = api.patch_status(&name(claim), &PatchParams::default(), &patch).await;
    patched.expect("patched");
}

/// How many claims say that something is wrong with them.
async fn inconsistent(simulation: &Simulation) -> usize {
    let claims = simulation.claims().await;
    let says_so = |claim: &&NodeClaim| {
        let found = claim.condition("ConsistentStateFound");
        found.is_some_and(|found| found.is_false() && found.reason() == "ConsistencyCheckFailed")
    };
    claims.iter().filter(says_so).count()
}

/// The claims about which a fault was reported, each with the fault.
async fn told(simulation: &Simulation) -> Vec<(String, String)> {
    let events = simulation.events("FailedConsistencyCheck").await;
    let told = events.into_iter().map(|event| {
        let name = event.involved_object.name.unwrap_or_default();
        (name, event.message.unwrap_or_default())
    });
    told.collect()
}

// LIF-135
#[tokio::test(start_paused = true)]
async fn a_claim_that_names_another_ones_instance_ends_neither() {
    let simulation = with_nodes(2, json!({"disruption": {"consolidateAfter": "0s"}})).await;
    let before = staying(&simulation).await;
    let claims = simulation.claims().await;
    let (own, id) = (provider_id(&claims[0]), provider_id(&claims[1]));
    set_provider_id(&simulation, &claims[0], &id).await;
    simulation
        .until("both say so", 10, async |s| inconsistent(s).await == 2)
        .await;
    let events = told(&simulation).await;
    for (claim, other) in [(0, 1), (1, 0)] {
        let text = format!("provider id {id} is also that of NodeClaim {}: ", name(&claims[other]));
        let is_told = |(on, message): &(String, String)| *on == name(&claims[claim]) && message.starts_with(&text);
        assert!(events.iter().any(is_told), "{events:?}");
    }
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(staying(&simulation).await, before);
    assert_eq!(simulation.running().await, 2);
    goes_on(&simulation).await;
    set_provider_id(&simulation, &claims[0], &own).await;
    simulation
        .until("all is well", 10, async |s| inconsistent(s).await == 0)
        .await;
    simulation.stop().await;
}

// DIS-022, LIF-125: nothing is known of what runs on it (docs/deviations.md).
#[tokio::test(start_paused = true)]
async fn a_machine_with_two_healthy_nodes_is_not_disrupted() {
    let pool = json!({"template": {"spec": {"expireAfter": "1h"}}, "disruption": {"consolidateAfter": "0s"}});
    let simulation = with_nodes(1, pool).await;
    let node = simulation.nodes().await.remove(0);
    let claim = simulation.claims().await.remove(0);
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let twin = json!({"metadata": {"name": "twin", "labels": labels}, "spec": {"providerID": provider_id(&claim)}});
    create::<Node>(&simulation.client(), twin).await;
    let api: Api<Node> = Api::all(simulation.client());
    let status = Patch::Merge(json!({"status": node.status}));
    api.patch_status("twin", &PatchParams::default(), &status)
        .await
        .expect("patched");
    simulation
        .until("it is told", 300, async |s| {
            let told = s.messages("DisruptionBlocked").await;
            told.iter()
                .any(|text| text == "Several Nodes or NodeClaims have its provider id")
        })
        .await;
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    let after = simulation.claims().await;
    let same = |other: &&NodeClaim| other.metadata.uid == claim.metadata.uid;
    let kept = after.iter().find(same).expect("the claim stays");
    assert!(kept.metadata.deletion_timestamp.is_none());
    assert_eq!(simulation.running().await, 1);
    // With one of them it is as old as it is.
    simulation.delete::<Node>("twin").await;
    simulation
        .until("it expires", 7200, async |s| {
            let claims = s.claims().await;
            claims.iter().all(|other| other.metadata.uid != claim.metadata.uid)
        })
        .await;
    simulation.stop().await;
}

// LIF-135
#[tokio::test(start_paused = true)]
async fn a_second_node_of_a_running_instance_ends_neither() {
    let simulation = with_nodes(1, json!({})).await;
    let node = simulation.nodes().await.remove(0);
    let before = simulation.claims().await.remove(0);
    let id = provider_id(&before);
    let labels = node.metadata.labels.clone().unwrap_or_default();
    create::<Node>(
        &simulation.client(),
        json!({"metadata": {"name": "renamed", "labels": labels}, "spec": {"providerID": id}}),
    )
    .await;
    simulation
        .until("the claim says so", 10, async |s| inconsistent(s).await == 1)
        .await;
    let events = told(&simulation).await;
    let (on, message) = &events[0];
    assert_eq!((events.len(), on), (1, &name(&before)));
    let names = [format!("{}, renamed", name(&node)), format!("renamed, {}", name(&node))];
    assert!(
        names
            .iter()
            .any(|names| message.contains(&format!(" is that of several Nodes, {names}: "))),
        "{message}"
    );
    tokio::time::sleep(Duration::from_secs(1800)).await;
    let after = simulation.claims().await;
    assert!(
        after
            .iter()
            .any(|claim| claim.metadata.uid == before.metadata.uid && claim.metadata.deletion_timestamp.is_none())
    );
    assert_eq!(simulation.nodes().await.len(), 2);
    assert_eq!(simulation.running().await, 1);
    goes_on(&simulation).await;
    simulation.stop().await;
}

// LIF-082: which of them it is cannot be known.
#[tokio::test(start_paused = true)]
async fn a_node_of_several_claims_ends_none_of_them() {
    let (simulation, script) = scripted().await;
    simulation.populate(2, json!({})).await;
    let claims = simulation.claims().await;
    let (first, id) = (provider_id(&claims[0]), provider_id(&claims[1]));
    let nodes = simulation.nodes().await;
    let of = |id: &str| {
        let is_its = |node: &&Node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id);
        nodes.iter().find(is_its).cloned().expect("a node")
    };
    let shared = of(&id);
    set_provider_id(&simulation, &claims[0], &id).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    simulation.delete::<Node>(&name(&shared)).await;
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    while simulation.current_node(&shared).await.is_some() {
        assert!(tokio::time::Instant::now() < end, "{}", simulation.picture().await);
        assert_eq!(script.count(Call::Delete), 0, "its instance is not ended");
        for claim in simulation.claims().await {
            assert_eq!(claim.metadata.deletion_timestamp, None, "{}", name(&claim));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(
        simulation.events("Evicted").await.len(),
        1,
        "it is drained all the same"
    );
    assert!(simulation.current_node(&of(&first)).await.is_some());
    simulation.stop().await;
}
