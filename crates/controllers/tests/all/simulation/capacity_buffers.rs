//! CapacityBuffers: nodes with room for future pods.

use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, PodTemplate};
use kerf_api::{CapacityBuffer, NodeClaim, NodePool};
use kerf_runtime::metrics::catalogue::SCHEDULING_DURATION;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::simulation::api_faults::{CallFault, with_api_faults};
use crate::simulation::harness::{Simulation, list_in, name};
use crate::simulation::logs::Logs;

/// A cluster with the gate on and a pool of types with two cpus, which have room for one replica of [`template`] each (KWK-141).
async fn start(pool: Value) -> Simulation {
    let simulation = Simulation::start_with(|options| options.feature_gates.capacity_buffer = true).await;
    let types = json!([{
        "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-2x-amd64-linux", "c-2x-arm64-linux"],
    }]);
    let mut spec = json!({
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
        "template": {"spec": {"requirements": types}},
    });
    json_patch(&mut spec, &pool);
    simulation.pool("web", spec).await;
    // KWK-141: a pool alone leads to no machine.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(simulation.claims().await.is_empty());
    simulation
}

fn json_patch(into: &mut Value, from: &Value) {
    match from {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| json_patch(&mut into[key], value)),
        other => *into = other.clone(),
    }
}

async fn create<K>(simulation: &Simulation, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + DeserializeOwned
        + serde::Serialize
        + Clone
        + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).expect("an object");
    let api: Api<K> = Api::namespaced(simulation.client(), "default");
    api.create(&PostParams::default(), &object).await.expect("created");
}

fn pod_spec(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}}}]})
}

async fn template(simulation: &Simulation, spec: Value) {
    let template = json!({"metadata": {"labels": {"app": "spare"}}, "spec": spec});
    create::<PodTemplate>(simulation, json!({"metadata": {"name": "spare"}, "template": template})).await;
}

/// A buffer `name` of the PodTemplate `spare`.
async fn buffer(simulation: &Simulation, name: &str, spec: Value) {
    let mut all = json!({"podTemplateRef": {"name": "spare"}});
    json_patch(&mut all, &spec);
    create::<CapacityBuffer>(simulation, json!({"metadata": {"name": name}, "spec": all})).await;
}

/// A buffer `spare` of the Deployment `web`.
async fn scalable(simulation: &Simulation, spec: Value) {
    let mut all = json!({"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}});
    json_patch(&mut all, &spec);
    create::<CapacityBuffer>(simulation, json!({"metadata": {"name": "spare"}, "spec": all})).await;
}

async fn deployment(simulation: &Simulation, replicas: i32, spec: Value) {
    let labels = json!({"app": "web"});
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}});
    create::<Deployment>(simulation, json!({"metadata": {"name": "web"}, "spec": spec})).await;
}

async fn patch<K>(simulation: &Simulation, name: &str, patch: Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(simulation.client(), "default");
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.expect("patched");
}

async fn status(simulation: &Simulation, name: &str) -> kerf_api::CapacityBufferStatus {
    let api: Api<CapacityBuffer> = Api::namespaced(simulation.client(), "default");
    api.get(name).await.expect("a buffer").status.unwrap_or_default()
}

/// `status reason: message` of a condition.
async fn condition(simulation: &Simulation, name: &str, kind: &str) -> String {
    let conditions = status(simulation, name).await.conditions;
    let found = conditions.iter().find(|condition| condition.type_ == kind);
    found.map_or_else(String::new, |one| {
        format!("{} {}: {}", one.status, one.reason(), one.message())
    })
}

// KWK-104: the suites' patience, here and below.
async fn until_provisioned(simulation: &Simulation, buffer: &str) {
    simulation
        .until("the room exists", 120, async |s| {
            condition(s, buffer, "Provisioning")
                .await
                .starts_with("True FitsExistingCapacity")
        })
        .await;
}

async fn until_replicas(simulation: &Simulation, expected: i32) {
    simulation
        .until("the replicas", 30, async |s| {
            status(s, "spare").await.replicas == Some(expected)
        })
        .await;
}

/// Asserts that no event is about a virtual pod.
async fn assert_nothing_about_virtual_pods(simulation: &Simulation) {
    for reason in ["Nominated", "FailedScheduling"] {
        let events = simulation.events(reason).await;
        let names: Vec<&str> = events
            .iter()
            .filter_map(|event| event.involved_object.name.as_deref())
            .collect();
        assert!(
            !names.iter().any(|name| name.starts_with("capacity-buffer-")),
            "{names:?}"
        );
    }
}

/// The uids of the claims that are not being deleted.
async fn claims(simulation: &Simulation) -> Vec<String> {
    let claims = simulation.claims().await.into_iter();
    let staying = claims.filter(|claim| claim.metadata.deletion_timestamp.is_none());
    staying.filter_map(|claim| claim.metadata.uid).collect()
}

// KWK-142, SCH-386, SCH-388, SCH-389, SCH-391, SCH-036, SCH-073, SCH-327, API-216, API-222
#[tokio::test(start_paused = true)]
async fn room_for_a_template_is_provisioned_without_a_pod() {
    let simulation = start(json!({})).await;
    template(&simulation, pod_spec("1")).await;
    buffer(&simulation, "spare", json!({"replicas": 3})).await;
    until_provisioned(&simulation, "spare").await;
    let status = status(&simulation, "spare").await;
    assert_eq!(status.replicas, Some(3));
    assert_eq!(
        status.pod_template_ref.map(|reference| reference.name).as_deref(),
        Some("spare")
    );
    assert!(status.pod_template_generation.is_some());
    assert_eq!(
        status.provisioning_strategy.as_deref(),
        Some("buffer.x-k8s.io/active-capacity")
    );
    assert_eq!(simulation.nodes().await.len(), 3, "one replica per node");
    assert!(list_in::<Pod>(&simulation.client(), "default").await.is_empty());
    let told = simulation.events("Nominated").await.len() + simulation.events("FailedScheduling").await.len();
    assert_eq!(told, 0);
    // KWK-149, SCH-394, DIS-152, LIF-206: the nodes are empty and stay.
    let before = claims(&simulation).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(claims(&simulation).await, before);
    let texts = simulation.messages("Unconsolidatable").await;
    assert!(texts.iter().any(|text| text.ends_with("has buffer pods")), "{texts:?}");
    simulation.stop().await;
}

// KWK-150, SCH-390
#[tokio::test(start_paused = true)]
async fn nodes_of_a_deleted_buffer_go() {
    let simulation = start(json!({})).await;
    template(&simulation, pod_spec("1")).await;
    buffer(&simulation, "spare", json!({"replicas": 2})).await;
    until_provisioned(&simulation, "spare").await;
    let api: Api<CapacityBuffer> = Api::namespaced(simulation.client(), "default");
    api.delete("spare", &DeleteParams::default()).await.expect("deleted");
    simulation.until_nodes(0, 180).await;
    simulation.stop().await;
}

// KWK-143
#[tokio::test(start_paused = true)]
async fn a_changed_template_is_resolved_again() {
    let simulation = start(json!({})).await;
    template(&simulation, pod_spec("1")).await;
    buffer(&simulation, "spare", json!({"replicas": 1})).await;
    until_provisioned(&simulation, "spare").await;
    let before = status(&simulation, "spare").await.pod_template_generation;
    patch::<PodTemplate>(&simulation, "spare", json!({"template": {"spec": pod_spec("500m")}})).await;
    // SCH-384: at once, not after 30 seconds.
    simulation
        .until("the new generation", 3, async |s| {
            status(s, "spare").await.pod_template_generation > before
        })
        .await;
    simulation.stop().await;
}

// KWK-144, KWK-153, SCH-381, SCH-383, API-223
#[tokio::test(start_paused = true)]
async fn a_percentage_follows_the_workload() {
    let simulation = start(json!({})).await;
    deployment(&simulation, 10, pod_spec("1")).await;
    scalable(&simulation, json!({"percentage": 20})).await;
    until_replicas(&simulation, 2).await;
    let found = status(&simulation, "spare").await;
    assert!(found.pod_template_ref.is_none() && found.pod_template_generation.is_none());
    patch::<Deployment>(&simulation, "web", json!({"spec": {"replicas": 5}})).await;
    until_replicas(&simulation, 1).await;
    patch::<Deployment>(&simulation, "web", json!({"spec": {"replicas": 20}})).await;
    until_replicas(&simulation, 4).await;
    simulation.stop().await;
}

// KWK-145, KWK-152
#[tokio::test(start_paused = true)]
async fn replicas_of_a_buffer_can_be_fixed_and_lowered() {
    let simulation = start(json!({})).await;
    deployment(&simulation, 1, pod_spec("1")).await;
    scalable(&simulation, json!({"replicas": 3})).await;
    until_replicas(&simulation, 3).await;
    until_provisioned(&simulation, "spare").await;
    patch::<CapacityBuffer>(&simulation, "spare", json!({"spec": {"replicas": 1}})).await;
    until_replicas(&simulation, 1).await;
    simulation.until_nodes(2, 300).await;
    simulation.stop().await;
}

// KWK-146, SCH-382, SCH-384
#[tokio::test(start_paused = true)]
async fn a_workload_may_come_after_its_buffer() {
    let simulation = start(json!({})).await;
    scalable(&simulation, json!({"replicas": 1})).await;
    simulation
        .until("it is missed", 10, async |s| {
            condition(s, "spare", "ReadyForProvisioning")
                .await
                .starts_with("False ScalableRefNotFound")
        })
        .await;
    assert!(simulation.claims().await.is_empty());
    deployment(&simulation, 1, pod_spec("1")).await;
    simulation
        .until("it is found", 30, async |s| {
            condition(s, "spare", "ReadyForProvisioning").await == "True Resolved: Pod template resolved successfully"
        })
        .await;
    until_provisioned(&simulation, "spare").await;
    simulation.stop().await;
}

// SCH-380, SCH-382, API-213
#[tokio::test(start_paused = true)]
async fn references_that_lead_nowhere_are_named() {
    let simulation = start(json!({})).await;
    template(&simulation, pod_spec("1")).await;
    for (buffer, spec, expected) in [
        (
            "none",
            json!({}),
            "False ResolutionFailed: Neither podTemplateRef nor scalableRef is set",
        ),
        (
            "template",
            json!({"replicas": 1, "podTemplateRef": {"name": "absent"}}),
            "False PodTemplateNotFound: podtemplates \"absent\" not found",
        ),
        (
            "group",
            json!({"replicas": 1, "scalableRef": {"apiGroup": "batch", "kind": "Job", "name": "x"}}),
            "False ResolutionFailed: unsupported scalableRef API group \"batch\"",
        ),
        (
            "size",
            json!({"replicas": 2_000_000_000, "podTemplateRef": {"name": "spare"}}),
            "False ResolutionFailed: 2000000000 virtual pods are asked for; at most 10000 are kept. Lower spec.replicas",
        ),
        (
            "kind",
            json!({"replicas": 1, "scalableRef": {"kind": "DaemonSet", "name": "x"}}),
            "False ResolutionFailed: unsupported kind \"DaemonSet\"",
        ),
    ] {
        create::<CapacityBuffer>(&simulation, json!({"metadata": {"name": buffer}, "spec": spec})).await;
        simulation
            .until(expected, 10, async |s| {
                condition(s, buffer, "ReadyForProvisioning").await.starts_with(expected)
            })
            .await;
    }
    // SCH-379
    let foreign =
        json!({"provisioningStrategy": "example.com/other", "scalableRef": {"kind": "Deployment", "name": "x"}});
    create::<CapacityBuffer>(&simulation, json!({"metadata": {"name": "foreign"}, "spec": foreign})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(status(&simulation, "foreign").await.conditions.is_empty());
    simulation.stop().await;
}

// KWK-147, KWK-148, SCH-395
#[tokio::test(start_paused = true)]
async fn a_pod_takes_the_room_and_it_is_made_again() {
    let simulation = start(json!({})).await;
    template(&simulation, pod_spec("1")).await;
    buffer(&simulation, "spare", json!({"replicas": 2})).await;
    until_provisioned(&simulation, "spare").await;
    simulation.until_initialized(60).await;
    let nodes = simulation.nodes().await.len();
    deployment(&simulation, 1, pod_spec("1")).await;
    // At once: no node had to start.
    simulation.until_running(1, 5).await;
    simulation.until_nodes(nodes + 1, 120).await;
    until_provisioned(&simulation, "spare").await;
    simulation.stop().await;
}

// KWK-151
#[tokio::test(start_paused = true)]
async fn nodes_with_room_drift_as_any() {
    let simulation = start(json!({})).await;
    template(&simulation, pod_spec("1")).await;
    buffer(&simulation, "spare", json!({"replicas": 2})).await;
    until_provisioned(&simulation, "spare").await;
    let before = claims(&simulation).await;
    let drifted = json!({"spec": {"template": {"metadata": {"annotations": {"generation": "2"}}}}});
    simulation.patch::<NodePool>("web", drifted).await;
    simulation
        .until("all are replaced", 600, async |s| {
            claims(s).await.iter().all(|claim| !before.contains(claim))
        })
        .await;
    until_provisioned(&simulation, "spare").await;
    // SCH-391: commands plan for virtual pods, too.
    assert_nothing_about_virtual_pods(&simulation).await;
    simulation.stop().await;
}

// KWK-155, KWK-157
#[tokio::test(start_paused = true)]
async fn each_buffer_has_its_own_room_and_shares_nodes_with_pods() {
    let simulation = start(json!({})).await;
    template(&simulation, pod_spec("1")).await;
    deployment(&simulation, 1, pod_spec("100m")).await;
    simulation.until_running(1, 60).await;
    buffer(&simulation, "one", json!({"replicas": 1})).await;
    until_provisioned(&simulation, "one").await;
    assert_eq!(simulation.claims().await.len(), 1, "the node of the pod has room");
    buffer(&simulation, "two", json!({"replicas": 1})).await;
    until_provisioned(&simulation, "two").await;
    until_provisioned(&simulation, "one").await;
    assert_eq!(simulation.claims().await.len(), 2);
    simulation.stop().await;
}

// KWK-156
#[tokio::test(start_paused = true)]
async fn buffers_that_come_and_go_leave_nothing() {
    let simulation = start(json!({})).await;
    template(&simulation, pod_spec("1")).await;
    let api: Api<CapacityBuffer> = Api::namespaced(simulation.client(), "default");
    for _ in 0..5 {
        buffer(&simulation, "spare", json!({"replicas": 1})).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        api.delete("spare", &DeleteParams::default()).await.expect("deleted");
    }
    simulation.until_claims(0, 120).await;
    simulation.stop().await;
}

// KWK-158, KWK-161
#[tokio::test(start_paused = true)]
async fn constraints_of_the_template_hold_for_its_room() {
    let simulation = start(json!({})).await;
    let mut spec = pod_spec("100m");
    spec["nodeSelector"] = json!({"kubernetes.io/arch": "arm64"});
    spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "spare"}}},
    ]}});
    // SCH-387: claims of volumes are left out.
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]);
    template(&simulation, spec).await;
    buffer(&simulation, "spare", json!({"replicas": 3})).await;
    until_provisioned(&simulation, "spare").await;
    let nodes = simulation.nodes().await;
    let arm = nodes.iter().filter(|node| {
        let labels = node.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels["kubernetes.io/arch"] == "arm64")
    });
    assert_eq!((nodes.len(), arm.count()), (3, 3));
    simulation.stop().await;
}

// KWK-162
#[tokio::test(start_paused = true)]
async fn room_for_a_workload_that_keeps_apart_is_on_nodes_of_its_own() {
    let simulation = start(json!({})).await;
    let mut spec = pod_spec("100m");
    spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}},
    ]}});
    deployment(&simulation, 2, spec).await;
    simulation.until_running(2, 60).await;
    scalable(&simulation, json!({"replicas": 2})).await;
    until_provisioned(&simulation, "spare").await;
    assert_eq!(
        (simulation.claims().await.len(), simulation.nodes().await.len()),
        (4, 4)
    );
    simulation.stop().await;
}

// KWK-154
#[tokio::test(start_paused = true)]
async fn the_limit_of_a_pool_ends_its_room() {
    let simulation = start(json!({"limits": {"cpu": "4"}})).await;
    // KWK-050: a node counts the two cpus of its type, not the one that its claim asks for (docs/deviations.md).
    template(&simulation, pod_spec("1")).await;
    buffer(&simulation, "spare", json!({"replicas": 10})).await;
    simulation.until_nodes(2, 120).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(
            (simulation.claims().await.len(), simulation.nodes().await.len()),
            (2, 2)
        );
    }
    simulation.stop().await;
}

/// How many provisioning passes planned something.
fn passes(simulation: &Simulation) -> u64 {
    let durations = simulation.context.metrics.histogram(&SCHEDULING_DURATION);
    durations.count(&["provisioner"])
}

// SCH-385
#[tokio::test(start_paused = true)]
async fn each_resolution_of_a_buffer_leads_to_a_pass() {
    let simulation = start(json!({})).await;
    buffer(
        &simulation,
        "lost",
        json!({"replicas": 1, "podTemplateRef": {"name": "absent"}}),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(passes(&simulation), 0, "it cannot be resolved");
    template(&simulation, pod_spec("1")).await;
    buffer(&simulation, "spare", json!({"replicas": 1})).await;
    until_provisioned(&simulation, "spare").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = passes(&simulation);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let more = passes(&simulation) - before;
    assert!((9..=11).contains(&more), "{more} passes, one every 30 seconds");
    simulation.stop().await;
}

// SCH-393
#[tokio::test(start_paused = true)]
async fn what_a_pass_found_is_written_before_its_claims_are_made_and_stops_nothing() {
    let logs = Logs::listen();
    let gate = |options: &mut kerf_runtime::Options| options.feature_gates.capacity_buffer = true;
    let (simulation, api_faults) = with_api_faults(start(json!({})).await, gate).await;
    api_faults.on(Method::POST, "/nodeclaims", CallFault::Refused(StatusCode::FORBIDDEN));
    template(&simulation, pod_spec("1")).await;
    buffer(&simulation, "spare", json!({"replicas": 1})).await;
    simulation
        .until("it is written", 30, async |s| {
            let condition = condition(s, "spare", "Provisioning").await;
            condition == "False RequiresNewCapacity: 1/1 virtual pods required new capacity, 0 failed"
        })
        .await;
    assert!(simulation.claims().await.is_empty());
    let conditions = status(&simulation, "spare").await.conditions;
    assert!(
        conditions.iter().all(|one| one.observed_generation == Some(1)),
        "{conditions:?}"
    );
    let refused = CallFault::Refused(StatusCode::INTERNAL_SERVER_ERROR);
    api_faults.on(Method::PATCH, "/capacitybuffers/spare/status", refused);
    simulation.until_nodes(1, 120).await;
    simulation
        .until("it is told", 60, async |_| {
            !logs
                .with("ERROR updating CapacityBuffer provisioning status CapacityBuffer=default/spare")
                .is_empty()
        })
        .await;
    simulation.stop().await;
}

// KWK-160, API-215
#[tokio::test(start_paused = true)]
async fn limits_alone_decide_how_much_room() {
    let simulation = start(json!({})).await;
    template(&simulation, pod_spec("1")).await;
    buffer(&simulation, "spare", json!({"limits": {"cpu": "2"}})).await;
    until_replicas(&simulation, 2).await;
    patch::<CapacityBuffer>(&simulation, "spare", json!({"spec": {"limits": {"cpu": "5"}}})).await;
    until_replicas(&simulation, 5).await;
    until_provisioned(&simulation, "spare").await;
    simulation.stop().await;
}

// KWK-159
#[tokio::test(start_paused = true)]
async fn room_on_a_node_that_expires_is_made_again() {
    let simulation = start(json!({"template": {"spec": {"expireAfter": "5m"}}})).await;
    template(&simulation, pod_spec("1")).await;
    buffer(&simulation, "spare", json!({"replicas": 1})).await;
    until_provisioned(&simulation, "spare").await;
    let first = simulation.claims().await.remove(0);
    simulation
        .until("it expires", 420, async |s| {
            let claims: Vec<NodeClaim> = s.claims().await;
            !claims
                .iter()
                .any(|claim| name(claim) == name(&first) && claim.metadata.deletion_timestamp.is_none())
        })
        .await;
    until_provisioned(&simulation, "spare").await;
    simulation.stop().await;
}
