//! Reads and writes of Kubernetes objects that several controllers need.

use kerf_runtime::client::{ApiErrorKind, found};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

/// What became of a write.
#[derive(Debug)]
pub(super) enum Written<K> {
    /// The object as it is now.
    Done(Box<K>),
    /// The object had changed meanwhile, or is gone: nothing was written.
    Stale,
}

/// Merges a patch into an object unless it has changed since it was read.
pub(super) async fn merge_locked<K>(
    api: &Api<K>,
    object: &K,
    mut patch: Value,
    status: bool,
) -> Result<Written<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let version = object.meta().resource_version.clone();
    if let Some(fields) = patch.as_object_mut() {
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
    }
    let (name, params, patch) = (object.name_any(), PatchParams::default(), Patch::Merge(patch));
    let answer = if status {
        api.patch_status(&name, &params, &patch).await
    } else {
        api.patch(&name, &params, &patch).await
    };
    match answer {
        Ok(object) => Ok(Written::Done(Box::new(object))),
        Err(error) => {
            let kind = ApiErrorKind::of(&error);
            if matches!(kind, ApiErrorKind::Conflict | ApiErrorKind::NotFound) {
                Ok(Written::Stale)
            } else {
                Err(error)
            }
        }
    }
}

/// Merges a patch into an object; `None` if it is gone.
pub(super) async fn merge<K>(api: &Api<K>, name: &str, patch: Value) -> Result<Option<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    found(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await)
}
