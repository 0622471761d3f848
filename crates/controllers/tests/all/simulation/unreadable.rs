//! Objects that admission accepts and Kerf cannot read: an event says what to correct, the last readable state counts, and everything else goes
//! on.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kerf_api::{NodeClaim, NodePool, NodeRepairPolicy};
use kerf_apiserver::ResponseBody;
use kerf_sandbox::Sandbox;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::ServiceBuilder;

use crate::objects::create_in;
use crate::simulation::emptiness::tainted;
use crate::simulation::hand_edited::{goes_on, staying, with_nodes};
use crate::simulation::harness::{Simulation, name};

/// Longer than anyone counts.
const ENDLESS: &str = "99999999999999h";

/// A label of this value is a number in the answers that controllers with a [`garbled`] client get. A label cannot be one, so they cannot read the
/// object.
const ILLEGIBLE: &str = r#""legible":"no""#;

/// A client for controllers, to whom the objects labelled `legible=no` cannot be read. No API server holds such objects of a built-in kind, unless
/// it is of a later version.
fn garbled(sandbox: &Sandbox) -> Client {
    let garble = |data: Bytes| -> Bytes {
        let text = String::from_utf8_lossy(&data);
        // As long as before.
        text.replace(ILLEGIBLE, r#""legible":7   "#).into()
    };
    let service = ServiceBuilder::new()
        .map_response(move |answer: Response<ResponseBody>| {
            answer.map(|body| body.map_frame(move |frame| frame.map_data(garble)))
        })
        .service(sandbox.api().clone());
    Client::new(service, "default")
}

/// The same cluster with controllers that cannot read objects labelled `legible=no`, of which `object` is one.
async fn beside<K>(simulation: Simulation, object: Value) -> Simulation
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Clone + Debug,
{
    let sandbox = simulation.crash().await;
    let mut object = object;
    object["metadata"] = json!({"name": "odd", "labels": {"legible": "no"}});
    create_in::<K>(&sandbox.client(), "default", object).await;
    let client = garbled(&sandbox);
    Simulation::join_as(sandbox, client, |_| {})
}

/// The kinds of objects whose `DisruptionBlocked` begins so.
async fn blocked(simulation: &Simulation, why: &str) -> Vec<String> {
    let events = simulation.events("DisruptionBlocked").await.into_iter();
    let told = events.filter(|event| event.message.as_deref().unwrap_or_default().starts_with(why));
    let kinds: BTreeSet<String> = told.filter_map(|event| event.involved_object.kind).collect();
    kinds.into_iter().collect()
}

/// A pod on a node, for [`beside`].
fn pod_on(node: &str) -> Value {
    let requests = json!({"cpu": "100m"});
    json!({"spec": {"nodeName": node, "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]}})
}

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

// DIS-034 as docs/deviations.md has it
#[tokio::test(start_paused = true)]
async fn a_node_with_a_pod_nobody_can_read_is_not_taken_for_empty() {
    let simulation = with_nodes(2, json!({"disruption": {"consolidateAfter": "0s"}})).await;
    let nodes = simulation.nodes().await;
    let simulation = beside::<Pod>(simulation, pod_on(&name(&nodes[0]))).await;
    is_told(&simulation, "Pod", "odd", "metadata.labels.legible").await;
    simulation.scale("web", 0).await;
    simulation.until_node_gone(&nodes[1], 120).await;
    // What kept the node before was reported under the same key, which is good for two minutes (DIS-289).
    simulation.node_stays(&nodes[0], 180).await;
    assert_eq!(tainted(&simulation).await, 0);
    let why = "Pod default/odd, which may protect it, cannot be read: metadata.labels.legible: ";
    assert_eq!(blocked(&simulation, why).await, ["Node", "NodeClaim"]);
    let pods: Api<Pod> = Api::namespaced(simulation.client(), "default");
    pods.delete("odd", &DeleteParams::default().grace_period(0))
        .await
        .expect("deleted");
    simulation.until_node_gone(&nodes[0], 60).await;
    simulation.stop().await;
}

// DIS-037 as docs/deviations.md has it
#[tokio::test(start_paused = true)]
async fn a_node_whose_pods_a_budget_may_cover_that_nobody_can_read_stays() {
    let simulation = with_nodes(1, json!({})).await;
    let node = simulation.nodes().await.remove(0);
    let budget = json!({"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let simulation = beside::<PodDisruptionBudget>(simulation, budget).await;
    is_told(&simulation, "PodDisruptionBudget", "odd", "metadata.labels.legible").await;
    simulation.change_template("2").await;
    simulation.node_stays(&node, 300).await;
    assert_eq!(simulation.claims().await.len(), 1, "nothing replaces it");
    let why = "PodDisruptionBudget default/odd, which may protect it, cannot be read: metadata.labels.legible: ";
    assert_eq!(blocked(&simulation, why).await, ["Node", "NodeClaim"]);
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(simulation.client(), "default");
    let legible = Patch::Merge(json!({"metadata": {"labels": {"legible": "yes"}}}));
    let patched = budgets.patch("odd", &PatchParams::default(), &legible).await;
    patched.expect("patched");
    simulation.until_node_gone(&node, 300).await;
    simulation.stop().await;
}

// LIF-086 as docs/deviations.md has it
#[tokio::test(start_paused = true)]
async fn a_pod_nobody_can_read_keeps_its_machine_until_it_has_ended() {
    let simulation = with_nodes(1, json!({})).await;
    let node = simulation.nodes().await.remove(0);
    let simulation = beside::<Pod>(simulation, pod_on(&name(&node))).await;
    is_told(&simulation, "Pod", "odd", "metadata.labels.legible").await;
    simulation.scale("web", 0).await;
    simulation.delete::<Node>(&name(&node)).await;
    simulation.node_stays(&node, 120).await;
    let pods: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    let patched = pods.patch_status("odd", &PatchParams::default(), &ended).await;
    patched.expect("patched");
    simulation.until_node_gone(&node, 60).await;
    simulation.stop().await;
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
