//! Expiration, and the effect of pod changes on a claim.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{Condition, Conditioned, NodeClaim, NodePool};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::objects::create_in;
use crate::simulation::emptiness::apart;
use crate::simulation::harness::{Simulation, create};
use crate::simulation::logs::Logs;

async fn with_one_pod(pool: Value) -> (Simulation, NodeClaim) {
    let simulation = Simulation::with_one_pod(pool, json!({})).await;
    simulation.until_initialized(30).await;
    let claim = simulation.claims().await.remove(0);
    (simulation, claim)
}

// LIF-126, DIS-059, DIS-060, DIS-091
#[tokio::test(start_paused = true)]
async fn nothing_stops_expiry_but_the_drain_asks_everybody() {
    let pool = json!({"template": {"spec": {"expireAfter": "10m"}}, "disruption": {"budgets": [{"nodes": "0"}]}});
    let (simulation, claim) = with_one_pod(pool).await;
    simulation.budget(1).await;
    let name = simulation.pods().await.remove(0).metadata.name.unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let protected = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    api.patch(&name, &PatchParams::default(), &protected)
        .await
        .expect("patched");
    simulation
        .until("it is being deleted", 600, async |s| {
            s.current_claim(&claim)
                .await
                .is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
        })
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    // The pod is waited for; nothing was launched ahead for it, since it may not move.
    assert_eq!((simulation.running().await, simulation.claims().await.len()), (1, 1));
    let released = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}}));
    api.patch(&name, &PatchParams::default(), &released)
        .await
        .expect("patched");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(simulation.client(), "default");
    budgets.delete("web", &DeleteParams::default()).await.expect("deleted");
    simulation
        .until("another node has the pod", 120, async |s| {
            s.current_claim(&claim).await.is_none() && s.running().await == 1
        })
        .await;
    simulation.stop().await;
}

// LIF-127
#[tokio::test(start_paused = true)]
async fn a_claim_expires_by_its_own_age_also_without_a_node() {
    let logs = Logs::listen();
    let simulation = Simulation::start().await;
    simulation.slow_class("1h").await;
    let claim = json!({"metadata": {"name": "short"}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "slow"},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-1x-amd64-linux"]}],
        "expireAfter": "5m",
    }});
    create::<NodeClaim>(&simulation.client(), claim).await;
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(simulation.claims().await.len(), 1);
    simulation.until_claims(0, 20).await;
    // OPS-261
    let told = logs.with("DEBUG deleting expired nodeclaim NodeClaim=short");
    assert_eq!(told.len(), 1, "{told:?}");
    simulation.stop().await;
    // A pool that says something else now changes nothing about the age of its nodes.
    let (simulation, claim) =
        with_one_pod(json!({"template": {"spec": {"expireAfter": "1h"}}, "disruption": {"budgets": [{"nodes": "0"}]}}))
            .await;
    simulation
        .patch::<NodePool>("web", json!({"spec": {"template": {"spec": {"expireAfter": "5m"}}}}))
        .await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert!(
        simulation
            .current_claim(&claim)
            .await
            .is_some_and(|claim| claim.metadata.deletion_timestamp.is_none())
    );
    tokio::time::sleep(Duration::from_secs(1850)).await;
    assert!(simulation.current_claim(&claim).await.is_none());
    simulation.stop().await;
}

// LIF-233
#[tokio::test(start_paused = true)]
async fn pods_of_an_expired_node_move_one_by_one() {
    let simulation = Simulation::start().await;
    let spec = json!({"template": {"spec": {"expireAfter": "3m"}}});
    simulation.pool("web", spec).await;
    simulation.deployment("web", 5, "100m", json!({})).await;
    simulation.until_running(5, 60).await;
    simulation.budget(4).await;
    let first = simulation.claims().await;
    assert_eq!(first.len(), 1);
    let never = json!({"spec": {"template": {"spec": {"expireAfter": "Never"}}}});
    simulation.patch::<NodePool>("web", never).await;
    let end = tokio::time::Instant::now() + Duration::from_secs(900);
    let mut most = 0;
    loop {
        let claims = simulation.claims().await;
        most = most.max(claims.len());
        let running = simulation.running().await;
        assert!(running >= 4, "the budget holds");
        if claims.len() == 1 && claims[0].metadata.uid != first[0].metadata.uid && running == 5 {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "{}", simulation.picture().await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(most, 2, "one node takes them all");
    simulation.stop().await;
}

fn pod_event(claim: &NodeClaim) -> Option<jiff::Timestamp> {
    claim.status.as_ref()?.last_pod_event_time.as_ref().map(|time| time.0)
}

// LIF-137, LIF-139
#[tokio::test(start_paused = true)]
async fn changes_of_pods_are_noted_at_most_every_ten_seconds() {
    let (simulation, claim) = with_one_pod(json!({})).await;
    let node = simulation.nodes().await.remove(0).metadata.name.unwrap_or_default();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut noted = Vec::new();
    for number in 0..25 {
        let spec = json!({"nodeName": node, "containers": [{"name": "main", "image": "app"}]});
        let pod = json!({"metadata": {"name": format!("p-{number}")}, "spec": spec});
        create_in::<Pod>(&simulation.client(), "default", pod).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        noted.extend(simulation.current_claim(&claim).await.as_ref().and_then(pod_event));
    }
    noted.dedup();
    assert_eq!(noted.len(), 3, "{noted:?}");
    let apart = noted.windows(2).map(|pair| (pair[1] - pair[0]).get_seconds());
    assert!(apart.into_iter().all(|seconds| seconds >= 10), "{noted:?}");
    simulation.stop().await;
}

// LIF-137: the initialization counts as an event, with or without pods.
#[tokio::test(start_paused = true)]
async fn the_initialization_of_a_claim_counts_as_a_change_of_its_pods() {
    let (simulation, claim) = with_one_pod(json!({})).await;
    let empty = json!({"metadata": {"name": "empty"}, "spec": claim.spec});
    let empty = create::<NodeClaim>(&simulation.client(), empty).await;
    simulation
        .until("the claim is initialized", 120, async |s| {
            let claim = s.current_claim(&empty).await;
            claim.is_some_and(|claim| claim.condition_is_true("Initialized"))
        })
        .await;
    let empty = simulation.current_claim(&empty).await.expect("the claim");
    let initialized = empty.condition("Initialized").map(Condition::transitioned);
    assert!(pod_event(&empty).is_some());
    assert_eq!(pod_event(&empty), initialized);
    simulation.stop().await;
}

// LIF-140
#[tokio::test(start_paused = true)]
async fn pods_of_machines_that_are_not_known_or_not_one_are_no_events() {
    let (simulation, claim) = with_one_pod(json!({})).await;
    let node = simulation.nodes().await.remove(0);
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = simulation.current_claim(&claim).await.as_ref().and_then(pod_event);
    let bind = async |name: &str, node: Option<&str>| {
        let spec = json!({"nodeName": node, "containers": [{"name": "main", "image": "app"}],
            "nodeSelector": {"never": "bound"}});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        create_in::<Pod>(&simulation.client(), "default", pod).await;
        tokio::time::sleep(Duration::from_secs(15)).await;
    };
    create::<Node>(&simulation.client(), json!({"metadata": {"name": "own"}, "spec": {}})).await;
    bind("nowhere", None).await;
    bind("unmanaged", Some("own")).await;
    bind("unknown", Some("unheard-of")).await;
    let second = json!({"metadata": {"name": "second"}, "spec": claim.spec});
    create::<NodeClaim>(&simulation.client(), second).await;
    let claims: Api<NodeClaim> = Api::all(simulation.client());
    let same = Patch::Merge(json!({"status": {"providerID": id}}));
    let patched = claims.patch_status("second", &PatchParams::default(), &same).await;
    patched.expect("patched");
    bind("of-two", node.metadata.name.as_deref()).await;
    let claims = simulation.claims().await;
    assert_eq!(
        claims.iter().filter(|claim| pod_event(claim) != before).count(),
        1,
        "only the second is without"
    );
    assert_eq!(
        simulation.current_claim(&claim).await.as_ref().and_then(pod_event),
        before
    );
    simulation.stop().await;
}

// LIF-138, LIF-141
#[tokio::test(start_paused = true)]
async fn a_restart_counts_every_pod_anew() {
    let (simulation, claim) = with_one_pod(json!({})).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let before = simulation.current_claim(&claim).await.as_ref().and_then(pod_event);
    let simulation = Simulation::join(simulation.crash().await, |_| {});
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = simulation.current_claim(&claim).await.as_ref().and_then(pod_event);
    let (before, after) = (before.expect("a time"), after.expect("a time"));
    assert!((after - before).get_seconds() >= 500, "{before} {after}");
    simulation.stop().await;
}

// LIF-135
#[tokio::test(start_paused = true)]
async fn a_claim_is_consistent_from_its_registration_on() {
    let simulation = Simulation::start().await;
    simulation.slow_pool("2m").await;
    simulation.deployment("web", 1, "1", apart("web")).await;
    let holds = async |s: &Simulation, condition: &str| {
        let claims = s.claims().await;
        claims.iter().any(|claim| claim.condition_is_true(condition))
    };
    let launched = async |s: &Simulation| holds(s, "Launched").await;
    simulation.until("it is launched", 30, launched).await;
    assert!(
        !holds(&simulation, "ConsistentStateFound").await,
        "there is no Node yet"
    );
    let registered = async |s: &Simulation| holds(s, "Registered").await;
    simulation.until("it is registered", 240, registered).await;
    assert!(!holds(&simulation, "Initialized").await, "before anything is checked");
    assert!(holds(&simulation, "ConsistentStateFound").await);
    simulation.stop().await;
}
