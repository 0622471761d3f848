//! The node class label, on which everything that terminates nodes depends.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::NodeClaim;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::simulation::hand_edited::with_nodes;
use crate::simulation::harness::{Simulation, name};
use crate::simulation::logs::Logs;

const LABEL: &str = "karpenter.kwok.sh/kwoknodeclass";

fn class(labels: Option<&BTreeMap<String, String>>) -> Option<&str> {
    labels?.get(LABEL).map(String::as_str)
}

fn labelled(value: &Value) -> Value {
    json!({"metadata": {"labels": {LABEL: value}}})
}

// LIF-132, LIF-242
#[tokio::test(start_paused = true)]
async fn the_class_label_is_put_back_on_claims_and_nodes() {
    let logs = Logs::listen();
    let simulation = with_nodes(1, json!({})).await;
    let (node, claim) = (simulation.nodes().await.remove(0), simulation.claims().await.remove(0));
    for value in [Value::Null, json!("other")] {
        simulation.patch::<Node>(&name(&node), labelled(&value)).await;
        simulation.patch::<NodeClaim>(&name(&claim), labelled(&value)).await;
        let mended = async |s: &Simulation| {
            let (nodes, claims) = (s.nodes().await, s.claims().await);
            nodes[0].metadata.labels == node.metadata.labels && claims[0].metadata.labels == claim.metadata.labels
        };
        simulation.until("both are as they were", 5, mended).await;
    }
    assert_eq!(class(node.metadata.labels.as_ref()), Some("default"));
    // Not because the Node was registered anew.
    assert_eq!(logs.with("registered node again"), [""; 0]);
    simulation.stop().await;
}

// LIF-132
#[tokio::test(start_paused = true)]
async fn a_node_of_two_claims_gets_no_class_label() {
    let simulation = with_nodes(1, json!({})).await;
    let node = simulation.nodes().await.remove(0);
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    let sandbox = simulation.crash_with_twin("other", &json!(id)).await;
    let simulation = Simulation::join(sandbox, |_| {});
    simulation.patch::<Node>(&name(&node), labelled(&Value::Null)).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(class(simulation.nodes().await[0].metadata.labels.as_ref()), None);
    // Each claim has its own.
    let claims = simulation.claims().await;
    let mut classes: Vec<_> = claims
        .iter()
        .map(|claim| class(claim.metadata.labels.as_ref()))
        .collect();
    classes.sort_unstable();
    assert_eq!(classes, [Some("default"), Some("other")]);
    // Once the twin gives the machine up, the Node has one claim.
    let api: Api<NodeClaim> = Api::all(simulation.client());
    let gives_up = Patch::Merge(json!({"status": {"providerID": null}}));
    api.patch_status("twin", &PatchParams::default(), &gives_up)
        .await
        .expect("patched");
    let labelled = async |s: &Simulation| class(s.nodes().await[0].metadata.labels.as_ref()) == Some("default");
    simulation.until("the Node has its label", 5, labelled).await;
    simulation.stop().await;
}
