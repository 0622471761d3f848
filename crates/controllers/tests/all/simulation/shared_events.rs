//! Events that objects of one name share, because names make Events the same (OPS-211).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{KwokNodeClass, NodeClaim};
use kerf_sandbox::Sandbox;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::objects::create_in;
use crate::simulation::harness::{Simulation, create, list_in};

const NAMESPACES: [&str; 2] = ["bank", "shop"];

/// Runs the pod `db` of two namespaces on one node; neither may be evicted.
async fn with_namesakes(pool: Value) -> Simulation {
    let simulation = Simulation::with_pool(pool).await;
    let client = simulation.client();
    for namespace in NAMESPACES {
        create::<Namespace>(&client, json!({"metadata": {"name": namespace}})).await;
        let selector = json!({"matchLabels": {"app": "db"}});
        let budget = json!({"metadata": {"name": "db"}, "spec": {"minAvailable": 1, "selector": selector}});
        create_in::<PodDisruptionBudget>(&client, namespace, budget).await;
        let container = json!({"name": "main", "image": "db", "resources": {"requests": {"cpu": "100m"}}});
        let spec = json!({"terminationGracePeriodSeconds": 30, "containers": [container]});
        create_in::<Pod>(
            &client,
            namespace,
            json!({"metadata": {"name": "db", "labels": {"app": "db"}}, "spec": spec}),
        )
        .await;
    }
    let running = async |s: &Simulation| {
        let mut running = 0;
        for namespace in NAMESPACES {
            let pods: Vec<Pod> = list_in(&s.client(), namespace).await;
            let phases = pods.iter().filter_map(|pod| pod.status.as_ref()?.phase.as_deref());
            running += phases.filter(|phase| *phase == "Running").count();
        }
        running == 2 && s.nodes().await.len() == 1
    };
    simulation.until("both run on one node", 120, running).await;
    simulation
}

/// How often Events with a reason were published about the pods.
async fn told_of_pods(simulation: &Simulation, reason: &str) -> i32 {
    let mut told = 0;
    for namespace in NAMESPACES {
        let events: Vec<Event> = list_in(&simulation.client(), namespace).await;
        let of_reason = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
        told += of_reason.map(|event| event.count.unwrap_or(1)).sum::<i32>();
    }
    told
}

async fn no_pod_is_left(simulation: &Simulation) {
    let none = async |s: &Simulation| {
        let mut left = 0;
        for namespace in NAMESPACES {
            left += list_in::<Pod>(&s.client(), namespace).await.len();
        }
        left == 0
    };
    simulation.until("both pods are gone", 90, none).await;
}

// OPS-211
#[tokio::test(start_paused = true)]
async fn pods_of_one_name_share_an_event_but_for_refused_evictions() {
    let simulation = with_namesakes(json!({})).await;
    let claim = simulation.some_claim().await;
    simulation.delete::<NodeClaim>(&claim).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // A deviation: the key of these has the pod's namespace, so that each is published.
    let refused = simulation.messages("FailedDraining").await;
    for namespace in NAMESPACES {
        let text = format!("Failed to drain node, evicting pod violates a PDB (Pod={namespace}/db)");
        assert!(refused.contains(&text), "{refused:?}");
    }
    for namespace in NAMESPACES {
        let api: Api<PodDisruptionBudget> = Api::namespaced(simulation.client(), namespace);
        api.delete("db", &DeleteParams::default()).await.expect("deleted");
    }
    no_pod_is_left(&simulation).await;
    assert_eq!(told_of_pods(&simulation, "Evicted").await, 1);
    simulation.stop().await;
}

// OPS-211
#[tokio::test(start_paused = true)]
async fn pods_of_one_name_share_the_event_of_their_deletion() {
    let pool = json!({"template": {"spec": {"terminationGracePeriod": "20s"}}});
    let simulation = with_namesakes(pool).await;
    let claim = simulation.some_claim().await;
    simulation.delete::<NodeClaim>(&claim).await;
    no_pod_is_left(&simulation).await;
    assert_eq!(told_of_pods(&simulation, "Disrupted").await, 1);
    simulation.stop().await;
}

// OPS-211
#[tokio::test(start_paused = true)]
async fn a_node_and_its_claim_of_one_name_share_the_warning_of_their_deadline() {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    let client = sandbox.client();
    create::<KwokNodeClass>(&client, json!({"metadata": {"name": "default"}, "spec": {}})).await;
    let finalizers = json!(["karpenter.sh/termination"]);
    let claim = json!({"metadata": {"name": "same", "finalizers": finalizers}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [], "expireAfter": "Never", "terminationGracePeriod": "60s",
    }});
    create::<NodeClaim>(&client, claim).await;
    let is = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions = [is("Launched"), is("Registered"), is("Initialized")];
    let status =
        Patch::Merge(json!({"status": {"providerID": "kwok://same", "nodeName": "same", "conditions": conditions}}));
    let claims: Api<NodeClaim> = Api::all(client.clone());
    claims
        .patch_status("same", &PatchParams::default(), &status)
        .await
        .expect("patched");
    let labels = json!({"karpenter.sh/registered": "true", "karpenter.kwok.sh/kwoknodeclass": "default"});
    let node = json!({"metadata": {"name": "same", "finalizers": finalizers, "labels": labels}, "spec": {"providerID": "kwok://same"}});
    create::<Node>(&client, node).await;
    // Its instance is asked for only while it is not ready.
    let ready = Patch::Merge(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    let nodes: Api<Node> = Api::all(client);
    nodes
        .patch_status("same", &PatchParams::default(), &ready)
        .await
        .expect("patched");
    let simulation = Simulation::join(sandbox, |_| {});
    tokio::time::sleep(Duration::from_secs(20)).await;
    simulation.delete::<NodeClaim>("same").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!simulation.nodes().await.is_empty(), "it drains");
    let warned = simulation.events("TerminationGracePeriodExpiring").await;
    let told: Vec<Option<&str>> = warned
        .iter()
        .map(|event| event.involved_object.kind.as_deref())
        .collect();
    assert_eq!(told, [Some("NodeClaim")]);
    simulation.stop().await;
}
