//! Creating objects that tests write as JSON.

use k8s_openapi::api::core::v1::Pod;
use kerf_chaos::{ClusterObject, NamespacedObject, Object};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// Creates a cluster-wide object.
pub(crate) async fn create<K: ClusterObject>(client: &Client, object: Value) -> K {
    send(&Api::all(client.clone()), object).await
}

/// Creates an object in a namespace.
pub(crate) async fn create_in<K: NamespacedObject>(client: &Client, namespace: &str, object: Value) -> K {
    send(&Api::namespaced(client.clone(), namespace), object).await
}

/// Creates a pod for which kube-scheduler finds no node.
pub(crate) async fn create_unschedulable(client: &Client, namespace: &str, pod: Value) {
    let pod: Pod = create_in(client, namespace, pod).await;
    mark_unschedulable(client, namespace, &pod.name_any()).await;
}

/// Records what kube-scheduler says of a pod for which it finds no node.
pub(crate) async fn mark_unschedulable(client: &Client, namespace: &str, pod: &str) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    pods.patch_status(pod, &PatchParams::default(), &patch)
        .await
        .expect("patched");
}

async fn send<K: Object>(api: &Api<K>, object: Value) -> K {
    let object: K = serde_json::from_value(object).expect("an object of that kind");
    api.create(&PostParams::default(), &object).await.expect("created")
}
