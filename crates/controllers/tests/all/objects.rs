//! Creating objects that tests write as JSON.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Creates a cluster-wide object.
pub(crate) async fn create<K>(client: &Client, object: Value) -> K
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    send(&Api::all(client.clone()), object).await
}

/// Creates an object in a namespace.
pub(crate) async fn create_in<K>(client: &Client, namespace: &str, object: Value) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
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

async fn send<K>(api: &Api<K>, object: Value) -> K
where
    K: Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).expect("an object of that kind");
    api.create(&PostParams::default(), &object).await.expect("created")
}
