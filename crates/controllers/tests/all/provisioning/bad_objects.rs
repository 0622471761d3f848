//! One bad object never blocks the others: each kind of bad object beside pods that are fine.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kerf_api::{Conditioned, KwokNodeClass, NodeOverlay, NodePool};
use serde_json::{Value, json};

use crate::simulation::harness::{Simulation, create, list};

fn ours(event: &Event) -> bool {
    event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("karpenter")
}

/// Messages about objects whose names begin so.
async fn told(simulation: &Simulation, about: &str) -> Vec<String> {
    let events = simulation.events("FailedScheduling").await.into_iter();
    let of = |event: &Event| {
        ours(event)
            && event
                .involved_object
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with(about))
    };
    events.filter(of).filter_map(|event| event.message).collect()
}

/// Pods that fit nowhere beside a Deployment that is fine. Returns what is reported about the former.
async fn beside(bad: Value) -> Vec<String> {
    let simulation = Simulation::with_pool(json!({})).await;
    simulation.deployment("bad", 3, "1", bad).await;
    simulation.deployment("fine", 5, "1", json!({})).await;
    simulation.until_running(5, 60).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let messages = told(&simulation, "bad").await;
    assert!(told(&simulation, "fine").await.is_empty());
    simulation.stop().await;
    messages
}

fn needs(expression: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [expression]}]}}}})
}

// SCH-024, SCH-470
#[tokio::test(start_paused = true)]
async fn a_bad_pod_keeps_nobody_waiting() {
    let volume = |claim: &str| json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]});
    let many: Vec<String> = (0..10_000).map(|n| format!("v{n}")).collect();
    let poison = [
        (
            "unknown karpenter label",
            needs(&json!({"key": "karpenter.sh/unheard-of", "operator": "Exists"})),
        ),
        ("volume claim that is missing", volume("nowhere")),
        (
            "more than any machine has",
            json!({"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1000000"}}}]}),
        ),
        (
            "ten thousand values",
            needs(&json!({"key": "corp.example/shard", "operator": "In", "values": many})),
        ),
        (
            "a label nobody has",
            json!({"nodeSelector": {"corp.example/rack": "7"}}),
        ),
        (
            "two zones at once",
            json!({"nodeSelector": {"topology.kubernetes.io/zone": "test-zone-a"},
            "affinity": needs(&json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"]}))["affinity"]}),
        ),
        (
            "a zone that is not there",
            json!({"nodeSelector": {"topology.kubernetes.io/zone": "atlantis"}}),
        ),
        (
            "affinity to nobody",
            json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "ghost"}}}]}}}),
        ),
        (
            "another CPU",
            needs(&json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["100000"]})),
        ),
    ];
    for (what, bad) in poison {
        let messages = beside(bad).await;
        assert_eq!(messages.len(), 3, "{what}: {messages:?}");
        assert!(
            messages
                .iter()
                .all(|message| message.starts_with("Failed to schedule pod, ")),
            "{what}: {messages:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_pool_or_class_keeps_nobody_waiting() {
    let simulation = Simulation::start().await;
    let none = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["there-is-none"]}]);
    simulation
        .pool(
            "excludes-all",
            json!({"weight": 90, "template": {"spec": {"requirements": none}}}),
        )
        .await;
    let lost = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "lost"});
    simulation
        .pool(
            "no-class",
            json!({"weight": 80, "template": {"spec": {"nodeClassRef": lost}}}),
        )
        .await;
    let foreign = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    simulation
        .pool(
            "foreign",
            json!({"weight": 70, "template": {"spec": {"nodeClassRef": foreign}}}),
        )
        .await;
    simulation
        .pool("full", json!({"weight": 60, "limits": {"cpu": "0"}}))
        .await;
    let greedy = json!([{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 50},
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2"], "minValues": 1}]);
    simulation
        .pool(
            "too-choosy",
            json!({"weight": 50, "template": {"spec": {"requirements": greedy}}}),
        )
        .await;
    simulation.pool("web", json!({})).await;
    simulation.deployment("fine", 5, "1", json!({})).await;
    simulation.until_running(5, 60).await;
    for claim in simulation.claims().await {
        let name = claim.metadata.name.unwrap_or_default();
        assert!(name.starts_with("web-"), "{name}");
    }
    let pools: Vec<NodePool> = list(&simulation.client()).await;
    let ready = |name: &str| {
        let pool = pools
            .iter()
            .find(|pool| pool.metadata.name.as_deref() == Some(name))
            .expect("there");
        pool.condition_is_true("Ready")
    };
    assert_eq!((ready("web"), ready("no-class")), (true, false));
    assert!(!simulation.events("NoCompatibleInstanceTypes").await.is_empty());
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_overlay_keeps_nobody_waiting() {
    let simulation = Simulation::start_with(|options| options.feature_gates.node_overlay = true).await;
    let amd = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    let overlays = [
        ("conflict-a", json!({"requirements": amd, "price": "1"})),
        ("conflict-b", json!({"requirements": amd, "price": "2"})),
        (
            "for-nothing",
            json!({"requirements": [{"key": "corp.example/rack", "operator": "In", "values": ["7"]}], "price": "0"}),
        ),
        (
            "everything-free",
            json!({"requirements": [{"key": "kubernetes.io/arch", "operator": "Exists"}], "priceAdjustment": "-100%", "weight": 7}),
        ),
    ];
    for (name, spec) in overlays {
        create::<NodeOverlay>(&simulation.client(), json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    simulation.pool("web", json!({})).await;
    simulation.deployment("fine", 5, "1", json!({})).await;
    simulation.until_running(5, 60).await;
    let overlays: Vec<NodeOverlay> = list(&simulation.client()).await;
    let valid: Vec<&str> = overlays
        .iter()
        .filter(|overlay| overlay.condition_is_true("ValidationSucceeded"))
        .filter_map(|overlay| overlay.metadata.name.as_deref())
        .collect();
    assert_eq!(valid, ["conflict-b", "everything-free", "for-nothing"]);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_zone_of_one_pool_empties_no_domain_of_another() {
    let simulation = Simulation::start().await;
    // A zone no type offers would hold the minimum of every spread at zero.
    let atlantis = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["atlantis"]}]);
    simulation
        .pool("lost", json!({"template": {"spec": {"requirements": atlantis}}}))
        .await;
    simulation.pool("web", json!({})).await;
    create::<KwokNodeClass>(
        &simulation.client(),
        json!({"metadata": {"name": "unused"}, "spec": {}}),
    )
    .await;
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "fine"}}}]});
    simulation.deployment("fine", 12, "1", spread).await;
    simulation.until_running(12, 90).await;
    simulation.stop().await;
}
