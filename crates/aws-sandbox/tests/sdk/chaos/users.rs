//! What users do: they create, change and delete objects.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;

/// Kinds whose objects users handle.
pub(super) trait Kind: Resource + Clone + DeserializeOwned + Serialize + Debug {}
impl<K: Resource + Clone + DeserializeOwned + Serialize + Debug> Kind for K {}

/// Creates an object; `false` if there is one.
pub(super) async fn create<K: Kind>(api: &Api<K>, object: &Value) -> bool {
    let object: K = serde_json::from_value(object.clone()).unwrap();
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 409 => false,
        Err(error) => panic!("{error}"),
    }
}

/// Changes what may be gone by then.
pub(super) async fn merge<K: Kind>(api: &Api<K>, name: &str, patch: &Value) {
    match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => drop(other.unwrap()),
    }
}

/// Deletes what may be gone by then.
pub(super) async fn delete<K: Kind>(api: &Api<K>, name: &str) {
    let _ = api.delete(name, &DeleteParams::background()).await;
}

/// All objects of a kind.
pub(super) async fn all<K: Kind>(client: &Client) -> Vec<K>
where
    K::DynamicType: Default,
{
    Api::<K>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
}

/// The name of one of them.
pub(super) fn pick<K: Kind>(of: &[K], which: u64) -> Option<String> {
    let index = which.checked_rem(of.len() as u64)?;
    of.get(usize::try_from(index).unwrap()).map(ResourceExt::name_any)
}

/// Pods that run and stay, and all others.
pub(super) async fn pods(client: &Client) -> (usize, usize) {
    let pods: Vec<Pod> = all(client).await;
    let runs = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
    };
    let running = pods.iter().filter(runs).count();
    (running, pods.len() - running)
}
