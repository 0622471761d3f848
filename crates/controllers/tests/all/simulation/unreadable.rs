//! Objects that admission accepts and Kerf cannot read: an event says what to correct, the last readable state counts, and everything else goes
//! on.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kerf_api::{NodeClaim, NodePool, NodeRepairPolicy};
use kube::Api;
use kube::Resource;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ClusterResourceScope;
use serde_json::{Value, json};

use crate::simulation::hand_edited::{goes_on, staying, with_nodes};
use crate::simulation::harness::{Simulation, name};

/// Longer than anyone counts.
const ENDLESS: &str = "99999999999999h";

/// The API of a kind for objects its type here cannot hold.
fn raw<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(simulation: &Simulation) -> Api<DynamicObject> {
    Api::all_with(simulation.client(), &ApiResource::erase::<K>(&()))
}

async fn patch(api: &Api<DynamicObject>, name: &str, patch: Value) {
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.expect("admitted");
}

/// What is reported about objects that cannot be read.
async fn told(simulation: &Simulation) -> Vec<Event> {
    simulation.events("InvalidObject").await
}

/// Waits until an event on one object says what is wrong with a field.
async fn is_told(simulation: &Simulation, kind: &str, name: &str, field: &str) {
    let says_so = |event: &Event| {
        let object = &event.involved_object;
        object.kind.as_deref() == Some(kind)
            && object.name.as_deref() == Some(name)
            && object.uid.is_some()
            && event.type_.as_deref() == Some("Warning")
            && event
                .message
                .as_deref()
                .unwrap_or_default()
                .starts_with(&format!("{field}: "))
    };
    simulation
        .until("it is told", 10, async |s| told(s).await.iter().any(says_so))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_nobody_can_read_is_told_so_and_stops_no_other() {
    let simulation = with_nodes(1, json!({})).await;
    let endless = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "endless"},
        "spec": {
            "disruption": {"consolidateAfter": ENDLESS},
            "template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            }},
        },
    });
    let api = raw::<NodePool>(&simulation);
    let endless = serde_json::from_value(endless).expect("an object");
    api.create(&PostParams::default(), &endless).await.expect("admitted");
    is_told(&simulation, "NodePool", "endless", "spec.disruption.consolidateAfter").await;
    let before = staying(&simulation).await;
    goes_on(&simulation).await;
    // It is reported again every ten minutes.
    tokio::time::sleep(Duration::from_secs(1200)).await;
    let events = told(&simulation).await;
    assert_eq!((events.len(), events[0].count), (1, Some(3)), "{events:?}");
    let message = events[0].message.clone().unwrap_or_default();
    assert!(
        message.contains("is out of range; the longest is about 292 years. Correct it: "),
        "{message}"
    );
    let after = staying(&simulation).await;
    assert!(before.1.iter().all(|node| after.1.contains(node)));
    // Once it is corrected nothing more is reported.
    patch(
        &api,
        "endless",
        json!({"spec": {"disruption": {"consolidateAfter": "1h"}}}),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(told(&simulation).await[0].count, Some(3));
    assert!(simulation.context.cluster.pool("endless").is_some());
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_becomes_unreadable_keeps_its_nodes_as_they_were() {
    let simulation = with_nodes(2, json!({"disruption": {"consolidateAfter": "0s"}})).await;
    let before = staying(&simulation).await;
    let template = json!({"spec": {"template": {
        "metadata": {"labels": {"generation": "2"}},
        "spec": {"expireAfter": ENDLESS},
    }}});
    patch(&raw::<NodePool>(&simulation), "web", template).await;
    is_told(&simulation, "NodePool", "web", "spec.template.spec.expireAfter").await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    // Neither has its node drifted nor is the pool taken for deleted.
    assert_eq!(staying(&simulation).await, before);
    goes_on(&simulation).await;
    // Nor is it after a restart, which finds it unreadable from the first list on.
    let simulation = Simulation::join(simulation.crash().await, |_| {});
    let before = staying(&simulation).await;
    is_told(&simulation, "NodePool", "web", "spec.template.spec.expireAfter").await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(staying(&simulation).await, before);
    assert_eq!(simulation.running().await, 3);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_nobody_can_read_keeps_its_machine() {
    let simulation = with_nodes(2, json!({})).await;
    let before = staying(&simulation).await;
    let claim = name(&simulation.claims().await[0]);
    // Status has no limits of its own.
    let mangled = json!({"status": {"capacity": {"cpu": "1e1.5"}}});
    let api = raw::<NodeClaim>(&simulation);
    let patched = api
        .patch_status(&claim, &PatchParams::default(), &Patch::Merge(mangled))
        .await;
    patched.expect("admitted");
    let simulation = Simulation::join(simulation.crash().await, |_| {});
    is_told(&simulation, "NodeClaim", &claim, "status.capacity.cpu").await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    let nodes = simulation.nodes().await;
    let nodes: Vec<String> = nodes.into_iter().filter_map(|node| node.metadata.uid).collect();
    assert_eq!(nodes, before.1);
    assert_eq!(simulation.running().await, 2);
    simulation.stop().await;
}

// The CRD of another version of Kerf may allow values that this one cannot represent.
#[tokio::test(start_paused = true)]
async fn a_repair_policy_nobody_can_read_is_told_so() {
    let simulation = with_nodes(1, json!({})).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(simulation.client());
    let mut definition = definitions.get("noderepairpolicies.kerf.sh").await.expect("there");
    let version = definition.spec.versions.first_mut().expect("a version");
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    version.schema = serde_json::from_value(json!({"openAPIV3Schema": anything})).expect("a schema");
    let options = PostParams::default();
    let replaced = definitions
        .replace("noderepairpolicies.kerf.sh", &options, &definition)
        .await;
    replaced.expect("admitted");
    let policy = json!({
        "apiVersion": "kerf.sh/v1alpha1", "kind": "NodeRepairPolicy", "metadata": {"name": "gpu"},
        "spec": {"unhealthyConditions": "GpuReady=False"},
    });
    let policy = serde_json::from_value(policy).expect("an object");
    let policies = raw::<NodeRepairPolicy>(&simulation);
    policies.create(&options, &policy).await.expect("admitted");
    is_told(&simulation, "NodeRepairPolicy", "gpu", "spec.unhealthyConditions").await;
    goes_on(&simulation).await;
    simulation.stop().await;
}
