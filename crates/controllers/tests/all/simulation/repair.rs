//! Nodes that stay unhealthy are replaced, unless too many are unhealthy.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kerf_api::{Conditioned, NodeClaim};
use kerf_runtime::metrics::catalogue::{NODECLAIMS_DISRUPTED, NODECLAIMS_UNHEALTHY_DISRUPTED};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::simulation::emptiness::apart;
use crate::simulation::harness::{Simulation, create, name};

pub(crate) async fn with_nodes(count: usize, repair: bool) -> Simulation {
    let simulation = Simulation::start_with(|options| options.feature_gates.node_repair = repair).await;
    // Pods that leave their unready nodes must not make the pool larger, and its fifth with it.
    simulation
        .pool("web", json!({"limits": {"nodes": count.to_string()}}))
        .await;
    let replicas = u32::try_from(count).expect("few");
    simulation.deployment("web", replicas, "1", apart("web")).await;
    simulation.until_running(count, 120).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    simulation
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_unready_is_replaced() {
    let simulation = with_nodes(1, true).await;
    let node = simulation.nodes().await.remove(0);
    simulation.set_kubelet(&node, Some("not-ready")).await;
    // LIF-146, LIF-148
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert!(simulation.current_node(&node).await.is_some());
    let claim = simulation.claims().await.remove(0);
    simulation.until_node_gone(&node, 120).await;
    simulation.until_running(1, 120).await;
    let labels = claim.metadata.labels.unwrap_or_default();
    let capacity_type = &labels["karpenter.sh/capacity-type"];
    let metrics = &simulation.context.metrics;
    // LIF-155, OPS-117, OPS-120
    assert_eq!(
        metrics
            .counter(&NODECLAIMS_DISRUPTED)
            .get(&["unhealthy", "web", capacity_type]),
        1.0
    );
    let image = claim.status.and_then(|status| status.image_id).unwrap_or_default();
    let unhealthy = metrics.counter(&NODECLAIMS_UNHEALTHY_DISRUPTED);
    assert_eq!(unhealthy.get(&["ready", "web", capacity_type, &image]), 1.0);
    let message = "Condition Ready is False for longer than 600s (the provider's rule): the node is replaced";
    assert_eq!(simulation.messages("NodeRepairStarted").await, [message; 2]);
    simulation.stop().await;
}

// LIF-156
#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_in_time_stays() {
    let simulation = with_nodes(1, true).await;
    let node = simulation.nodes().await.remove(0);
    simulation.set_kubelet(&node, Some("not-ready")).await;
    tokio::time::sleep(Duration::from_secs(540)).await;
    simulation.set_kubelet(&node, None).await;
    simulation.node_stays(&node, 300).await;
    simulation.stop().await;
}

// LIF-145
#[tokio::test(start_paused = true)]
async fn nothing_is_repaired_with_the_gate_off() {
    let simulation = with_nodes(1, false).await;
    let node = simulation.nodes().await.remove(0);
    simulation.set_kubelet(&node, Some("not-ready")).await;
    simulation.node_stays(&node, 1200).await;
    simulation.stop().await;
}

async fn two_become_unready_and_all_stay(simulation: &Simulation, nodes: &[Node]) {
    for node in &nodes[..2] {
        simulation.set_kubelet(node, Some("not-ready")).await;
    }
    tokio::time::sleep(Duration::from_secs(1000)).await;
    for node in nodes {
        assert!(simulation.current_node(node).await.is_some());
    }
}

// LIF-149, LIF-151, LIF-152, OPS-201
#[tokio::test(start_paused = true)]
async fn an_outage_stops_repair() {
    let simulation = with_nodes(4, true).await;
    let nodes = simulation.nodes().await;
    two_become_unready_and_all_stay(&simulation, &nodes).await;
    let events = simulation.events("NodeRepairBlocked").await;
    let text = "more than 20% nodes are unhealthy in the nodepool";
    assert!(!events.is_empty() && events.iter().all(|event| event.message.as_deref() == Some(text)));
    // Each of the two is reported once for itself, its claim and its pool, and not again for a quarter of an hour.
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.involved_object.kind.as_deref(), event.count))
        .collect();
    assert_eq!(told, [(Some("Node"), Some(3)); 2]);
    // One recovers: the other may go.
    simulation.set_kubelet(&nodes[0], None).await;
    simulation.until_node_gone(&nodes[1], 600).await;
    simulation.stop().await;
}

// LIF-149
#[tokio::test(start_paused = true)]
async fn a_node_that_is_unhealthy_for_a_while_only_counts_too() {
    let simulation = with_nodes(4, true).await;
    let nodes = simulation.nodes().await;
    simulation.set_kubelet(&nodes[0], Some("not-ready")).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    simulation.set_kubelet(&nodes[1], Some("not-ready")).await;
    // Two minutes too long for the first, three to go for the other.
    tokio::time::sleep(Duration::from_secs(420)).await;
    assert!(simulation.current_node(&nodes[0]).await.is_some());
    let events = simulation.events("NodeRepairBlocked").await;
    let told: Vec<_> = events.iter().map(|event| event.involved_object.name.clone()).collect();
    assert_eq!(told, [nodes[0].metadata.name.clone()]);
    simulation.set_kubelet(&nodes[1], None).await;
    // LIF-151: checked every five minutes.
    simulation.until_node_gone(&nodes[0], 310).await;
    simulation.stop().await;
}

// LIF-149, LIF-151, LIF-152
#[tokio::test(start_paused = true)]
async fn a_claim_without_a_pool_is_measured_by_all_nodes_of_the_cluster() {
    let simulation = Simulation::start_with(|options| options.feature_gates.node_repair = true).await;
    let spec = json!({
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-1x-amd64-linux"]}],
        "expireAfter": "Never",
    });
    create::<NodeClaim>(
        &simulation.client(),
        json!({"metadata": {"name": "alone"}, "spec": spec}),
    )
    .await;
    let initialized = async |s: &Simulation| s.claims().await[0].condition_is_true("Initialized");
    simulation.until("it is initialized", 60, initialized).await;
    let own = simulation.nodes().await.remove(0);
    let stranger = async |name: &str| {
        create::<Node>(&simulation.client(), json!({"metadata": {"name": name}, "spec": {}})).await;
    };
    stranger("sick").await;
    set_condition(&simulation, "sick", "Ready", "False").await;
    simulation.set_kubelet(&own, Some("not-ready")).await;
    tokio::time::sleep(Duration::from_secs(720)).await;
    assert!(
        simulation.current_node(&own).await.is_some(),
        "both of two are unhealthy"
    );
    let events = simulation.events("NodeRepairBlocked").await;
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event.involved_object.name.clone(),
                event.message.as_deref(),
                event.count,
            )
        })
        .collect();
    // OPS-201
    let text = "more then 20% nodes are unhealthy in the cluster";
    assert_eq!(told, [(own.metadata.name.clone(), Some(text), Some(2))]);
    // A fifth of six, rounded up, is two.
    for number in 0..4 {
        stranger(&format!("sound-{number}")).await;
    }
    simulation.until_node_gone(&own, 310).await;
    simulation.stop().await;
}

// LIF-244
#[tokio::test(start_paused = true)]
async fn an_outage_among_nodes_without_their_pool_stops_repair_without_an_event() {
    let simulation = with_nodes(4, true).await;
    simulation.delete_pool_only("web").await;
    let nodes = simulation.nodes().await;
    two_become_unready_and_all_stay(&simulation, &nodes).await;
    assert_eq!(simulation.messages("NodeRepairBlocked").await, [""; 0]);
    simulation.set_kubelet(&nodes[0], None).await;
    simulation.until_node_gone(&nodes[1], 310).await;
    simulation.stop().await;
}

/// Sets a condition of a Node, as an agent on it would.
pub(crate) async fn set_condition(simulation: &Simulation, node: &str, kind: &str, status: &str) {
    let api: Api<Node> = Api::all(simulation.client());
    let known = api
        .get(node)
        .await
        .expect("a node")
        .status
        .unwrap_or_default()
        .conditions
        .unwrap_or_default();
    let mut conditions = serde_json::to_value(known).expect("JSON");
    let all = conditions.as_array_mut().expect("a list");
    all.retain(|one| one["type"] != kind);
    let now = simulation.context.now().to_string();
    all.push(json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": "Test", "message": ""}));
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    api.patch_status(node, &PatchParams::default(), &patch)
        .await
        .expect("patched");
}

/// Pods that stay on a node even while it is drained.
fn stubborn() -> Value {
    let mut spec = apart("web");
    spec["tolerations"] = json!([
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists"},
    ]);
    spec
}

/// A cluster with one pod that stays, protected by a budget, on a node that takes hours to drain.
async fn with_a_protected_pod() -> (Simulation, Node, NodeClaim) {
    let simulation = Simulation::start_with(|options| options.feature_gates.node_repair = true).await;
    let pool =
        json!({"template": {"spec": {"terminationGracePeriod": "5h"}}, "disruption": {"budgets": [{"nodes": "0"}]}});
    simulation.run_one_pod(pool, stubborn()).await;
    let budget =
        json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        Api::namespaced(simulation.client(), "default");
    let budget = serde_json::from_value(budget).expect("a budget");
    budgets
        .create(&kube::api::PostParams::default(), &budget)
        .await
        .expect("created");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (node, claim) = (simulation.nodes().await.remove(0), simulation.claims().await.remove(0));
    (simulation, node, claim)
}

/// The claim's termination timestamp, as it is written.
fn deadline(claim: &NodeClaim) -> String {
    let annotations = claim.metadata.annotations.clone().unwrap_or_default();
    let deadline = annotations.get("karpenter.sh/nodeclaim-termination-timestamp");
    deadline.cloned().unwrap_or_default()
}

// LIF-153, LIF-154
#[tokio::test(start_paused = true)]
async fn repair_waits_for_nobody() {
    let hours = |hours| move |now: Timestamp| (now + SignedDuration::from_hours(hours)).to_string();
    let later = hours(5);
    let earlier = hours(-1);
    let rows: [(&dyn Fn(Timestamp) -> String, bool); 3] = [
        // As a grace period would set it.
        (&later, false),
        (&earlier, true),
        (&|_| "tomorrow".to_owned(), false),
    ];
    for (written, is_kept) in rows {
        let (simulation, node, claim) = with_a_protected_pod().await;
        let written = written(simulation.context.now());
        // Another finalizer keeps the claim, so that the test can read it.
        let metadata = json!({
            "annotations": {"karpenter.sh/nodeclaim-termination-timestamp": written},
            "finalizers": ["karpenter.sh/termination", "example.com/keep"],
        });
        simulation
            .patch::<NodeClaim>(&name(&claim), json!({"metadata": metadata}))
            .await;
        simulation.set_kubelet(&node, Some("not-ready")).await;
        let began = simulation.context.now();
        // Neither the disruption budget nor the pods' own holds it up.
        simulation.until_node_gone(&node, 720).await;
        let claims = simulation.claims().await;
        let claim = claims
            .into_iter()
            .find(|other| other.metadata.uid == claim.metadata.uid);
        let deadline = deadline(&claim.expect("it is kept"));
        match is_kept {
            true => assert_eq!(deadline, written),
            false => {
                let deadline: Timestamp = deadline.parse().expect("a time");
                assert!(began < deadline && deadline <= simulation.context.now(), "{deadline}");
            }
        }
        simulation.stop().await;
    }
}

// LIF-244
#[tokio::test(start_paused = true)]
async fn a_node_that_turns_unhealthy_while_it_drains_is_cut_short() {
    let (simulation, node, claim) = with_a_protected_pod().await;
    simulation
        .delete::<NodeClaim>(&claim.metadata.name.clone().unwrap_or_default())
        .await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert!(simulation.current_node(&node).await.is_some(), "its pod is protected");
    simulation.set_kubelet(&node, Some("not-ready")).await;
    simulation.until_node_gone(&node, 800).await;
    // The user deleted the claim, so repair counts nothing.
    let metrics = simulation.context.metrics.encode();
    assert!(
        !metrics.contains("karpenter_nodeclaims_unhealthy_disrupted_total{"),
        "{metrics}"
    );
    simulation.stop().await;
}

// LIF-147
#[tokio::test(start_paused = true)]
async fn nodes_without_exactly_one_claim_are_not_repaired() {
    let simulation = with_nodes(1, true).await;
    let own = simulation.nodes().await.remove(0);
    let stranger = json!({"metadata": {"name": "stranger"}, "spec": {"providerID": "other://stranger"}});
    create::<Node>(&simulation.client(), stranger).await;
    // A second claim of the same instance makes it doubtful whose the node is.
    let id = own
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.clone())
        .unwrap_or_default();
    let sandbox = simulation.crash_with_twin("default", &json!(id)).await;
    let simulation = Simulation::join(sandbox, |options| options.feature_gates.node_repair = true);
    set_condition(&simulation, "stranger", "Ready", "False").await;
    simulation.set_kubelet(&own, Some("not-ready")).await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(simulation.nodes().await.len(), 2);
    assert!(
        simulation
            .claims()
            .await
            .iter()
            .all(|claim| claim.metadata.deletion_timestamp.is_none())
    );
    simulation.stop().await;
}
