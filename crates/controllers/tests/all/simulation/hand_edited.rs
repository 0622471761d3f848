//! Invalid input: objects edited by hand, owners that vanish, clocks that jump. The fault is reported on the object, the
//! safe action is taken, and everything else works as usual.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{Conditioned, KwokNodeClass, NodeClaim, NodePool};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::simulation::emptiness::apart;
use crate::simulation::harness::{Simulation, create, list, name};
use crate::simulation::scripted_cloud::{Call, scripted};

/// A cluster with so many pods, each on a node of its own, all initialized.
pub(crate) async fn with_nodes(count: usize, pool: Value) -> Simulation {
    let simulation = Simulation::start_with(|options| options.feature_gates.node_repair = true).await;
    simulation.populate(count, pool).await;
    simulation
}

/// Unique ids of claims and nodes that are not on their way out.
pub(crate) async fn staying(simulation: &Simulation) -> (Vec<String>, Vec<String>) {
    let uid = |meta: kube::api::ObjectMeta| meta.deletion_timestamp.is_none().then(|| meta.uid.unwrap_or_default());
    let claims = simulation
        .claims()
        .await
        .into_iter()
        .filter_map(|claim| uid(claim.metadata));
    let nodes = simulation
        .nodes()
        .await
        .into_iter()
        .filter_map(|node| uid(node.metadata));
    (claims.collect(), nodes.collect())
}

/// The kinds of the objects that say their node is not disrupted for a reason. An event about a node that starts keeps others from being
/// published for two minutes (DIS-289).
async fn blocked(simulation: &Simulation, why: &str) -> Vec<String> {
    let events = simulation.events("DisruptionBlocked").await;
    let told = events.into_iter().filter(|event| event.message.as_deref() == Some(why));
    let mut kinds: Vec<String> = told.filter_map(|event| event.involved_object.kind).collect();
    kinds.sort();
    kinds
}

/// Whether another Deployment still gets a node.
pub(crate) async fn goes_on(simulation: &Simulation) {
    let before = simulation.running().await;
    simulation.deployment("more", 1, "1", apart("more")).await;
    simulation
        .until("another pod runs", 120, async |s| s.running().await == before + 1)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_ends_no_node() {
    for hours in [48, -48] {
        let simulation = with_nodes(2, json!({"template": {"spec": {"expireAfter": "720h"}}})).await;
        let before = staying(&simulation).await;
        simulation.sandbox.clock().jump(SignedDuration::from_hours(hours));
        tokio::time::sleep(Duration::from_secs(1800)).await;
        assert_eq!(staying(&simulation).await, before, "{hours} hours");
        goes_on(&simulation).await;
        simulation.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_gives_up_no_claim_that_is_about_to_register() {
    let simulation = Simulation::start().await;
    simulation.slow_pool("6m").await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation
        .until("a claim is launched", 60, async |s| !s.claims().await.is_empty())
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (claims, _) = staying(&simulation).await;
    simulation.sandbox.clock().jump(SignedDuration::from_hours(2));
    simulation.until_running(1, 600).await;
    assert_eq!(staying(&simulation).await.0, claims, "it is the same claim");
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_node_is_not_replaced_because_the_clock_was_set() {
    let simulation = with_nodes(1, json!({})).await;
    let node = simulation.nodes().await.remove(0);
    simulation.set_kubelet(&node, Some("not-ready")).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    simulation.sandbox.clock().jump(SignedDuration::from_hours(1));
    tokio::time::sleep(Duration::from_secs(60)).await;
    // It was restarted.
    simulation.set_kubelet(&node, None).await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert!(
        simulation
            .nodes()
            .await
            .iter()
            .any(|other| other.metadata.uid == node.metadata.uid)
    );
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_nobody_can_launch_stops_planning_for_less_than_a_minute() {
    let (simulation, script) = scripted().await;
    script.hang(Call::Create);
    let claim = json!({"metadata": {"name": "stuck"}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [],
    }});
    create::<NodeClaim>(&simulation.client(), claim).await;
    simulation
        .until("its launch hangs", 5, async |_| script.count(Call::Create) == 1)
        .await;
    // LIF-187, OPS-060, OPS-062: planning waits, and so does the count of the pool.
    simulation.pool("web", json!({})).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(simulation.claims().await.len(), 1);
    let pool = list::<NodePool>(&simulation.client()).await.remove(0);
    assert!(
        pool.status.is_none_or(|status| status.resources.is_empty()),
        "it was not counted"
    );
    // LIF-186
    let metrics = simulation.context.metrics.encode();
    assert!(metrics.contains("karpenter_cluster_state_synced 0"), "{metrics}");
    script.heal(Call::Create);
    simulation.until_running(1, 60).await;
    let metrics = simulation.context.metrics.encode();
    for line in [
        "karpenter_cluster_state_synced 1",
        "karpenter_cluster_state_unsynced_time_seconds 0",
        "karpenter_cluster_state_node_count 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    simulation.stop().await;
}

// DIS-032
#[tokio::test(start_paused = true)]
async fn a_pool_deleted_from_under_its_nodes_leaves_them_running() {
    let simulation = with_nodes(2, json!({})).await;
    let before = staying(&simulation).await;
    simulation.delete_pool_only("web").await;
    simulation
        .until("its nodes say so", 180, async |s| {
            blocked(s, "NodePool not found (NodePool=web)").await == ["Node", "Node", "NodeClaim", "NodeClaim"]
        })
        .await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(staying(&simulation).await, before);
    assert_eq!(simulation.running().await, 2);
    simulation.pool("other", json!({})).await;
    goes_on(&simulation).await;
    // They end as any other when they are asked to.
    let claim = simulation
        .claims()
        .await
        .into_iter()
        .find(|claim| before.0.contains(claim.metadata.uid.as_ref().expect("a uid")));
    let claim = claim.expect("there");
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    simulation.until_claim_gone(&claim, 120).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_class_deleted_from_under_its_nodes_leaves_them_running() {
    let simulation = with_nodes(2, json!({})).await;
    let before = staying(&simulation).await;
    simulation
        .patch::<KwokNodeClass>("default", json!({"metadata": {"finalizers": null}}))
        .await;
    simulation.delete::<KwokNodeClass>("default").await;
    let told = async |s: &Simulation| {
        let pool = list::<NodePool>(&s.client()).await.remove(0);
        let ready = pool.condition("NodeClassReady").cloned();
        ready.is_some_and(|ready| {
            ready.reason() == "NodeClassNotFound" && ready.message() == "NodeClass not found on cluster"
        })
    };
    simulation.until("the pool says so", 10, told).await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(staying(&simulation).await, before);
    // Deleting one works without its class.
    let claim = simulation.claims().await.remove(0);
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    simulation.until_claim_gone(&claim, 120).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn labels_changed_on_a_node_neither_end_nor_double_it() {
    let simulation = with_nodes(2, json!({})).await;
    let before = staying(&simulation).await;
    let nodes = simulation.nodes().await;
    let nonsense = json!({"metadata": {"labels": {
        "karpenter.sh/nodepool": "there-is-no-such-pool",
        "node.kubernetes.io/instance-type": "there-is-no-such-type",
        "topology.kubernetes.io/zone": null,
        "karpenter.sh/capacity-type": "free",
        "karpenter.sh/initialized": "maybe",
        "karpenter.sh/registered": null,
        "karpenter.kwok.sh/kwoknodeclass": null,
    }}});
    simulation.patch::<Node>(&name(&nodes[0]), nonsense).await;
    // LIF-242: it registers again, and what its claim says is put back.
    let mended = async |s: &Simulation| {
        let now = s.nodes().await;
        let now = now.iter().find(|node| node.metadata.uid == nodes[0].metadata.uid);
        now.expect("there").metadata.labels == nodes[0].metadata.labels
    };
    simulation.until("its labels are as they were", 30, mended).await;
    // While a Node is registered, changed labels are not put back.
    let other = json!({"metadata": {"labels": {"karpenter.sh/nodepool": "there-is-no-such-pool"}}});
    simulation.patch::<Node>(&name(&nodes[0]), other).await;
    simulation
        .until("it says so", 180, async |s| {
            blocked(s, "NodePool not found (NodePool=there-is-no-such-pool)").await == ["Node", "NodeClaim"]
        })
        .await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(staying(&simulation).await, before);
    assert_eq!(simulation.running().await, 2);
    goes_on(&simulation).await;
    simulation.delete::<Node>(&name(&nodes[0])).await;
    simulation
        .until("it is gone", 120, async |s| {
            s.nodes()
                .await
                .iter()
                .all(|other| other.metadata.uid != nodes[0].metadata.uid)
        })
        .await;
    simulation.until_running(3, 120).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn annotations_with_nonsense_stop_nothing_else() {
    let simulation = with_nodes(2, json!({})).await;
    let claims = simulation.claims().await;
    let nonsense = json!({"metadata": {"annotations": {
        "karpenter.sh/nodeclaim-termination-timestamp": "tomorrow",
        "karpenter.sh/nodepool-hash-version": "v999",
        "karpenter.sh/nodepool-hash": "not a number",
        "karpenter.sh/do-not-disrupt": "perhaps",
        "karpenter.sh/nodeclaim-min-values-relaxed": "42",
    }}});
    simulation.patch::<NodeClaim>(&name(&claims[0]), nonsense).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(staying(&simulation).await.0.len(), 2);
    // LIF-097: an unreadable deadline keeps the node until it is corrected. The other node is deleted.
    for claim in &claims {
        simulation.delete::<NodeClaim>(&name(claim)).await;
    }
    let is_there = async |s: &Simulation, claim: &NodeClaim| {
        s.claims()
            .await
            .iter()
            .any(|other| other.metadata.uid == claim.metadata.uid)
    };
    simulation
        .until("the other is gone", 120, async |s| !is_there(s, &claims[1]).await)
        .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(is_there(&simulation, &claims[0]).await);
    let told = simulation.events("InvalidTerminationTimestamp").await;
    let claim = told.first().and_then(|event| event.involved_object.name.clone());
    assert_eq!(claim, claims[0].metadata.name, "{told:?}");
    let message = told[0].message.clone().unwrap_or_default();
    assert!(
        message.contains(" is \"tomorrow\", which is no RFC 3339 time: write one such as "),
        "{message}"
    );
    let mended = json!({"metadata": {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": null}}});
    simulation.patch::<NodeClaim>(&name(&claims[0]), mended).await;
    simulation
        .until("it goes", 120, async |s| !is_there(s, &claims[0]).await)
        .await;
    simulation.until_running(2, 120).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn labels_changed_on_a_claim_neither_end_nor_double_its_node() {
    let simulation = with_nodes(2, json!({"disruption": {"consolidateAfter": "0s"}})).await;
    let before = staying(&simulation).await;
    let nonsense = json!({"metadata": {"labels": {
        "karpenter.sh/nodepool": "there-is-no-such-pool",
        "node.kubernetes.io/instance-type": "there-is-no-such-type",
        "topology.kubernetes.io/zone": null,
        "karpenter.sh/capacity-type": "free",
    }}});
    simulation
        .patch::<NodeClaim>(&name(&simulation.claims().await[0]), nonsense)
        .await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(staying(&simulation).await, before);
    assert_eq!(simulation.running().await, 2);
    goes_on(&simulation).await;
    simulation.stop().await;
}

async fn budget(simulation: &Simulation, budget: &str) {
    let object = json!({"metadata": {"name": budget}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let api: Api<PodDisruptionBudget> = Api::namespaced(simulation.client(), "default");
    let object = serde_json::from_value(object).expect("a budget");
    api.create(&PostParams::default(), &object).await.expect("created");
}

// LIF-113, OPS-198
#[tokio::test(start_paused = true)]
async fn budgets_that_overlap_are_named_and_wait_for_somebody() {
    let simulation = with_nodes(2, json!({})).await;
    budget(&simulation, "one").await;
    budget(&simulation, "two").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let claim = simulation.claims().await.remove(0);
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    let told = async |s: &Simulation| {
        let events = s.events("FailedDraining").await;
        let mut messages = events.iter().filter_map(|event| event.message.as_deref());
        messages.any(|message| {
            message.starts_with("Failed to drain node, eviction does not support multiple PDBs (Pod=default/web-")
        })
    };
    simulation.until("it is told", 600, told).await;
    assert_eq!(simulation.running().await, 2, "nothing was evicted");
    goes_on(&simulation).await;
    let api: Api<PodDisruptionBudget> = Api::namespaced(simulation.client(), "default");
    api.delete("two", &DeleteParams::default()).await.expect("deleted");
    simulation.until_claim_gone(&claim, 60).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_wiped_by_hand_neither_launches_again_nor_loses_the_node() {
    let simulation = with_nodes(1, json!({})).await;
    let claim = simulation.claims().await.remove(0);
    let id = claim.status.as_ref().and_then(|status| status.provider_id.clone());
    let api: Api<NodeClaim> = Api::all(simulation.client());
    let wiped = Patch::Merge(
        json!({"status": {"conditions": null, "providerID": null, "nodeName": null, "capacity": null, "allocatable": null}}),
    );
    api.patch_status(&name(&claim), &PatchParams::default(), &wiped)
        .await
        .expect("patched");
    let restored = async |s: &Simulation| {
        let claims = s.claims().await;
        let same = claims.iter().find(|other| other.metadata.uid == claim.metadata.uid);
        same.is_some_and(|claim| {
            claim.condition_is_true("Initialized")
                && claim.status.as_ref().is_some_and(|status| status.provider_id == id)
        })
    };
    simulation.until("it is as it was", 60, restored).await;
    assert_eq!(
        (simulation.claims().await.len(), simulation.nodes().await.len()),
        (1, 1)
    );
    assert_eq!(simulation.running().await, 1);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_taken_off_by_hand_is_put_back() {
    let simulation = with_nodes(1, json!({})).await;
    let claim = simulation.claims().await.remove(0);
    simulation
        .patch::<NodeClaim>(&name(&claim), json!({"metadata": {"finalizers": null}}))
        .await;
    let guarded = async |s: &Simulation| {
        let claim = s.claims().await.remove(0);
        claim.metadata.finalizers == Some(vec!["karpenter.sh/termination".to_owned()])
    };
    // LIF-017
    simulation.until("it is guarded again", 10, guarded).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_pinned_to_what_is_not_there_stop_nobody() {
    let simulation = with_nodes(1, json!({})).await;
    let lost = json!({"metadata": {"name": "lost"}, "spec": {"nodeName": "no-such-node", "containers": [{"name": "main", "image": "app"}]}});
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let _ = api
        .create(&PostParams::default(), &serde_json::from_value(lost).expect("a pod"))
        .await;
    goes_on(&simulation).await;
    simulation.stop().await;
}

// DIS-020, DIS-079
#[tokio::test(start_paused = true)]
async fn a_budget_nobody_can_read_closes_its_pool_and_no_other() {
    let disruption = json!({"consolidateAfter": "0s", "budgets": [
        {"nodes": "100%"}, {"nodes": "1", "schedule": "every full moon at noon", "duration": "1h", "reasons": ["Drifted"]}]});
    let simulation = with_nodes(1, json!({"disruption": disruption})).await;
    let kept = name(&simulation.nodes().await[0]);
    let other = json!({
        "weight": 10, "disruption": {"consolidateAfter": "0s"},
        "template": {"metadata": {"labels": {"team": "other"}}},
    });
    simulation.pool("other", other).await;
    simulation
        .deployment("other", 1, "1", json!({"nodeSelector": {"team": "other"}}))
        .await;
    simulation.until_running(2, 60).await;
    for app in ["web", "other"] {
        simulation.scale(app, 0).await;
    }
    simulation.until_nodes(1, 120).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(name(&simulation.nodes().await[0]), kept);
    let told = simulation.events("InvalidDisruptionBudget").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].involved_object.name.as_deref(), Some("web"));
    let message = told[0].message.clone().unwrap_or_default();
    assert!(
        message.starts_with(
            "No disruptions are allowed while a disruption budget is invalid: schedule \"every full moon at noon\""
        ),
        "{message}"
    );
    simulation.stop().await;
}
