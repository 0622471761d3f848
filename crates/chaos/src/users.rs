//! What users do in a world: they create, change and delete objects.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object that tests handle.
pub trait Object: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug {}
impl<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug> Object for K {}

/// One of a cluster-wide kind.
pub trait ClusterObject: Object + Resource<Scope = ClusterResourceScope> {}
impl<K: Object + Resource<Scope = ClusterResourceScope>> ClusterObject for K {}

/// One of a namespaced kind.
pub trait NamespacedObject: Object + Resource<Scope = NamespaceResourceScope> {}
impl<K: Object + Resource<Scope = NamespaceResourceScope>> NamespacedObject for K {}

/// Creates an object that is written as JSON; `None` if there is one of that name.
///
/// # Panics
///
/// If it is no object of the kind, or the API refuses it for another reason.
pub async fn create<K: Object>(api: &Api<K>, object: &Value) -> Option<K> {
    let object: K = serde_json::from_value(object.clone()).expect("an object of that kind");
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => None,
        created => Some(created.expect("created")),
    }
}

/// Changes what may be gone by then.
///
/// # Panics
///
/// If the API refuses the change for another reason.
pub async fn merge<K: Object>(api: &Api<K>, name: &str, patch: &Value) {
    match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        changed => drop(changed.expect("changed")),
    }
}

/// Deletes what may be gone by then.
pub async fn delete<K: Object>(api: &Api<K>, name: &str) {
    let _ = api.delete(name, &DeleteParams::background()).await;
}

/// One of them: numbers choose among what there is by then.
pub fn pick<T>(mut of: Vec<T>, which: u64) -> Option<T> {
    let index = which.checked_rem(of.len() as u64)?;
    Some(of.swap_remove(usize::try_from(index).ok()?))
}
