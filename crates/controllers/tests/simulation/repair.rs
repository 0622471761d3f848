//! Nodes that stay unhealthy are replaced, unless too many are.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::NodeClaim;
use kerf_runtime::metrics::catalogue::{NODECLAIMS_DISRUPTED, NODECLAIMS_UNHEALTHY_DISRUPTED};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::emptiness::apart;
use crate::harness::{Simulation, create, name};

pub(crate) async fn with_nodes(count: usize, repair: bool) -> Simulation {
    let simulation = Simulation::start_with(|options| options.feature_gates.node_repair = repair).await;
    // Pods that leave their unready nodes must not make the pool larger, and its fifth with it.
    simulation
        .pool("web", json!({"limits": {"nodes": count.to_string()}}))
        .await;
    let replicas = u32::try_from(count).expect("few");
    simulation.deployment("web", replicas, "1", apart("web")).await;
    simulation
        .until("the pods run", 120, async |s| s.running().await == count)
        .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    simulation
}

pub(crate) async fn has(simulation: &Simulation, node: &Node) -> bool {
    simulation
        .nodes()
        .await
        .iter()
        .any(|other| other.metadata.uid == node.metadata.uid)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_unready_is_replaced() {
    let simulation = with_nodes(1, true).await;
    let node = simulation.nodes().await.remove(0);
    simulation
        .sandbox
        .set_kubelet(&name(&node), Some("not-ready"))
        .await
        .expect("set");
    // LIF-146, LIF-148
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert!(has(&simulation, &node).await);
    let claim = simulation.claims().await.remove(0);
    simulation
        .until("it is gone", 120, async |s| !has(s, &node).await)
        .await;
    simulation
        .until("its pod runs on another", 120, async |s| s.running().await == 1)
        .await;
    let labels = claim.metadata.labels.unwrap_or_default();
    let capacity_type = &labels["karpenter.sh/capacity-type"];
    let metrics = &simulation.context.metrics;
    // LIF-155
    assert_eq!(
        metrics
            .counter(&NODECLAIMS_DISRUPTED)
            .get(&["unhealthy", "web", capacity_type]),
        1.0
    );
    let image = claim.status.and_then(|status| status.image_id).unwrap_or_default();
    let unhealthy = metrics.counter(&NODECLAIMS_UNHEALTHY_DISRUPTED);
    assert_eq!(unhealthy.get(&["ready", "web", capacity_type, &image]), 1.0);
    simulation.stop().await;
}

// LIF-156
#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_in_time_stays() {
    let simulation = with_nodes(1, true).await;
    let node = simulation.nodes().await.remove(0);
    simulation
        .sandbox
        .set_kubelet(&name(&node), Some("not-ready"))
        .await
        .expect("set");
    tokio::time::sleep(Duration::from_secs(540)).await;
    simulation.sandbox.set_kubelet(&name(&node), None).await.expect("set");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(has(&simulation, &node).await);
    simulation.stop().await;
}

// LIF-145
#[tokio::test(start_paused = true)]
async fn nothing_is_repaired_with_the_gate_off() {
    let simulation = with_nodes(1, false).await;
    let node = simulation.nodes().await.remove(0);
    simulation
        .sandbox
        .set_kubelet(&name(&node), Some("not-ready"))
        .await
        .expect("set");
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert!(has(&simulation, &node).await);
    simulation.stop().await;
}

// LIF-149, LIF-151, LIF-152
#[tokio::test(start_paused = true)]
async fn an_outage_stops_repair() {
    let simulation = with_nodes(4, true).await;
    let nodes = simulation.nodes().await;
    for node in &nodes[..2] {
        simulation
            .sandbox
            .set_kubelet(&name(node), Some("not-ready"))
            .await
            .expect("set");
    }
    tokio::time::sleep(Duration::from_secs(1000)).await;
    for node in &nodes {
        assert!(has(&simulation, node).await);
    }
    let events = simulation.events("NodeRepairBlocked").await;
    let text = "more than 20% nodes are unhealthy in the nodepool";
    assert!(!events.is_empty() && events.iter().all(|event| event.message.as_deref() == Some(text)));
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| event.involved_object.kind.as_deref())
        .collect();
    assert!(kinds.iter().all(|kind| *kind == "Node"), "{kinds:?}");
    // One recovers: the other may go.
    simulation
        .sandbox
        .set_kubelet(&name(&nodes[0]), None)
        .await
        .expect("set");
    simulation
        .until("the other goes", 600, async |s| !has(s, &nodes[1]).await)
        .await;
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

/// Pods that stay on a node whatever becomes of it.
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
    simulation.pool("web", pool).await;
    simulation.deployment("web", 1, "1", stubborn()).await;
    simulation
        .until("the pod runs", 120, async |s| s.running().await == 1)
        .await;
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

fn deadline(claim: &NodeClaim) -> Option<jiff::Timestamp> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations
        .get("karpenter.sh/nodeclaim-termination-timestamp")?
        .parse()
        .ok()
}

// LIF-153, LIF-154
#[tokio::test(start_paused = true)]
async fn repair_waits_for_nobody() {
    let (simulation, node, claim) = with_a_protected_pod().await;
    // A later deadline, as a grace period would set it.
    let later = simulation.context.now() + jiff::SignedDuration::from_hours(5);
    let annotation =
        json!({"metadata": {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": later.to_string()}}});
    simulation
        .patch::<NodeClaim>(&claim.metadata.name.clone().unwrap_or_default(), annotation)
        .await;
    set_condition(&simulation, &name(&node), "Ready", "False").await;
    simulation
        .sandbox
        .set_kubelet(&name(&node), Some("not-ready"))
        .await
        .expect("set");
    let deleted = async |s: &Simulation| {
        let claims = s.claims().await;
        let same = claims.iter().find(|other| other.metadata.uid == claim.metadata.uid);
        same.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some())
    };
    simulation.until("it is being deleted", 700, deleted).await;
    if let Some(claim) = simulation
        .claims()
        .await
        .into_iter()
        .find(|other| other.metadata.uid == claim.metadata.uid)
    {
        let deadline = deadline(&claim).expect("a deadline");
        assert!(deadline <= simulation.context.now(), "overwritten: {deadline}");
    }
    // Neither the disruption budget nor the pods' own holds it up.
    simulation
        .until("the node is gone", 120, async |s| !has(s, &node).await)
        .await;
    simulation.stop().await;
}

// LIF-244
#[tokio::test(start_paused = true)]
async fn a_node_that_turns_unhealthy_while_it_drains_is_cut_short() {
    let (simulation, node, claim) = with_a_protected_pod().await;
    simulation
        .delete::<NodeClaim>(&claim.metadata.name.clone().unwrap_or_default())
        .await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert!(has(&simulation, &node).await, "its pod is protected");
    simulation
        .sandbox
        .set_kubelet(&name(&node), Some("not-ready"))
        .await
        .expect("set");
    simulation
        .until("the node is gone", 800, async |s| !has(s, &node).await)
        .await;
    // It was deleted by somebody else.
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
    let sandbox = simulation.crash().await;
    let twin = json!({"metadata": {"name": "twin"}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [], "expireAfter": "Never",
    }});
    create::<NodeClaim>(&sandbox.client(), twin).await;
    let is = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status =
        json!({"status": {"providerID": id, "conditions": [is("Launched"), is("Registered"), is("Initialized")]}});
    let api: Api<NodeClaim> = Api::all(sandbox.client());
    api.patch_status("twin", &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("patched");
    let simulation = Simulation::join(sandbox, |options| options.feature_gates.node_repair = true);
    for node in ["stranger", &name(&own)] {
        simulation
            .sandbox
            .set_kubelet(node, Some("not-ready"))
            .await
            .expect("set");
    }
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
