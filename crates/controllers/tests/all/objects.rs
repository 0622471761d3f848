//! Creating objects that tests write as JSON.

use kube::api::PostParams;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

async fn send<K>(api: &Api<K>, object: Value) -> K
where
    K: Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).expect("an object of that kind");
    api.create(&PostParams::default(), &object).await.expect("created")
}
