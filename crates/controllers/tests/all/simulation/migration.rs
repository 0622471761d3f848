//! Objects that Karpenter wrote stay as they are under Kerf, and those that Kerf writes are what Karpenter would have written.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::{Conditioned, KwokNodeClass, NodeClaim, NodePool};
use kerf_sandbox::Sandbox;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams};
use serde_json::{Value, json};

use crate::objects::{create, create_in};
use crate::simulation::harness::{Simulation, name};

/// What Karpenter computes for the template of [`pool`] (API-196).
const HASH: &str = "12745407319442031341";

fn hashes() -> Value {
    json!({"karpenter.sh/nodepool-hash": HASH, "karpenter.sh/nodepool-hash-version": "v3"})
}

/// A NodePool that Karpenter has seen.
fn pool() -> Value {
    json!({"metadata": {"name": "default", "annotations": hashes()}, "spec": {
        "template": {"spec": {
            "expireAfter": "720h",
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        }},
        "disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"},
    }})
}

/// The labels that Karpenter's KWOK provider gives a machine.
fn labels() -> Value {
    json!({
        "karpenter.sh/nodepool": "default",
        "karpenter.kwok.sh/kwoknodeclass": "default",
        "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": "c-1x-amd64-linux",
        "topology.kubernetes.io/zone": "test-zone-a",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": "default-abcde",
        "karpenter.kwok.sh/instance-cpu": "1",
        "karpenter.kwok.sh/instance-family": "c",
        "karpenter.kwok.sh/instance-memory": "2048",
        "karpenter.kwok.sh/instance-size": "1x",
        "eks-node-viewer/instance-price": "0.041600",
        "kwok-partition": "a",
        "kwok.x-k8s.io/node": "fake",
    })
}

fn annotations() -> Value {
    let mut annotations = hashes();
    annotations["kwok.x-k8s.io/node"] = json!("fake");
    annotations["karpenter.sh/nodeclaim-min-values-relaxed"] = json!("false");
    annotations
}

/// A NodeClaim of Karpenter, without its status.
fn claim(pool_uid: &str) -> Value {
    json!({"metadata": {
        "name": "default-abcde",
        "labels": labels(),
        "annotations": annotations(),
        "finalizers": ["karpenter.sh/termination"],
        "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": pool_uid,
                             "blockOwnerDeletion": true}],
    }, "spec": {
        "expireAfter": "720h",
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]},
            {"key": "karpenter.kwok.sh/kwoknodeclass", "operator": "In", "values": ["default"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-1x-amd64-linux", "c-2x-amd64-linux"]},
        ],
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi", "pods": "1"}},
    }})
}

fn claim_status() -> Value {
    let is = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let amounts = json!({"cpu": "1", "memory": "2Gi", "pods": "110", "ephemeral-storage": "20Gi"});
    json!({"status": {
        "providerID": "kwok://kwok-default-abcde-1",
        "nodeName": "kwok-default-abcde-1",
        "capacity": amounts, "allocatable": amounts,
        "conditions": [is("Launched"), is("Registered"), is("Initialized"), is("Ready")],
    }})
}

/// The Node of that claim, initialized.
fn node(claim_uid: &str) -> Value {
    let mut labels = labels();
    labels["karpenter.sh/registered"] = json!("true");
    labels["karpenter.sh/initialized"] = json!("true");
    json!({"metadata": {
        "name": "kwok-default-abcde-1",
        "labels": labels,
        "annotations": annotations(),
        "finalizers": ["karpenter.sh/termination"],
        "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "default-abcde", "uid": claim_uid,
                             "blockOwnerDeletion": true}],
    }, "spec": {"providerID": "kwok://kwok-default-abcde-1"}, "status": {
        "capacity": {"cpu": "1", "memory": "2Gi", "pods": "110", "ephemeral-storage": "20Gi"},
        "allocatable": {"cpu": "1", "memory": "2Gi", "pods": "110", "ephemeral-storage": "20Gi"},
    }})
}

/// A cluster that Karpenter ran, with one node and a pod on it.
async fn karpenters() -> Sandbox {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    let client = sandbox.client();
    create::<KwokNodeClass>(&client, json!({"metadata": {"name": "default"}, "spec": {}})).await;
    let uid = |meta: &ObjectMeta| meta.uid.clone().expect("a uid");
    let pool: NodePool = create(&client, pool()).await;
    let claim: NodeClaim = create(&client, claim(&uid(&pool.metadata))).await;
    let claims: Api<NodeClaim> = Api::all(client.clone());
    let status = Patch::Merge(claim_status());
    claims
        .patch_status("default-abcde", &PatchParams::default(), &status)
        .await
        .expect("patched");
    create::<Node>(&client, node(&uid(&claim.metadata))).await;
    let container =
        json!({"name": "main", "image": "app", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}});
    let pod =
        json!({"metadata": {"name": "web"}, "spec": {"nodeName": "kwok-default-abcde-1", "containers": [container]}});
    create_in::<Pod>(&client, "default", pod).await;
    sandbox
}

/// What a migration must not change.
fn kept(meta: &ObjectMeta) -> Value {
    json!({
        "labels": meta.labels, "annotations": meta.annotations, "finalizers": meta.finalizers,
        "owners": meta.owner_references, "deleted": meta.deletion_timestamp,
    })
}

#[tokio::test(start_paused = true)]
async fn what_karpenter_wrote_stays_as_it_is() {
    let sandbox = karpenters().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let simulation = Simulation::join(sandbox, |_| {});
    let (claims, nodes) = (simulation.claims().await, simulation.nodes().await);
    tokio::time::sleep(Duration::from_secs(1800)).await;
    let (claims_later, nodes_later) = (simulation.claims().await, simulation.nodes().await);
    assert_eq!((claims_later.len(), nodes_later.len()), (1, 1), "nothing is replaced");
    let (before, after) = (&claims[0], &claims_later[0]);
    assert_eq!(kept(&after.metadata), kept(&before.metadata));
    assert_eq!(after.spec, before.spec);
    assert!(!after.condition_is_true("Drifted"), "{:?}", after.conditions());
    let is_true = |type_: &str| after.condition_is_true(type_);
    assert!(
        ["Launched", "Registered", "Initialized", "Ready"]
            .into_iter()
            .all(is_true)
    );
    assert_eq!(kept(&nodes_later[0].metadata), kept(&nodes[0].metadata));
    let taints = |node: &Node| {
        node.spec
            .as_ref()
            .and_then(|spec| spec.taints.clone())
            .unwrap_or_default()
    };
    assert_eq!(taints(&nodes_later[0]), []);
    let pools: Api<NodePool> = Api::all(simulation.client());
    let pool = pools.get("default").await.expect("a pool");
    assert_eq!(json!(pool.metadata.annotations), hashes());
    assert_eq!(simulation.running().await, 1);
    simulation.stop().await;
}

/// The keys of a map in JSON.
fn keys(of: &Value) -> BTreeSet<String> {
    of.as_object().expect("an object").keys().cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn what_kerf_writes_has_the_shape_that_karpenter_gives_it() {
    let simulation = Simulation::join(karpenters().await, |_| {});
    // It does not fit beside the other.
    simulation.deployment("new", 1, "900m", json!({})).await;
    simulation.until_running(2, 120).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let claims = simulation.claims().await;
    let made = claims
        .iter()
        .find(|claim| name(*claim) != "default-abcde")
        .expect("a claim");
    let theirs = claims
        .iter()
        .find(|claim| name(*claim) == "default-abcde")
        .expect("the other");
    let meta = |claim: &NodeClaim| json!(claim.metadata);
    for field in ["labels", "annotations"] {
        assert_eq!(keys(&meta(made)[field]), keys(&meta(theirs)[field]), "{field}");
    }
    for hash in ["karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"] {
        assert_eq!(
            meta(made)["annotations"][hash],
            hashes()[hash],
            "Karpenter finds no drift"
        );
    }
    for field in ["finalizers", "ownerReferences"] {
        assert_eq!(meta(made)[field], meta(theirs)[field], "{field}");
    }
    let wanted = |claim: &NodeClaim| -> BTreeSet<String> {
        let requirements = claim.spec.requirements.iter();
        requirements.map(|requirement| requirement.key.clone()).collect()
    };
    assert!(
        wanted(made).is_superset(&wanted(theirs)),
        "{:?}",
        made.spec.requirements
    );
    let nodes = simulation.nodes().await;
    let of = |claim: &NodeClaim| {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.clone());
        let is_it = |node: &&Node| node.spec.as_ref().and_then(|spec| spec.provider_id.clone()) == id;
        json!(nodes.iter().find(is_it).expect("a node").metadata)
    };
    for field in ["labels", "annotations"] {
        assert_eq!(keys(&of(made)[field]), keys(&of(theirs)[field]), "{field} of Nodes");
    }
    assert_eq!(of(made)["finalizers"], of(theirs)["finalizers"]);
    let mut owners = of(made)["ownerReferences"].clone();
    owners[0]["name"] = of(theirs)["ownerReferences"][0]["name"].clone();
    owners[0]["uid"] = of(theirs)["ownerReferences"][0]["uid"].clone();
    assert_eq!(owners, of(theirs)["ownerReferences"]);
    simulation.stop().await;
}
